// Marking text: the selection of mouse, touch or keys, and the small bar beside it with severities and categories.

import { h } from './dom.js';
import { t } from './i18n.js';
import { graphemes, neighbour, tidyRange, words } from './text.js';
import { categoryGroups, severityKey, severityName } from './widget_spans.js';

const KEYS = '123456789abcdefghilmnopqrstvwxyz'; // of categories; without the page's own keys

export class SpanBar {
  constructor(announce) {
    this.announce = announce;
    this.texts = new WeakMap();
    this.element = h('div', { class: 'spanbar', role: 'dialog', 'aria-label': t('mark'), hidden: true });
    this.target = null; // {editors, side, start, end} a selection, or {editor, index} a span
    this.dragging = false;
    this.keys = new Map();
    document.body.append(this.element);
    document.addEventListener('pointerdown', (event) => this.#pointerDown(event));
    document.addEventListener('pointerup', (event) => this.#pointerUp(event));
    document.addEventListener('selectionchange', () => this.#selectionChanged());
  }

  /** A text that can be marked; editors() are the span widgets its marks may go to. */
  register(element, side, lang, editors) {
    this.texts.set(element, { element, side, lang, editors, node: element.firstChild });
    element.addEventListener('keydown', (event) => this.#textKey(event, this.texts.get(element)));
    element.addEventListener('focus', () => this.#textFocus(this.texts.get(element)));
  }

  get open() {
    return !this.element.hidden;
  }

  close(restore = false) {
    if (!this.open) return;
    const back = this.target?.from;
    this.element.hidden = true;
    this.target = null;
    this.keys.clear();
    if (restore && back?.isConnected) back.focus();
  }

  // -- selections

  #textOf(node) {
    const element = (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node)?.closest?.('.markable');
    return element ? this.texts.get(element) : undefined;
  }

  #selection() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    const text = this.#textOf(range.startContainer) ?? this.#textOf(range.endContainer);
    if (!text) return null;
    const start = range.startContainer === text.node ? range.startOffset : 0;
    const end = range.endContainer === text.node ? range.endOffset : text.node.data.length;
    const tidy = tidyRange(text.node.data, start, end, text.lang);
    return tidy && { text, start: tidy[0], end: tidy[1] };
  }

  #selectionChanged() {
    if (this.dragging || this.target?.index !== undefined) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const found = this.#selection();
      if (found) this.#offer(found);
      else if (this.target?.index === undefined && !this.element.contains(document.activeElement)) this.close();
    }, 60);
  }

