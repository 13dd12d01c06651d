// Choices between the outputs shown: a pair with ties and strength, best and worst, a ranking.

import { h, newId } from './dom.js';
import { named, number, t } from './i18n.js';

export function choiceWidget(widget, context) {
  const make = { pairwise: pairwise, 'best-worst': bestWorst, ranking: ranking }[widget.style] ?? pairwise;
  return make(widget, context, context.slots);
}

function radio(name, label, onchange, visible) {
  const input = h('input', { type: 'radio', name, class: 'step-input', 'aria-label': label, onchange });
  return { input, element: h('label', { class: 'step' }, input, h('span', { class: 'step-box' }, h('b', { text: visible ?? label }))) };
}

/** The answers of a pair from left to right, with strength where the protocol asks for it. */
function pairOptions(widget, [first, second]) {
  const levels = Array.isArray(widget.strength) ? widget.strength.length : Number(widget.strength || 0);
  const label = (slot, level) => {
    if (Array.isArray(widget.strength)) return `${slot}: ${named(widget.strength[level - 1])}`;
    if (levels < 2) return t('better', { slot });
    if (levels === 2) return t(level === 2 ? 'much_better' : 'slightly_better', { slot });
    return t(['slightly_better', 'better', 'much_better'][level - 1] ?? 'much_better', { slot });
  };
  if (!levels) {
    const options = [{ value: first, label: t('better', { slot: first }) }, { value: second, label: t('better', { slot: second }) }];
    if (widget.ties) options.splice(1, 0, { value: 'tie', label: t('tie') });
    return options;
  }
  const side = (slot) => Array.from({ length: levels }, (_, at) => ({ value: { choice: slot, strength: at + 1 }, label: label(slot, at + 1) }));
  const tie = widget.ties ? [{ value: { choice: 'tie' }, label: t('tie') }] : [];
  return [...side(first).reverse(), ...tie, ...side(second)];
}

const same = (x, y) => JSON.stringify(x) === JSON.stringify(y);

function pairwise(widget, context, slots) {
  const options = pairOptions(widget, slots);
  const name = newId('pair');
  const radios = options.map((option) => radio(name, option.label, () => context.set(option.value)));
  radios.forEach(({ element }, index) => element.querySelector('.step-box').append(h('kbd', { text: String(index + 1), 'aria-hidden': 'true' })));
  const group = h('div', { class: 'steps pair' }, ...radios.map(({ element }) => element));
  group.style.setProperty('--steps', String(options.length));
  const label = widget.label || t('which_is_better');
  const element = h('div', { class: 'widget choice', role: 'radiogroup', 'aria-label': context.label(label) },
    h('div', { class: 'criterion-head' }, h('span', { class: 'criterion-label', dir: 'auto', text: label })), group);
  function choose(index) {
    if (index < 0 || index >= options.length) return false;
    context.set(options[index].value);
    radios[index].input.focus();
    return true;
  }
  function update() {
    const value = context.get();
    radios.forEach(({ input }, index) => {
      input.checked = value !== undefined && (same(options[index].value, value) || (value?.choice === undefined && options[index].value?.choice === value));
    });
  }
  update();
  return {
    element,
    update,
    missing: () => context.get() === undefined,
    focus: () => (radios.find(({ input }) => input.checked) ?? radios[0]).input.focus(),
    key: (event) => {
      if (/^[1-9]$/.test(event.key)) return choose(Number(event.key) - 1);
      const typed = event.key.toUpperCase();
      const wanted = typed === '=' ? 'tie' : typed;
      const matching = options.findIndex(({ value }) => (value.choice ?? value) === wanted && (value.strength ?? 1) === 1);
      return matching >= 0 && choose(matching);
    },
  };
}

