// Keys of the page. A focused widget gets a key first; single letters can be switched off (WCAG 2.1.4).

import { h } from './dom.js';
import { t } from './i18n.js';

const SWITCH = 'aliquot:letters';
const inText = (node) => node?.matches?.('textarea, select, input:not([type=range]):not([type=radio]):not([type=checkbox])');

/** The Latin letter of a key also on Cyrillic, Greek or Arabic keyboards. */
function letter(event) {
  if (/^[a-z?]$/i.test(event.key)) return event.key.toLowerCase();
  if (/^[\x20-\x7e]$/.test(event.key) || event.key.length > 1) return null;
  return /^Key([A-Z])$/.exec(event.code)?.[1].toLowerCase() ?? null;
}

export class Keyboard {
  /** actions: next, previous, submit, undo, help, guidelines, earlier, onward, widget(event). */
  constructor(actions, spanbar) {
    this.actions = actions;
    this.spanbar = spanbar;
    try {
      this.letters = localStorage.getItem(SWITCH) !== 'off';
    } catch {
      this.letters = true;
    }
    document.addEventListener('keydown', (event) => this.#down(event));
  }

  useLetters(on) {
    this.letters = on;
    try {
      localStorage.setItem(SWITCH, on ? 'on' : 'off');
    } catch {
      // Kept for this visit only.
    }
  }

  #down(event) {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]')) return;
    if (this.#handled(event)) event.preventDefault();
  }

  #handled(event) {
    const command = event.ctrlKey || event.metaKey;
    if (command && event.key === 'Enter') return this.actions.submit();
    if (this.spanbar.key(event)) return true;
    if (inText(event.target)) {
      if (event.key !== 'Escape') return false;
      event.target.blur();
      return true;
    }
    if (command && event.key.toLowerCase() === 'z') return this.actions.undo();
    if (command || event.altKey) return false;
    if (event.key === 'Enter' && !event.target.closest?.('button, a, summary')) return this.actions.onward();
    if (!this.letters && event.key.length === 1 && !/[0-9]/.test(event.key)) return false;
    if (!event.target.closest?.('button, a') || /^[0-9]$/.test(event.key)) {
      if (this.actions.widget(event)) return true;
    }
    const action = { j: 'next', k: 'previous', u: 'undo', '?': 'help', g: 'guidelines', e: 'earlier' }[letter(event)];
    return action ? this.actions[action]() : false;
  }
}

/** The list of keys for the help dialog, fitting the protocol. */
export function keyList(protocol) {
  const kinds = new Set(protocol.widgets.map((one) => one.kind));
  const styles = new Set(protocol.widgets.map((one) => one.style));
  const rows = [['J  K', 'keys_next'], ['Tab', 'keys_tab'], ['Enter', 'keys_enter'], ['Ctrl Enter', 'keys_submit'], ['U  Ctrl Z', 'keys_undo']];
  if (kinds.has('spans')) {
    rows.push(['← →', 'keys_words'], ['Shift ← →', 'keys_extend'], ['Ctrl ← →', 'keys_letters'], ['1  2 …', 'keys_severity'], ['N', 'keys_none'], ['Delete', 'keys_delete']);
  }
  if (kinds.has('score')) rows.push(styles.has('slider') ? ['0 – 9', 'keys_number'] : ['0 – 9', 'keys_scale'], ['← →', 'keys_arrows']);
  if (styles.has('pairwise')) rows.push(['1  2 …', 'keys_pair'], ['A  B  =', 'keys_ab']);
  if (styles.has('best-worst')) rows.push(['1  2 …', 'keys_best'], ['Shift 1  2 …', 'keys_worst']);
  if (styles.has('ranking')) rows.push(['1  2 …', 'keys_rank']);
  rows.push(['G', 'keys_guidelines'], ['E', 'keys_earlier'], ['Esc', 'keys_escape'], ['?', 'keys_help']);
  return h('dl', { class: 'keys' }, ...rows.flatMap(([keys, words]) => [
    h('dt', {}, ...keys.split('  ').map((key) => h('kbd', { text: key }))), h('dd', { text: t(words) })]));
}