  #pointerDown(event) {
    if (this.element.contains(event.target)) return;
    this.dragging = event.pointerType === 'mouse';
    if (this.target?.index !== undefined) this.close();
  }

  #pointerUp(event) {
    this.dragging = false;
    if (this.element.contains(event.target)) return;
    const text = this.#textOf(event.target);
    if (!text) return;
    // The browser settles the selection after this event.
    setTimeout(() => {
      const found = this.#selection();
      if (found) this.#offer(found);
      else this.#clicked(text, event);
    }, 0);
  }

  /** A click on a mark opens it; a tap on a word offers to mark the word. */
  #clicked(text, event) {
    const offset = offsetAt(event.clientX, event.clientY, text.node);
    if (offset === null) return;
    for (const editor of text.editors()) {
      const index = editor.at(text.side, offset);
      if (index >= 0) {
        this.edit(editor, index, false);
        return;
      }
    }
    if (event.pointerType === 'mouse') return;
    const word = words(text.node.data, text.lang).find(([start, end]) => start <= offset && offset <= end);
    if (word) select(text.node, ...word);
  }

  #offer({ text, start, end }) {
    // What is offered already stays: a button that is replaced between press and release loses the click.
    const { target } = this;
    if (this.open && target?.index === undefined && target?.text === text && target.start === start && target.end === end) return;
    this.target = { text, editors: text.editors(), side: text.side, start, end, from: text.element };
    const severities = this.target.editors[0].widget.severities;
    this.keys.clear(); // while the text has the focus its own keys mark
    const buttons = severities.map((severity, index) =>
      this.#button(severityName(severity), severityKey(this.target.editors[0].widget, index), () => this.mark(index), `level-${index}`));
    const rows = [h('div', { class: 'bar-row' }, ...buttons)];
    if (this.target.editors.length > 1) rows.unshift(this.#outputs());
    this.#show(rows, rectangle(text.node, start, end));
  }

  /** A mark on a source that several outputs share: which output lacks it? */
  #outputs() {
    const current = this.currentCell?.();
    const chosen = this.target.editors.findIndex((editor) => editor.context.cell === current);
    this.target.chosen = Math.max(0, chosen);
    return h('div', { class: 'bar-row', role: 'group', 'aria-label': t('missing_in') }, h('span', { class: 'small', text: t('missing_in') }),
      ...this.target.editors.map((editor, index) => {
        const button = h('button', { type: 'button', class: 'bar-button', 'aria-pressed': String(index === this.target.chosen), text: editor.context.slot,
          onclick: () => {
            this.target.chosen = index;
            for (const other of button.parentElement.querySelectorAll('button')) other.setAttribute('aria-pressed', String(other === button));
          } });
        return button;
      }));
  }

  /** Give the selection a severity; with categories the bar then asks for one. */
  mark(severity) {
    const { editors, side, start, end, chosen = 0, from } = this.target;
    const editor = editors[chosen];
    const index = editor.add(side, start, end, editor.widget.severities[severity].name);
    getSelection().removeAllRanges();
    this.target = null;
    if (index < 0) {
      this.close();
      this.announce(t('no_overlap'), true);
      return;
    }
    this.announce(t('marked_as', { quote: editor.value()[index].quote, severity: severityName(editor.widget.severities[severity]) }));
    this.cursor = { text: this.texts.get(from), range: [start, end], anchor: [start, end] };
    if (editor.needsCategory) this.edit(editor, index, true, from);
    else {
      this.close();
      from.focus({ preventScroll: true });
    }
  }

  // -- one span

  /** Change a mark: severity, category, remove. */
  edit(editor, index, focus, from = document.activeElement) {
    const span = editor.value()[index];
    if (!span) return;
    const { widget, context } = editor;
    this.target = { editor, index, from: from === document.body ? context.textElement : from };
    this.keys.clear();
    const severityRow = h('div', { class: 'bar-row' },
      ...widget.severities.map((severity, at) => {
        const chosen = severity.name === span.severity;
        const button = this.#button(severityName(severity), editor.needsCategory ? null : severityKey(widget, at), () => {
          editor.change(index, { severity: severity.name });
          if (editor.needsCategory) this.edit(editor, index, true, this.target.from);
          else this.close(true);
        }, `level-${at}`);
        button.setAttribute('aria-pressed', String(chosen));
        return button;
      }),
      h('button', { type: 'button', class: 'bar-button remove', text: t('remove'), onclick: () => this.#remove() }),
      h('button', { type: 'button', class: 'bar-button close', 'aria-label': t('close'), text: '×', onclick: () => this.close(true) }));
    const rows = [severityRow];
    if (editor.needsCategory) rows.push(this.#categories(editor, index, span));
    const node = context.nodes[span.side ?? 'output'];
    const text = node.data;
    const start = [...text].slice(0, span.start).join('').length;
    const end = start + (span.quote?.length ?? 0);
    this.#show(rows, rectangle(node, start, Math.min(end, text.length)));
    if (focus) (this.element.querySelector('[aria-current=true]') ?? this.element.querySelector(editor.needsCategory ? '.category' : '.bar-button')).focus({ preventScroll: true });
  }

  #categories(editor, index, span, openGroup = span.category?.split('/')[0]) {
    const box = h('div', { class: 'categories' });
    const draw = (group) => {
      this.keys.clear();
      const groups = categoryGroups(editor.widget);
      const choose = (id) => {
        editor.change(index, { category: id });
        this.close(true);
      };
      const inGroup = groups.find((one) => one.group === group && one.leaves.length);
      const parts = inGroup
        ? [h('button', { type: 'button', class: 'category back', text: `‹ ${inGroup.label}`, onclick: () => draw(null) }),
          ...inGroup.leaves.map((leaf, at) => this.#button(leaf.label, KEYS[at], () => choose(leaf.id), 'category', span.category === leaf.id))]
        : groups.map((one, at) => this.#button(one.label, KEYS[at], () => (one.leaves.length ? draw(one.group) : choose(one.group)), 'category', span.category === one.group));
      const had = box.contains(document.activeElement);
      box.replaceChildren(...parts);
      if (inGroup) this.keys.set('Backspace', () => draw(null));
      if (had) box.querySelectorAll('button')[inGroup ? 1 : 0]?.focus({ preventScroll: true });
    };
    draw(openGroup);
    return box;
  }

  #remove() {
    const { editor, index } = this.target;
    editor.remove(index);
    this.close(true);
    if (document.activeElement === document.body) editor.context.textElement.focus();
  }

  // -- keys

  /** Keys while a span is being edited; the page asks here first. */
  key(event) {
    if (!this.open) return false;
    if (event.key === 'Escape') {
      getSelection().removeAllRanges();
      this.close(true);
      return true;
    }
    if (this.target?.index === undefined || event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === 'Delete') {
      this.#remove();
      return true;
    }
    const inside = [...this.element.querySelectorAll('button')];
    const here = inside.indexOf(document.activeElement);
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (move && here >= 0) {
      inside[(here + move + inside.length) % inside.length].focus();
      return true;
    }
    const action = this.keys.get(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    if (action) action();
    return Boolean(action);
  }

  #textFocus(text) {
    if (this.cursor?.text !== text) this.cursor = { text, range: [0, 0], anchor: [0, 0] };
  }

  #textKey(event, text) {
    if (event.altKey || event.metaKey) return;
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 'up', ArrowDown: 'down', Home: 'home', End: 'end' };
    if (event.key in moves) {
      this.#move(event, text, moves[event.key]);
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    const widget = text.editors()[0].widget;
    const severity = widget.severities.findIndex((_, index) => severityKey(widget, index).toLowerCase() === event.key.toLowerCase());
    if (severity >= 0 && !event.ctrlKey) {
      const found = this.#selection();
      if (found) {
        this.target = { ...this.target, text, editors: text.editors(), side: text.side, start: found.start, end: found.end, from: text.element, index: undefined };
        if (this.target.chosen === undefined && this.target.editors.length > 1) {
          this.target.chosen = Math.max(0, this.target.editors.findIndex((editor) => editor.context.cell === this.currentCell?.()));
        }
        this.mark(severity);
      } else this.announce(t('select_first'), true);
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === 'Delete' || event.key === 'Backspace') {
      const [start, end] = this.cursor?.range ?? [0, 0];
      for (const editor of text.editors()) {
        const index = editor.at(text.side, start, end);
        if (index < 0 || end === 0) continue;
        editor.remove(index);
        getSelection().removeAllRanges();
        this.close();
        event.preventDefault();
        event.stopPropagation();
        return;
      }
    }
  }

  #move(event, text, move) {
    const data = text.node.data;
    const segments = (event.ctrlKey ? graphemes : words)(data, text.lang);
    if (!segments.length) return;
    const { range } = this.cursor;
    let next;
    if (move === 'home') [next] = segments;
    else if (move === 'end') next = segments.at(-1);
    else if (move === 'up' || move === 'down') next = verticalNeighbour(text.node, segments, range, move);
    else {
      const forward = getComputedStyle(text.element).direction === 'rtl' ? move < 0 : move > 0;
      const fresh = range[1] === 0 && getSelection().isCollapsed;
      next = fresh ? (forward ? segments[0] : segments.at(-1)) : neighbour(segments, range, forward);
    }
    const anchor = event.shiftKey && range[1] > 0 ? this.cursor.anchor : next;
    this.cursor = { text, range: next, anchor };
    const start = Math.min(anchor[0], next[0]);
    const end = Math.max(anchor[1], next[1]);
    select(text.node, start, end);
    this.announce(data.slice(start, end));
  }

  // -- drawing

  #button(label, key, action, style, chosen = false) {
    const button = h('button', { type: 'button', class: `bar-button ${style}`, 'aria-current': chosen && 'true', onclick: action },
      h('span', { text: label }), key && h('kbd', { text: key.toUpperCase(), 'aria-hidden': 'true' }));
    button.addEventListener('pointerdown', (event) => event.preventDefault()); // the selection stays
    if (key) this.keys.set(key.toLowerCase(), action);
    return button;
  }

  #show(rows, rect) {
    this.element.replaceChildren(...rows);
    this.element.hidden = false;
    const { style } = this.element;
    const box = this.element.getBoundingClientRect();
    const left = Math.max(8, Math.min(rect.left, document.documentElement.clientWidth - box.width - 8));
    const below = rect.bottom + 8;
    const fits = below + box.height < document.documentElement.clientHeight - 8;
    style.setProperty('--left', `${left}px`);
    style.setProperty('--top', `${fits ? below : Math.max(8, rect.top - box.height - 8)}px`);
    // On a phone the bar is a sheet at the bottom: the marked text moves out from under it.
    const sheet = getComputedStyle(this.element).bottom === '0px' ? box.height : 0;
    const hidden = rect.bottom + sheet + 16 - document.documentElement.clientHeight;
    if (sheet && hidden > 0) window.scrollBy(0, hidden);
  }
}

