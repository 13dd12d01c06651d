// A unit on the page: rows in reading order, texts, and under each what is asked about it.

import { h, newId } from './dom.js';
import { clear } from './highlights.js';
import { number, t } from './i18n.js';
import { choiceWidget } from './widget_choice.js';
import { formWidget } from './widget_form.js';
import { scoreWidget } from './widget_score.js';
import { spansWidget } from './widget_spans.js';
import { textWidget } from './widget_text.js';

const MAKERS = { score: scoreWidget, spans: spansWidget, choice: choiceWidget, text: textWidget, form: formWidget };
const KINDS = { image: 'img', audio: 'audio', video: 'video' };

/** Draw a unit; returns its element and its stops, the places that J and K visit. */
export function renderUnit(unit, protocol, answers, spanbar) {
  clear();
  const page = { unit, protocol, answers, spanbar, stops: [], scoped: (scope) => protocol.widgets.filter((one) => one.scope === scope) };
  const parts = [];
  if (unit.annotator_cell) parts.push(apart(page, unit.annotator_cell, 'annotator', t('about_you'), allSlots(unit)));
  let item = 0;
  for (const row of unit.rows) {
    if (!row.context) item += 1;
    parts.push(row.context ? contextRow(page, row) : judgedRow(page, row, item));
  }
  if (unit.document_cell) parts.push(apart(page, unit.document_cell, 'document', t('whole_document'), allSlots(unit)));
  return { element: h('div', { class: `unit ${protocol.unit}` }, ...parts), stops: page.stops };
}

function allSlots(unit) {
  const slots = new Set(unit.rows.flatMap((row) => (row.outputs ?? []).map((output) => output.slot)));
  return [...slots].sort();
}

// -- texts

function textOf(value) {
  return typeof value === 'string' ? { text: value } : (value ?? {});
}

function paragraph(value, markable, label) {
  const { text = '', lang, dir } = textOf(value);
  const element = h('p', { class: markable ? 'text markable' : 'text', dir: dir || 'auto', lang, tabIndex: markable ? 0 : null });
  if (markable) {
    element.setAttribute('role', 'group');
    element.setAttribute('aria-label', label);
    element.setAttribute('aria-roledescription', t('markable_text'));
  }
  element.append(document.createTextNode(text));
  return element;
}

function media(list) {
  return (list ?? []).map((one) => {
    if (!/^(https?:|\/)/i.test(one.url ?? '') || !(one.kind in KINDS)) return null;
    const props = one.kind === 'image' ? { src: one.url, alt: one.alt ?? t('image'), loading: 'lazy' } : { src: one.url, controls: true, preload: 'metadata', 'aria-label': t(one.kind) };
    return h(KINDS[one.kind], { class: 'media', ...props });
  });
}

function contextRow(page, row) {
  const outputs = row.outputs ?? [];
  return h('article', { class: 'row context', 'aria-label': t('context') },
    h('div', { class: 'context-label small', text: t('context') }),
    h('div', { class: columns(page, outputs.length) },
      ((page.protocol.source && row.source) || row.media?.length) &&
        h('section', { class: 'source' }, page.protocol.source && row.source && paragraph(row.source, false), ...media(row.media)),
      ...outputs.map((output) => h('section', { class: 'output' },
        outputs.length > 1 && h('span', { class: 'slot', text: output.slot }), paragraph(output, false)))));
}

const columns = (page, outputs) => (page.protocol.unit === 'output' || outputs < 2 ? 'texts pairs' : `texts beside beside-${Math.min(outputs, 4)}`);