function bestWorst(widget, context, slots) {
  const kinds = ['best', 'worst'];
  const names = { best: newId('best'), worst: newId('worst') };
  function set(kind, slot) {
    const value = { ...context.get(), [kind]: slot };
    const other = kind === 'best' ? 'worst' : 'best';
    if (value[other] === slot) delete value[other]; // one output is not both
    context.set(value);
  }
  const radios = Object.fromEntries(kinds.map((kind) => [kind, slots.map((slot) => radio(names[kind], slot, () => set(kind, slot)))]));
  const label = widget.label || t('best_and_worst');
  const group = (kind) => {
    const steps = h('div', { class: 'steps' }, ...radios[kind].map(({ element }) => element));
    steps.style.setProperty('--steps', String(slots.length));
    return h('div', { class: `criterion ${kind}`, role: 'radiogroup', 'aria-label': context.label(t(kind)) },
      h('div', { class: 'criterion-head' }, h('span', { class: 'criterion-label', text: t(kind) })), steps);
  };
  const groups = kinds.map(group);
  const element = h('div', { class: 'widget choice best-worst', role: 'group', 'aria-label': context.label(label) }, ...groups);
  const missing = (kind) => !context.get()?.[kind];
  function update() {
    for (const kind of kinds) radios[kind].forEach(({ input }, index) => { input.checked = context.get()?.[kind] === slots[index]; });
  }
  const focus = (kind) => (radios[kind].find(({ input }) => input.checked) ?? radios[kind][0]).input.focus();
  update();
  return {
    element,
    update,
    missing: () => kinds.some(missing),
    focus: (open = false) => focus((open && kinds.find(missing)) || 'best'),
    key: (event) => {
      const digit = /^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1] ?? (/^[1-9]$/.test(event.key) ? event.key : null);
      const slot = digit && slots[Number(digit) - 1];
      if (!slot) return false;
      const kind = event.shiftKey ? 'worst' : groups[1].contains(event.target) ? 'worst' : 'best';
      set(kind, slot);
      radios[kind][slots.indexOf(slot)].input.focus();
      return true;
    },
  };
}

/** [["A"], ["B", "C"]] -> {A: 1, B: 2, C: 2}: ranks without gaps, ties share one. */
export function ranksOf(value) {
  const ranks = {};
  (value ?? []).forEach((level, index) => level.forEach((slot) => { ranks[slot] = index + 1; }));
  return ranks;
}

/** {A: 1, B: 3, C: 3} -> [["A"], ["B", "C"]] */
export function levelsOf(ranks) {
  const levels = new Map();
  for (const [slot, rank] of Object.entries(ranks)) levels.set(rank, [...(levels.get(rank) ?? []), slot]);
  return [...levels.entries()].sort((x, y) => x[0] - y[0]).map(([, group]) => group.sort());
}

function ranking(widget, context, slots) {
  // The value is complete or absent; ranks given so far live here.
  let ranks = ranksOf(context.get());
  const places = slots.map((_, index) => index + 1);
  function set(slot, rank) {
    const taken = !widget.ties && slots.find((other) => other !== slot && ranks[other] === rank);
    if (taken) {
      if (ranks[slot] === undefined) delete ranks[taken];
      else ranks[taken] = ranks[slot]; // the two change places
    }
    ranks[slot] = rank;
    draw();
    if (slots.every((one) => ranks[one] !== undefined)) context.set(levelsOf(ranks));
  }
  const rows = slots.map((slot) => {
    const name = newId('rank');
    const radios = places.map((rank) => radio(name, t('rank_of', { slot, rank: number(rank) }), () => set(slot, rank), number(rank)));
    const group = h('div', { class: 'steps' }, ...radios.map(({ element }) => element));
    group.style.setProperty('--steps', String(places.length));
    const element = h('div', { class: 'criterion rank', role: 'radiogroup', 'aria-label': context.label(slot) },
      h('span', { class: 'slot', text: slot }), group);
    return { slot, radios, element };
  });
  function draw() {
    for (const { slot, radios } of rows) radios.forEach(({ input }, index) => { input.checked = ranks[slot] === places[index]; });
  }
  const label = widget.label || t('rank_outputs');
  const element = h('div', { class: 'widget choice ranking', role: 'group', 'aria-label': context.label(label) },
    h('div', { class: 'criterion-head' }, h('span', { class: 'criterion-label', dir: 'auto', text: label })), ...rows.map((row) => row.element));
  const focus = (row) => (row.radios.find(({ input }) => input.checked) ?? row.radios[0]).input.focus();
  const open = () => rows.find(({ slot }) => ranks[slot] === undefined);
  draw();
  return {
    element,
    update: () => {
      const value = context.get();
      if (value !== undefined || !open()) ranks = ranksOf(value);
      draw();
    },
    missing: () => context.get() === undefined,
    focus: (wanted = false) => focus((wanted && open()) || rows[0]),
    key: (event) => {
      if (!/^[1-9]$/.test(event.key) || Number(event.key) > places.length) return false;
      const row = rows.find((one) => one.element.contains(event.target)) ?? open() ?? rows[0];
      set(row.slot, Number(event.key));
      focus(rows[Math.min(rows.indexOf(row) + 1, rows.length - 1)]);
      return true;
    },
  };
}
