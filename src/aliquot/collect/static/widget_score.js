// Scores: a slider with anchors, or a scale of labelled steps (Likert, SQM); one, or one per criterion.

import { h, newId } from './dom.js';
import { named, number, t } from './i18n.js';

const MOST_STEPS = 11; // a scale with more steps is a slider
const TYPING = 1200; // ms within which typed digits make one number

/** Steps of a scale, or null where a slider is meant. */
function steps(widget) {
  if (widget.style === 'slider') return null;
  const step = widget.step || 1;
  const count = Math.round((widget.high - widget.low) / step) + 1;
  if (count > MOST_STEPS) return null;
  return Array.from({ length: count }, (_, index) => widget.low + index * step);
}

export function scoreWidget(widget, context) {
  const criteria = widget.criteria?.length ? widget.criteria : [null];
  const scale = steps(widget);
  const read = (criterion) => {
    const value = context.get();
    return criterion === null ? value : value?.[criterion];
  };
  const write = (criterion, value) => {
    if (criterion === null) return context.set(value);
    const whole = { ...context.get(), [criterion]: value };
    if (value === undefined) delete whole[criterion];
    return context.set(Object.keys(whole).length ? whole : undefined);
  };
  const parts = criteria.map((criterion) => {
    const label = criterion === null ? widget.label || t('score') : named(criterion);
    const make = scale ? stepScale : slider;
    return make(widget, { label, scale, context, read: () => read(criterion), write: (value) => write(criterion, value) });
  });
  const firstOpen = () => parts.find((part) => part.read() === undefined || part.read() === null);
  return {
    element: h('div', { class: 'widget score' }, ...parts.map((part) => part.element)),
    update: () => parts.forEach((part) => part.update()),
    missing: () => Boolean(firstOpen()),
    focus: (open = false) => ((open && firstOpen()) || parts[0]).focus(),
    key: (event) => (parts.find((part) => part.element.contains(event.target)) ?? firstOpen() ?? parts[0]).key(event),
  };
}

function anchors(widget) {
  return Object.entries(widget.anchors ?? {})
    .map(([at, words]) => [Number(at), words])
    .sort((x, y) => x[0] - y[0]);
}

/** Words under a scale, each below its place; in equal columns where they would collide. */
function anchorLine(marks) {
  if (!marks.length) return null;
  const width = 0.88 / marks.length;
  const starts = marks.map(([, , place]) => Math.min(1 - width, Math.max(0, place - width / 2)));
  const placed = marks.length > 1 && starts.every((start, index) => index === 0 || start >= starts[index - 1] + width - 1e-9);
  const line = h('div', { class: `anchors${placed ? ' placed' : ''}${marks.length > 2 ? ' many' : ''}`, 'aria-hidden': 'true' },
    ...marks.map(([at, words], index) => {
      const anchor = h('span', { class: 'anchor' }, h('b', { text: number(at) }), h('bdi', { text: words }));
      anchor.style.setProperty('--start', `${starts[index] * 100}%`);
      return anchor;
    }));
  line.style.setProperty('--marks', String(marks.length));
  line.style.setProperty('--width', `${width * 100}%`);
  return line;
}

