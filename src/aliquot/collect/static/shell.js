// Everything around the unit: header with progress and save state, the bar with Submit, dialogs, messages.

import { formatted, h } from './dom.js';
import { duration, number, said, t } from './i18n.js';

export class Shell {
  /** actions: submit, earlier, giveBack, guidelines, help. */
  constructor(root, actions) {
    this.title = h('h1', { class: 'title', tabIndex: -1, dir: 'auto' });
    this.saved = h('p', { class: 'save-state', role: 'status' });
    this.progress = h('progress', { class: 'progress', max: 1, value: 0, 'aria-label': t('progress') });
    this.progressWords = h('p', { class: 'progress-words' });
    const tool = (key, words, action) => h('button', { type: 'button', class: 'tool', onclick: action, 'aria-keyshortcuts': key, text: words });
    this.header = h('header', { class: 'top' },
      h('div', { class: 'top-inner' },
        h('div', { class: 'top-left' }, this.title, this.progressWords),
        h('div', { class: 'top-right' }, this.saved,
          h('div', { class: 'tools' }, tool('g', t('guidelines'), actions.guidelines), tool('e', t('earlier'), actions.earlier), tool('?', t('keys'), actions.help)))),
      this.progress);
    this.message = h('div', { class: 'message', role: 'alert', hidden: true });
    this.instructions = h('div', { class: 'instructions' });
    this.notice = h('div', { class: 'notice', hidden: true });
    this.place = h('div', { class: 'place' });
    this.main = h('main', { class: 'main', id: 'main' }, this.notice, this.instructions, this.place);
    this.count = h('p', { class: 'count', role: 'status' });
    this.submitWords = h('span', { text: t('submit') });
    this.submit = h('button', { type: 'button', class: 'submit', onclick: actions.submit, 'aria-keyshortcuts': 'Control+Enter' }, this.submitWords,
      h('kbd', { text: 'Ctrl ↵', 'aria-hidden': 'true' }));
    this.giveBack = h('button', { type: 'button', class: 'quiet', onclick: actions.giveBack, text: t('give_back') });
    this.footer = h('footer', { class: 'bottom', hidden: true }, this.message, h('div', { class: 'bottom-inner' }, this.giveBack, this.count, this.submit));
    this.live = h('div', { class: 'visually-hidden', 'aria-live': 'polite' });
    root.replaceChildren(h('a', { class: 'skip', href: '#main', text: t('skip') }), this.header, this.main, this.footer, this.live);
  }

  announce(words, visible = false) {
    this.live.textContent = words;
    if (visible) this.say(words);
  }

  /** A message above the bar, in words; it goes with the next change or by itself. */
  say(words, kind = 'info', action = null) {
    clearTimeout(this.messageTimer);
    this.message.className = `message ${kind}`;
    this.message.replaceChildren(h('p', { dir: 'auto', text: words }), ...(action ? [h('button', { type: 'button', class: 'quiet', text: action.label, onclick: action.run })] : []));
    this.message.hidden = false;
    this.footer.hidden = false;
    if (kind === 'info') this.messageTimer = setTimeout(() => this.hush(), 6000);
  }

  hush() {
    this.message.hidden = true;
    this.message.replaceChildren();
  }

  showSaved({ pending, trouble }) {
    const state = !pending ? 'saved' : trouble ? 'unsaved' : 'saving';
    if (this.savedState === state && !trouble) return;
    this.savedState = state;
    this.saved.className = `save-state ${state}`;
    this.saved.textContent = t(`state_${state}`);
    if (state === 'unsaved') this.say(said(trouble), 'warning');
    else if (this.message.classList.contains('warning')) this.hush();
  }

  showProgress(progress) {
    if (!progress) return;
    const { done, total, seconds_left: left } = progress;
    this.progress.max = Math.max(total, 1);
    this.progress.value = done;
    const words = t('progress_words', { done: number(done), total: number(total) });
    this.progressWords.textContent = left ? `${words} · ${t('time_left', { time: duration(left) })}` : words;
  }

  showCount(open, all) {
    this.count.textContent = open ? t('answers_open', { open: number(open), all: number(all) }) : t('all_answered');
    this.submit.classList.toggle('ready', open === 0);
  }

  /** Instead of a unit: words, and perhaps a button. */
  showWords(title, words, action = null) {
    this.footer.hidden = true;
    this.instructions.hidden = true;
    this.notice.hidden = true;
    const heading = h('h2', { tabIndex: -1, text: title });
    this.place.replaceChildren(h('div', { class: 'words' }, heading, h('p', { dir: 'auto', text: words }),
      action && h('button', { type: 'button', class: 'submit', text: action.label, onclick: action.run })));
    heading.focus();
  }
}

/** A modal dialog with a heading and a close button; resolves when it is closed. */
export function dialog(title, ...content) {
  const heading = h('h2', { text: title, tabIndex: -1 });
  const close = h('button', { type: 'button', class: 'quiet', text: t('close') });
  const box = h('dialog', { 'aria-label': title, class: 'dialog' }, h('div', { class: 'dialog-head' }, heading, close), h('div', { class: 'dialog-body' }, ...content));
  close.addEventListener('click', () => box.close());
  box.addEventListener('click', (event) => event.target === box && box.close());
  document.body.append(box);
  box.showModal();
  heading.focus();
  return { box, closed: new Promise((done) => box.addEventListener('close', () => { box.remove(); done(); }, { once: true })) };
}

export const textDialog = (title, text) => dialog(title, ...formatted(text || t('no_guidelines')));