function select(node, start, end) {
  getSelection().setBaseAndExtent(node, start, node, end);
}

function rectangle(node, start, end) {
  const range = document.createRange();
  range.setStart(node, start);
  range.setEnd(node, end);
  const parts = range.getClientRects();
  return parts.length ? parts[parts.length - 1] : range.getBoundingClientRect();
}

function offsetAt(x, y, node) {
  const found = document.caretPositionFromPoint
    ? document.caretPositionFromPoint(x, y)
    : (({ startContainer, startOffset }) => ({ offsetNode: startContainer, offset: startOffset }))(document.caretRangeFromPoint(x, y) ?? {});
  return found?.offsetNode === node ? found.offset : null;
}

/** The word above or below the middle of a range. */
function verticalNeighbour(node, segments, range, move) {
  const here = range[1] ? range : segments[0];
  const rect = rectangle(node, ...here);
  const step = rect.height * (move === 'down' ? 1.25 : -0.75) + (move === 'down' ? rect.height / 4 : 0);
  const x = (rect.left + rect.right) / 2;
  for (const factor of [1, 1.4]) {
    const offset = offsetAt(x, rect.top + step * factor, node);
    if (offset === null) continue;
    const found = segments.find(([, end]) => end > offset);
    if (found && (found[0] !== here[0])) return found;
  }
  return move === 'down' ? segments.at(-1) : segments[0];
}