function slider(widget, { label, context, read, write }) {
  const { low, high } = widget;
  const step = widget.step || 1;
  const id = newId('slider');
  const range = h('input', { type: 'range', id, min: low, max: high, step, class: 'range', 'aria-label': context.label(label) });
  const field = h('input', {
    type: 'text', inputmode: 'decimal', class: 'number', 'aria-label': `${context.label(label)}, ${t('as_number')}`, autocomplete: 'off',
    tabIndex: -1, size: String(high).length + 1, placeholder: '–',
  });
  const marks = anchors(widget);
  const element = h(
    'div',
    { class: 'criterion' },
    h('label', { for: id, class: 'criterion-label', dir: 'auto', text: label }),
    h('div', { class: 'slide' },
      h('div', { class: 'slide-line' }, range, anchorLine(marks.map(([at, words]) => [at, words, (at - low) / (high - low)]))), field),
  );

  const clip = (value) => Math.min(high, Math.max(low, low + Math.round((value - low) / step) * step));
  const near = (value) => marks.reduce((best, mark) => (!best || Math.abs(mark[0] - value) < Math.abs(best[0] - value) ? mark : best), null);
  function update() {
    const value = read();
    const open = value === undefined || value === null;
    element.classList.toggle('unset', open);
    if (document.activeElement !== field) field.value = open ? '' : String(value);
    if (open) {
      range.value = String((low + high) / 2);
      range.setAttribute('aria-valuetext', t('not_set'));
      range.style.setProperty('--filled', '0');
    } else {
      range.value = String(value);
      range.setAttribute('aria-valuetext', marks.length ? `${value}, ${near(value)[1]}` : String(value));
      range.style.setProperty('--filled', String((value - low) / (high - low)));
    }
  }
  range.addEventListener('input', () => write(Number(range.value)));
  // A click on the very middle of an untouched slider does not change its value, so no input event comes.
  range.addEventListener('pointerup', () => read() === undefined && write(Number(range.value)));
  field.addEventListener('input', () => {
    const value = Number(field.value.replace(',', '.'));
    const good = field.value.trim() !== '' && Number.isFinite(value) && value >= low && value <= high;
    field.setAttribute('aria-invalid', String(!good && field.value.trim() !== ''));
    if (good) write(clip(value));
  });
  field.addEventListener('change', () => {
    field.removeAttribute('aria-invalid');
    field.blur();
    update();
  });

  let typed = '';
  let typedAt = 0;
  function key(event) {
    if (event.target === field) return false;
    if (/^[0-9]$/.test(event.key) || (event.key === '.' && step < 1)) {
      const time = performance.now();
      typed = time - typedAt < TYPING ? typed + event.key : event.key;
      if (Number(typed) > high) typed = event.key;
      typedAt = time;
      write(clip(Number(typed)));
      return true;
    }
    if (event.key === 'Backspace' && read() !== undefined) {
      typed = '';
      write(undefined);
      return true;
    }
    return false;
  }
  update();
  return { element, read, update, key, focus: () => range.focus() };
}

function stepScale(widget, { label, scale, context, read, write }) {
  const name = newId('scale');
  const words = new Map(anchors(widget));
  const labelled = words.size === scale.length;
  const inputs = scale.map((value) => {
    const said = words.get(value);
    return h('input', {
      type: 'radio', name, value: String(value), class: 'step-input', 'aria-label': said ? `${value}: ${said}` : String(value),
      onchange: () => write(value),
    });
  });
  const labelId = newId('label');
  const element = h(
    'div',
    { class: 'criterion', role: 'radiogroup', 'aria-label': context.label(label) },
    h('div', { class: 'criterion-head' }, h('span', { class: 'criterion-label', id: labelId, dir: 'auto', text: label })),
    h('div', { class: labelled ? 'steps labelled' : 'steps' },
      ...scale.map((value, index) =>
        h('label', { class: 'step' }, inputs[index], h('span', { class: 'step-box' },
          h('b', { text: number(value) }), words.has(value) && labelled && h('span', { class: 'step-words', dir: 'auto', text: words.get(value) }))))),
    !labelled && anchorLine(anchors(widget).map(([at, said]) => [at, said, (scale.indexOf(at) + 0.5) / scale.length])),
  );
  element.style.setProperty('--steps', String(scale.length));
  function update() {
    const value = read();
    scale.forEach((step, index) => {
      inputs[index].checked = step === value;
    });
  }
  function key(event) {
    if (event.key === 'Backspace' && read() !== undefined) {
      write(undefined);
      return true;
    }
    if (!/^[0-9]$/.test(event.key)) return false;
    const index = scale.indexOf(Number(event.key));
    if (index < 0) return false;
    write(scale[index]);
    inputs[index].focus();
    return true;
  }
  update();
  return { element, read, update, key, focus: () => (inputs.find((input) => input.checked) ?? inputs[0]).focus() };
}
