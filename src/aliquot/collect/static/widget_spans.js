// Error spans on an output and, for omissions, on the source: severity, category, a list that says them in words.

import { h, newId } from './dom.js';
import { LEVELS, paint } from './highlights.js';
import { named, t } from './i18n.js';
import { codePoints, utf16 } from './text.js';

export const severityKey = (widget, index) => String(widget.severities[index].key ?? index + 1);
export const severityName = (severity) => severity.label || named(severity.name);

/** Categories as [{id, label, group}] leaves; a group without children is a leaf itself. */
export function categoryGroups(widget) {
  return Object.entries(widget.categories ?? {}).map(([group, children]) => ({
    group,
    label: named(group),
    leaves: children.map((child) => ({ id: `${group}/${child}`, label: named(child) })),
  }));
}

export function spansWidget(widget, context) {
  const owner = newId('spans');
  const list = h('ul', { class: 'spans', 'aria-label': context.label(t('marked')) });
  const none = h('button', { type: 'button', class: 'toggle none', onclick: () => toggleNone() },
    t('no_errors'), h('kbd', { text: 'N', 'aria-hidden': 'true' }));
  const count = h('span', { class: 'small spans-hint', text: t('spans_hint') });
  const element = h('div', { class: 'widget spans-widget' }, list, h('div', { class: 'under' }, none, count));
  const needsCategory = categoryGroups(widget).length > 0;
  const self = { widget, context, element, owner, update, missing, focus, key, add, change, remove, at, value, needsCategory };

  function value() {
    return context.get() ?? [];
  }

  function toggleNone() {
    if (value().length) return;
    context.set(context.get() === undefined ? [] : undefined);
  }

  /** Mark [start, end) in UTF-16 units; the new span's place in the list, or -1 where it may not be. */
  function add(side, start, end, severity) {
    const text = context.nodes[side].data;
    const from = codePoints(text, start);
    const to = from + codePoints(text.slice(start, end), end - start);
    const spans = value();
    const twin = spans.findIndex((span) => span.side === side && span.start === from && span.end === to);
    if (twin >= 0) {
      change(twin, { severity });
      return twin;
    }
    if (widget.overlap === false && spans.some((span) => span.side === side && span.start < to && from < span.end)) return -1;
    const span = { start: from, end: to, quote: text.slice(start, end), severity, category: null, side };
    context.set([...spans, span]);
    return spans.length;
  }

  function change(index, patch) {
    context.set(value().map((span, at_) => (at_ === index ? { ...span, ...patch } : span)));
  }

  function remove(index) {
    const rest = value().filter((_, at_) => at_ !== index);
    context.set(rest.length ? rest : undefined);
  }

  /** The span around an offset, the shortest one; -1 if there is none. */
  function at(side, start, end = start) {
    const text = context.nodes[side]?.data ?? '';
    const from = codePoints(text, start);
    const to = codePoints(text, end);
    let best = -1;
    value().forEach((span, index) => {
      const inside = span.side === side && span.start <= from && to <= span.end;
      if (inside && (best < 0 || span.end - span.start < value()[best].end - value()[best].start)) best = index;
    });
    return best;
  }

  function missing() {
    // A score without marks says that there are no errors.
    return (context.get() === undefined && !context.scored()) || (needsCategory && value().some((span) => !span.category));
  }

  function focus(open = false) {
    const incomplete = open && needsCategory ? value().findIndex((span) => !span.category) : -1;
    if (incomplete >= 0) context.editSpan(self, incomplete, true);
    else context.textElement.focus();
  }

  function key(event) {
    if (event.key.toLowerCase() !== 'n' || value().length) return false;
    toggleNone();
    return true;
  }

  function words(span) {
    const severity = widget.severities.find((one) => one.name === span.severity);
    const parts = [severity ? severityName(severity) : named(span.severity ?? '')];
    if (span.side === 'source') parts.push(t('in_source'));
    if (needsCategory) parts.push(span.category ? span.category.split('/').map(named).join(', ') : t('category_missing'));
    return parts.join(' · ');
  }

  function update() {
    const spans = value();
    const marks = spans.flatMap((span) => {
      const node = context.nodes[span.side ?? 'output'];
      if (!node) return [];
      const level = Math.max(0, widget.severities.findIndex((one) => one.name === span.severity));
      return [{ name: `severity-${level % LEVELS}`, node, start: utf16(node.data, span.start), end: utf16(node.data, span.end) }];
    });
    paint(owner, marks);
    list.replaceChildren(...spans.map((span, index) => {
      const level = Math.max(0, widget.severities.findIndex((one) => one.name === span.severity)) % LEVELS;
      return h('li', {},
        h('button', { type: 'button', class: `chip level-${level}`, onclick: () => context.editSpan(self, index, true) },
          h('q', { dir: 'auto', lang: context.lang, text: shorten(span.quote) }), h('span', { class: 'chip-words', text: words(span) })),
        h('button', { type: 'button', class: 'chip-remove', 'aria-label': t('remove_mark', { quote: shorten(span.quote) }), text: '×', onclick: () => {
          remove(index);
          context.textElement.focus();
        } }));
    }));
    list.hidden = spans.length === 0;
    none.hidden = spans.length > 0;
    none.setAttribute('aria-pressed', String(context.get() !== undefined && spans.length === 0));
    count.hidden = context.get() !== undefined;
  }
  update();
  return self;
}

function shorten(quote) {
  const points = Array.from(quote ?? '');
  return points.length > 40 ? `${points.slice(0, 24).join('')}…${points.slice(-12).join('')}` : points.join('');
}
