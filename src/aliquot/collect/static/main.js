// The page of an annotator: loads the campaign and the next unit, wires answers to the outbox, submits.

import { Api, ApiError } from './api.js';
import { formatted, h } from './dom.js';
import { inEnglish, number, said, setStrings, t } from './i18n.js';
import { Keyboard, keyList } from './keyboard.js';
import { keep, Outbox } from './outbox.js';
import { openQuestions, renderUnit } from './render.js';
import { dialog, Shell, textDialog } from './shell.js';
import { SpanBar } from './spanbar.js';
import { Answers } from './state.js';
import { Clock } from './timing.js';
import { showCode, showExample, showMessages, showQuiz } from './training.js';

const REFRESH_AFTER = 30000; // ms away after which another device may have been used

class Page {
  constructor(token, root) {
    this.api = new Api(token);
    this.shell = new Shell(root, {
      submit: () => this.submit(), earlier: () => this.earlier(), giveBack: () => this.giveBack(),
      guidelines: () => this.guidelines(), help: () => this.help(),
    });
    this.outbox = new Outbox(this.api, (report) => this.reported(report));
    this.clock = new Clock();
    this.spanbar = new SpanBar((words, visible) => this.shell.announce(words, visible));
    this.spanbar.currentCell = () => this.clock.cell;
    this.stops = [];
    this.keyboard = new Keyboard({
      next: () => this.step(1), previous: () => this.step(-1), submit: () => Boolean(this.submit()), undo: () => this.undo(),
      help: () => this.help(), guidelines: () => this.guidelines(), earlier: () => this.earlier(), onward: () => this.onward(),
      widget: (event) => this.widgetKey(event),
    }, this.spanbar);
    this.listen(root);
  }

  listen(root) {
    const touch = (event) => {
      const cell = event.target.closest?.('[data-cell]')?.dataset.cell;
      if (cell) this.clock.focus(cell);
      else this.clock.tick();
    };
    for (const kind of ['focusin', 'pointerdown', 'keydown', 'input']) root.addEventListener(kind, touch, { passive: true });
    let ticked = 0;
    const stirred = (event) => {
      if (event.timeStamp - ticked < 1000) return;
      ticked = event.timeStamp;
      this.clock.tick();
    };
    for (const kind of ['pointermove', 'scroll']) window.addEventListener(kind, stirred, { passive: true });
    document.addEventListener('visibilitychange', () => this.visibility());
    window.addEventListener('pagehide', () => this.outbox.leave());
    window.addEventListener('online', () => this.outbox.flush());
  }

  visibility() {
    const visible = document.visibilityState === 'visible';
    this.clock.show(visible);
    if (!visible) {
      this.hiddenAt = performance.now();
      this.outbox.leave();
    } else if (this.unit && performance.now() - this.hiddenAt > REFRESH_AFTER) this.refresh();
  }