function judgedRow(page, row, item) {
  const outputs = row.outputs ?? [];
  const several = outputs.length > 1;
  const spans = page.scoped('output').find((one) => one.kind === 'spans');
  const editors = [];
  const where = t('item', { n: number(item) });
  const heading = newId('item');
  const sourceMarkable = Boolean(spans?.on_source && row.source && outputs.some((output) => output.cell));
  const source = page.protocol.source && row.source
    ? paragraph(row.source, sourceMarkable, `${where}: ${t('source')}`) : null;
  const sections = outputs.map((output) => outputSection(page, { row, output, where, several, source, editors }));
  if (sourceMarkable && source) page.spanbar.register(source, 'source', textOf(row.source).lang, () => editors);
  const itemWidgets = row.cell
    ? stop(page, { cell: row.cell, scope: 'item', where, slots: outputs.map((output) => output.slot) }) : null;
  return h('article', { class: 'row', 'aria-labelledby': heading },
    h('h2', { class: 'row-number', id: heading, text: where }),
    h('div', { class: columns(page, outputs.length) },
      (source || row.media?.length) && h('section', { class: 'source' }, h('h3', { class: 'label', text: t('source') }), source, ...media(row.media)),
      row.reference && h('section', { class: 'reference' }, h('h3', { class: 'label', text: t('reference') }), paragraph(row.reference, false)),
      ...sections),
    itemWidgets?.element);
}

function outputSection(page, { row, output, where, several, source, editors }) {
  const { lang, text = '' } = textOf(output);
  const spans = page.scoped('output').some((one) => one.kind === 'spans') && output.cell;
  const label = several ? t('output_slot', { slot: output.slot }) : t('output');
  const place = several ? `${where}, ${label}` : where;
  const element = paragraph(output, Boolean(spans), `${place}: ${t('output')}`);
  const head = h('h3', { class: several ? 'label slotted' : 'label' },
    several ? h('span', { class: 'slot', text: output.slot }) : label);
  const postEdited = page.scoped('output').some((one) => one.kind === 'text' && one.style === 'postedit');
  const section = h('section', { class: 'output' }, head, element, ...media(output.media));
  if (!output.cell || !page.scoped('output').length) return section;
  const shared = {
    lang, text, textElement: element, slot: output.slot, slots: (row.outputs ?? []).map((one) => one.slot),
    nodes: { output: element.firstChild, source: source?.firstChild ?? null },
  };
  const made = stop(page, { cell: output.cell, scope: 'output', where: place, shared, prefilled: output.prefilled });
  if (postEdited) section.classList.add('edited');
  const editor = made.widgets.find(({ spec }) => spec.kind === 'spans')?.widget;
  if (editor) {
    editors.push(editor);
    page.spanbar.register(element, 'output', lang, () => [editor]);
  }
  section.append(made.element);
  made.stop.element = section;
  section.dataset.cell = output.cell;
  return section;
}

function apart(page, cell, scope, title, slots) {
  const made = stop(page, { cell, scope, where: title, slots });
  return h('section', { class: `row apart ${scope}` }, h('h2', { class: 'row-title', text: title }), made.element);
}

/** The widgets of one cell, drawn together: one stop for J and K. */
function stop(page, { cell, scope, where, slots = [], shared = {}, prefilled }) {
  const { answers, spanbar } = page;
  const widgets = page.scoped(scope).map((spec) => {
    if (spec.kind === 'spans' && prefilled) answers.begin(cell, spec.name, prefilled);
    const context = {
      cell, slots, nodes: {}, ...shared,
      get: () => answers.get(cell, spec.name),
      set: (value) => answers.set(cell, spec.name, value),
      label: (words) => `${where}: ${words}`,
      editSpan: (editor, index, focus) => spanbar.edit(editor, index, focus),
      scored: () => page.scoped(scope).some((one) => one.kind === 'score' && one.required && answers.get(cell, one.name) !== undefined),
    };
    return { spec, widget: MAKERS[spec.kind](spec, context) };
  });
  const element = h('div', { class: 'ask' }, ...widgets.map(({ widget }) => widget.element));
  element.dataset.cell = cell;
  const made = { cell, where, widgets, element };
  page.stops.push(made);
  return { element, widgets, stop: made };
}

/** What is still open: [{stop, spec, widget}] in reading order. */
export function openQuestions(stops) {
  return stops.flatMap((one) => one.widgets.filter(({ spec, widget }) => spec.required && widget.missing()).map((found) => ({ stop: one, ...found })));
}
