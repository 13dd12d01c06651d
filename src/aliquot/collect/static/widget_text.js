// Free text: a post-edited output with its live difference, or a comment.

import { h, newId } from './dom.js';
import { t } from './i18n.js';
import { difference } from './text.js';

const plainLines = (text) => text.replace(/\r\n?/g, '\n'); // a textarea does the same

export function textWidget(widget, context) {
  return widget.style === 'postedit' ? postEdit(widget, context) : comment(widget, context);
}

function area(label, context, rows) {
  return h('textarea', { rows, 'aria-label': context.label(label), dir: 'auto', lang: context.lang, spellcheck: true, id: newId('text') });
}

function postEdit(widget, context) {
  const original = plainLines(context.text ?? '');
  const label = widget.label || t('postedit');
  const field = area(label, context, Math.min(12, Math.max(3, Math.ceil(original.length / 60))));
  const diff = h('p', { class: 'text diff', dir: 'auto', lang: context.lang });
  const diffBox = h('div', { class: 'diff-box', hidden: true }, h('span', { class: 'small', text: t('your_changes') }), diff);
  const fine = h('button', { type: 'button', class: 'toggle', onclick: () => context.set(context.get() === original ? undefined : original) },
    t('correct_as_it_is'));
  const element = h('div', { class: 'widget post-edit' },
    h('label', { class: 'criterion-label', for: field.id, dir: 'auto', text: label }), field, h('div', { class: 'under' }, fine), diffBox);
  field.addEventListener('input', () => context.set(field.value));
  function update() {
    const value = context.get();
    const shown = value ?? original;
    if (field.value !== shown) field.value = shown;
    fine.setAttribute('aria-pressed', String(value === original));
    const changed = value !== undefined && value !== original;
    diffBox.hidden = !changed;
    if (changed) {
      diff.replaceChildren(...difference(original, value, context.lang).map(([kind, text]) => (kind === 'same' ? text : h(kind, { text }))));
    }
  }
  update();
  return { element, update, missing: () => context.get() === undefined, focus: () => field.focus(), key: () => false };
}

function comment(widget, context) {
  const label = widget.label || t('comment');
  const field = area(label, context, 2);
  field.placeholder = widget.required ? '' : t('optional');
  field.addEventListener('input', () => context.set(field.value === '' ? undefined : field.value));
  const element = h('div', { class: 'widget comment' }, h('label', { class: 'criterion-label', for: field.id, dir: 'auto', text: label }), field);
  function update() {
    const value = context.get() ?? '';
    if (field.value !== value) field.value = value;
  }
  update();
  return { element, update, missing: () => !context.get()?.trim(), focus: () => field.focus(), key: () => false };
}