  /** Answers may have come from another device meanwhile. */
  async refresh() {
    if (!(await this.outbox.flush())) return;
    try {
      const { unit } = await this.api.unit(this.unit.assignment);
      if (unit.assignment !== this.unit?.assignment) return;
      this.outbox.know(unit.assignment, unit.revisions);
      this.answers.adopt({ ...unit.answers, ...this.outbox.unsent(unit.assignment) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  // -- loading

  async start() {
    try {
      const state = await this.api.state();
      this.protocol = state.protocol;
      this.guidelinesText = state.guidelines?.text;
      this.shell.title.textContent = state.campaign?.title || state.protocol.title;
      document.title = this.shell.title.textContent;
      this.shell.instructions.replaceChildren(...formatted(this.protocol.instructions));
      this.shell.showProgress(state.progress);
      showMessages(this.shell, state.messages);
      // A worker of a crowd comes again by the shared link, also after the organiser made a new link.
      if (state.annotator.kept_as) keep(state.annotator.kept_as, this.api.token);
      await this.outbox.flush();
      await this.next();
    } catch (error) {
      this.failed(error, () => this.start());
    }
  }

  async next() {
    try {
      this.take(await this.api.next());
    } catch (error) {
      this.failed(error, () => this.next());
    }
  }

  /** Show what the server gave: a unit, the end, or a pause. */
  take(reply) {
    if (reply.progress) this.shell.showProgress(reply.progress);
    if (reply.unit) return this.show(reply.unit);
    this.unit = null;
    this.stops = [];
    this.clock.reset();
    this.spanbar.close();
    this.shell.hush();
    if (reply.quiz) return showQuiz(this, reply.quiz);
    if (reply.tutorial) return showExample(this, reply.tutorial);
    if (reply.paused) return this.shell.showWords(t('paused'), inEnglish(reply.message) || t('paused_words'), { label: t('try_again'), run: () => this.next() });
    this.shell.showWords(t('finished'), inEnglish(reply.message) || t('finished_words'));
    if (reply.code) showCode(this.shell.place, reply);
    return undefined;
  }

  show(unit) {
    this.unit = unit;
    this.outbox.know(unit.assignment, unit.revisions);
    this.answers = new Answers({ ...unit, answers: { ...unit.answers, ...this.outbox.unsent(unit.assignment) } });
    this.clock.reset();
    this.spanbar.close();
    const drawn = renderUnit(unit, this.protocol, this.answers, this.spanbar);
    this.stops = drawn.stops;
    this.byCell = new Map(this.stops.map((stop) => [stop.cell, stop]));
    this.answers.listeners.push((cell, widget, value, foreign) => this.changed(cell, widget, foreign));
    const { shell } = this;
    shell.place.replaceChildren(drawn.element);
    shell.instructions.hidden = false;
    shell.footer.hidden = false;
    shell.hush();
    shell.giveBack.hidden = Boolean(unit.submitted);
    shell.submitWords.textContent = t(unit.submitted ? 'save_and_go_on' : 'submit');
    shell.notice.hidden = !unit.submitted;
    shell.notice.textContent = t('changing_earlier');
    this.allQuestions = this.stops.reduce((sum, stop) => sum + stop.widgets.filter(({ spec }) => spec.required).length, 0);
    this.count();
    this.complained = false;
    window.scrollTo(0, 0);
    shell.title.focus({ preventScroll: true });
    const place = unit.number ? t('document_of', { n: number(unit.number), of: number(unit.of ?? unit.number) }) : '';
    shell.announce(place);
    if (this.stale) shell.say(said(this.stale), 'warning');
    this.stale = null;
    if (this.stops.length) this.clock.focus(this.stops[0].cell);
  }

  failed(error, again) {
    if (!(error instanceof ApiError)) throw error;
    const words = error.status === 0 ? t('offline_start') : said(error);
    this.shell.showWords(t(error.status === 0 ? 'no_connection' : 'not_possible'), words, { label: t('try_again'), run: again });
    if (error.passing) {
      clearTimeout(this.again);
      this.again = setTimeout(again, Math.max(5000, error.wait * 1000));
    }
  }

  // -- answers

  changed(cell, name, foreign) {
    const stop = this.byCell.get(cell);
    const found = stop?.widgets.find(({ spec }) => spec.name === name);
    found?.widget.update();
    if (!foreign) this.outbox.put(this.unit.assignment, cell, this.answers.whole(cell), this.clock.take(cell));
    this.count();
    if (this.complained) this.markMissing();
  }

  count() {
    this.shell.showCount(openQuestions(this.stops).length, this.allQuestions);
  }

  reported(report) {
    this.shell.showSaved(report);
    if (report.progress) this.shell.showProgress(report.progress);
    if (report.refused?.code === 'stale') this.reload(report.refused);
    else if (report.refused) this.shell.say(said(report.refused), 'warning');
  }

  /** An answer was changed in another tab or on another device: show what the server has, and say so. */
  async reload(refused) {
    if (this.unit && this.unit.assignment !== refused.assignment) return this.shell.say(said(refused), 'warning');
    this.stale = refused; // whatever shows a unit next says so
    return this.unit && !this.submitting && this.reopen(refused.assignment);
  }

  undo() {
    const last = this.answers?.undo();
    if (!last) {
      this.shell.announce(t('nothing_to_undo'), true);
      return true;
    }
    const found = this.byCell.get(last.cell)?.widgets.find(({ spec }) => spec.name === last.widget);
    found?.widget.focus();
    this.shell.announce(t('undone'), true);
    return true;
  }

  // -- moving

  /** The stop that has the focus, else the one worked on last. */
  current() {
    const cell = document.activeElement?.closest?.('[data-cell]')?.dataset.cell ?? this.clock.cell;
    return this.stops.findIndex((stop) => stop.cell === cell);
  }

  step(by) {
    if (!this.stops.length) return false;
    const inside = document.activeElement?.closest?.('[data-cell]');
    const from = this.current();
    const to = inside || by < 0 ? Math.min(this.stops.length - 1, Math.max(0, from + by)) : Math.max(0, from);
    this.go(this.stops[to], this.stops[to].widgets[0]);
    return true;
  }

  go(stop, { widget }, open = false) {
    this.clock.focus(stop.cell);
    widget.focus(open);
    const reduced = matchMedia('(prefers-reduced-motion: reduce)').matches;
    stop.element.scrollIntoView({ block: 'nearest', behavior: reduced ? 'auto' : 'smooth' });
  }

  /** Enter: the next open question, from here on, then from the top; Submit when there is none. */
  onward() {
    const open = openQuestions(this.stops);
    if (!open.length) {
      this.shell.submit.focus();
      return true;
    }
    const here = this.current();
    const focused = this.stops[here]?.widgets.find(({ widget }) => widget.element.contains(document.activeElement))?.widget;
    if (focused?.missing()) {
      const before = document.activeElement;
      focused.focus(true); // the next criterion of the same question
      if (document.activeElement !== before) return true;
    }
    const later = open.find(({ stop, widget }) => this.stops.indexOf(stop) > here || (this.stops.indexOf(stop) === here && widget !== focused));
    const target = later ?? open[0];
    this.go(target.stop, target, true);
    return true;
  }

  /** A digit or letter for the widget in focus, else for the first of the current stop that takes it. */
  widgetKey(event) {
    const stop = this.stops[this.current()];
    if (!stop) return false;
    const focused = stop.widgets.filter(({ widget }) => widget.element.contains(event.target));
    const inText = event.target.closest?.('.markable') && stop.widgets.filter(({ spec }) => spec.kind === 'spans');
    const order = focused.length ? focused : inText || stop.widgets;
    return order.some(({ widget }) => widget.key(event));
  }

  // -- submitting

  markMissing() {
    const open = new Set(openQuestions(this.stops).map(({ widget }) => widget));
    for (const stop of this.stops) {
      for (const { widget } of stop.widgets) {
        const missing = open.has(widget);
        if (widget.element.classList.contains('missing') === missing) continue;
        widget.element.classList.toggle('missing', missing);
        widget.element.querySelector('.missing-note')?.remove();
        if (missing) widget.element.prepend(h('p', { class: 'missing-note', text: t('missing') }));
      }
    }
    return open.size;
  }

  complain(open) {
    this.complained = true;
    this.markMissing();
    const [first] = open;
    this.go(first.stop, first, true);
    const what = first.spec.label || t(`ask_${first.spec.kind}`);
    this.shell.say(t('missing_words', { n: number(open.length), where: first.stop.where, what }), 'error');
  }

  async submit() {
    if (!this.unit || this.submitting) return;
    const open = openQuestions(this.stops);
    if (open.length) {
      this.complain(open);
      return;
    }
    this.submitting = true;
    this.shell.submit.setAttribute('aria-busy', 'true');
    let reply = null;
    try {
      this.finishAnswers();
      if (!(await this.outbox.flush())) {
        this.shell.say(t('submit_later'), 'warning');
        return;
      }
      if (this.stale) {
        await this.reopen(this.unit.assignment); // to be looked at before it is submitted
        return;
      }
      reply = await this.api.submit(this.unit.assignment);
      if (reply.missing?.length) this.serverMissing(reply.missing);
      else this.take(reply);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.shell.say(error.status === 0 ? t('submit_later') : said(error), 'warning');
      if (['lease_lost', 'unit_unknown'].includes(error.code)) {
        this.shell.say(said(error), 'warning', { label: t('go_on'), run: () => this.next() });
      }
    } finally {
      this.submitting = false; // before the progress is asked for: the next unit may be submitted at once
      this.shell.submit.removeAttribute('aria-busy');
    }
    if (reply && !reply.missing && !reply.progress) await this.refreshProgress();
  }

  async refreshProgress() {
    try {
      const state = await this.api.state();
      this.shell.showProgress(state.progress);
      showMessages(this.shell, state.messages);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // without it the old progress stands until the next unit
    }
  }

  /** Scores without marks mean no errors; reading time after the last change is told, too. */
  finishAnswers() {
    for (const stop of this.stops) {
      for (const { spec } of stop.widgets) {
        if (spec.kind === 'spans' && spec.required && this.answers.get(stop.cell, spec.name) === undefined) this.answers.set(stop.cell, spec.name, []);
      }
    }
    for (const cell of this.clock.leftOver()) {
      const answer = this.answers.whole(cell);
      if (Object.keys(answer).length) this.outbox.put(this.unit.assignment, cell, answer, this.clock.take(cell));
    }
  }

  serverMissing(missing) {
    const open = missing.flatMap(({ cell, widget }) => {
      const stop = this.byCell.get(cell);
      const found = stop?.widgets.find(({ spec }) => spec.name === widget) ?? stop?.widgets[0];
      return found ? [{ stop, ...found }] : [];
    });
    if (open.length) this.complain(open);
  }

  // -- dialogs

  guidelines() {
    textDialog(t('guidelines'), this.guidelinesText || this.protocol.instructions);
    return true;
  }

  help() {
    const toggle = h('input', { type: 'checkbox', id: 'letters', checked: this.keyboard.letters, onchange: () => this.keyboard.useLetters(toggle.checked) });
    dialog(t('keys'), keyList(this.protocol), h('p', { class: 'field check' }, toggle, h('label', { for: 'letters', text: t('letters_on') })));
    return true;
  }

  earlier() {
    this.showEarlier();
    return true;
  }

  async showEarlier() {
    try {
      await this.outbox.flush();
      const reply = await this.api.history();
      const units = reply.units ?? reply.history ?? reply;
      const shown = dialog(t('earlier'), units.length ? h('ul', { class: 'earlier' }, ...units.map((one) => h('li', {},
        h('button', { type: 'button', class: 'earlier-button', 'aria-current': one.assignment === this.unit?.assignment && 'true', onclick: () => {
          shown.box.close();
          this.reopen(one.assignment);
        } }, h('span', { dir: 'auto', text: /^\d+$/.test(one.label) ? t('document_n', { n: number(Number(one.label)) }) : one.label }), h('span', { class: 'small', text: t(one.done ? 'done' : 'open') }))))) : h('p', { text: t('nothing_earlier') }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.shell.say(said(error), 'warning');
    }
  }

  async reopen(assignment) {
    try {
      const reply = await this.api.unit(assignment);
      this.show(reply.unit ?? reply);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.shell.say(said(error), 'warning');
    }
  }

  giveBack() {
    const reason = h('textarea', { rows: 3, id: 'reason', dir: 'auto' });
    const button = h('button', { type: 'button', class: 'submit', text: t('give_back'), onclick: async () => {
      shown.box.close();
      try {
        await this.outbox.flush();
        const reply = await this.api.giveBack(this.unit.assignment, reason.value);
        if (reply?.unit || reply?.finished) this.take(reply);
        else await this.next();
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        this.shell.say(said(error), 'warning');
      }
    } });
    const shown = dialog(t('give_back'), h('p', { text: t('give_back_words') }), h('label', { for: 'reason', text: t('give_back_reason') }), reason, button);
  }
}

const settings = JSON.parse(document.getElementById('settings').textContent);
setStrings(settings.strings, settings.locale);
const page = new Page(location.pathname.split('/').pop(), document.getElementById('page'));
page.start();
