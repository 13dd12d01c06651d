// Questions to the annotator: consent, languages, experience.

import { h, newId } from './dom.js';
import { named, t } from './i18n.js';

export function formWidget(widget, context) {
  const put = (name, value) => {
    const whole = { ...context.get() };
    if (value === '' || value === undefined || value === false) delete whole[name];
    else whole[name] = value;
    context.set(whole);
  };
  const fields = (widget.fields ?? []).map((field) => one(field, put, context));
  const open = () => fields.find((field) => field.required && context.get()?.[field.name] === undefined);
  function update() {
    fields.forEach((field) => field.show(context.get()?.[field.name]));
  }
  update();
  return {
    element: h('div', { class: 'widget form', role: 'group', 'aria-label': context.label(widget.label || t('about_you')) },
      widget.label && h('div', { class: 'criterion-label', dir: 'auto', text: widget.label }), ...fields.map((field) => field.element)),
    update,
    missing: () => Boolean(open()) || (fields.length > 0 && context.get() === undefined && widget.required),
    focus: (wanted = false) => ((wanted && open()) || fields[0])?.input.focus(),
    key: () => false,
  };
}

function one(field, put) {
  const id = newId('field');
  const label = field.label || named(field.name);
  const required = field.required !== false;
  const shared = { name: field.name, required };
  if (field.kind === 'checkbox' || field.kind === 'consent') {
    const input = h('input', { type: 'checkbox', id, onchange: () => put(field.name, input.checked) });
    const element = h('div', { class: 'field check' }, input, h('label', { for: id, dir: 'auto', text: label }));
    return { ...shared, required: field.kind === 'consent' || field.required === true, input, element, show: (value) => { input.checked = Boolean(value); } };
  }
  const options = field.options?.map((option) => h('option', { value: option, text: option }));
  const input = options
    ? h('select', { id, onchange: () => put(field.name, input.value) }, h('option', { value: '', text: t('choose') }), ...options)
    : h('input', { type: field.kind === 'number' ? 'number' : 'text', id, dir: 'auto', autocomplete: 'off',
      oninput: () => put(field.name, field.kind === 'number' && input.value !== '' ? Number(input.value) : input.value) });
  const hint = required ? null : h('span', { class: 'small', text: ` ${t('optional')}` });
  const element = h('div', { class: 'field' }, h('label', { for: id, dir: 'auto' }, label, hint), input);
  return { ...shared, input, element, show: (value) => { if (String(value ?? '') !== input.value) input.value = value ?? ''; } };
}
