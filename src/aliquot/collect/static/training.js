// Before and after the work: questions on the instructions, examples with feedback, the code to leave with, messages.

import { ApiError } from './api.js';
import { formatted, h, newId } from './dom.js';
import { number, said, t } from './i18n.js';

function put(page, title, ...content) {
  const { shell } = page;
  shell.footer.hidden = true;
  shell.notice.hidden = true;
  const heading = h('h2', { tabIndex: -1, text: title });
  shell.place.replaceChildren(h('div', { class: 'words training' }, heading, ...content));
  heading.focus();
}

async function send(page, run) {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    page.shell.say(said(error), 'warning');
    return null;
  }
}

/** All questions at once; the server says how many are wrong, never which answer is right. */
export function showQuiz(page, quiz) {
  page.shell.instructions.hidden = false;
  const chosen = quiz.questions.map(() => null);
  const boxes = quiz.questions.map((one, at) => {
    const name = newId('question');
    return h('fieldset', { class: 'question' }, h('legend', { dir: 'auto', text: one.question }),
      ...one.options.map((option) => {
        const id = newId('option');
        return h('p', { class: 'field check' }, h('input', { type: 'radio', name, id, onchange: () => { chosen[at] = option; } }),
          h('label', { for: id, dir: 'auto', text: option }));
      }));
  });
  const result = h('div', { role: 'status' });
  const button = h('button', { type: 'button', class: 'submit', text: t('submit'), onclick: async () => {
    const open = chosen.indexOf(null);
    if (open >= 0) {
      boxes[open].querySelector('input').focus();
      result.replaceChildren(h('p', { class: 'missing-note', text: t('missing') }));
      return;
    }
    const reply = await send(page, () => page.api.quiz(chosen));
    if (!reply) return;
    if (reply.passed || reply.attempts_left < 1) {
      page.next();
      return;
    }
    result.replaceChildren(h('p', { text: t('quiz_wrong', { n: number(reply.wrong.length), left: number(reply.attempts_left) }) }),
      ...reply.feedback.filter(Boolean).map((words) => h('p', { dir: 'auto', text: words })));
    reply.wrong.forEach((at) => boxes[at].classList.add('missing'));
  } });
  put(page, t('quiz_title'), h('p', { text: t('quiz_words', { left: number(quiz.attempts_left) }) }), ...boxes, result, button);
}

/** One example: judge it, read the feedback, go on. */
export function showExample(page, example) {
  const id = newId('score');
  const score = h('input', { type: 'number', id, inputmode: 'decimal', step: 'any' });
  const scored = page.protocol.widgets.some((widget) => widget.kind === 'score');
  const text = (label, words) => words && h('div', { class: 'example' }, h('h3', { text: label }), h('p', { dir: 'auto', text: words }));
  const result = h('div', { role: 'status' });
  let answered = false;
  const button = h('button', { type: 'button', class: 'submit', text: t(scored ? 'submit' : 'go_on'), onclick: async () => {
    if (answered) {
      page.next();
      return;
    }
    if (scored && score.value === '') {
      score.focus();
      result.replaceChildren(h('p', { class: 'missing-note', text: t('missing') }));
      return;
    }
    const reply = await send(page, () => page.api.example(scored ? Number(score.value) : null));
    if (!reply) return;
    answered = true;
    score.disabled = true;
    result.replaceChildren(h('p', { class: 'feedback', text: t(reply.right ? 'example_right' : 'example_other') }), ...formatted(reply.feedback));
    button.textContent = t('go_on');
    button.focus();
  } });
  put(page, t('example_title', { n: number(example.number), of: number(example.of) }), ...formatted(example.instructions || ''),
    text(t('source'), example.source), text(t('reference'), example.reference), text(t('output'), example.output),
    scored && h('p', { class: 'field' }, h('label', { for: id, text: t('ask_score') }), score), result, button);
}

/** The code of a crowd's provider, and the way back to it. */
export function showCode(place, reply) {
  const parts = [h('p', { text: t('code_words') }), h('p', {}, h('output', { class: 'code', text: reply.code }))];
  if (reply.return_url) parts.push(h('p', {}, h('a', { class: 'submit', href: reply.return_url, rel: 'noreferrer', text: t('code_return') })));
  if (reply.submit_to) {
    const hidden = (name, value) => h('input', { type: 'hidden', name, value });
    parts.push(h('form', { method: 'post', action: reply.submit_to }, hidden('assignmentId', reply.session), hidden('code', reply.code),
      h('button', { class: 'submit', text: t('code_submit') })));
  }
  place.firstChild.append(...parts);
}

const read = 'aliquot-messages-read';

/** Messages of the organiser that were not closed yet. */
export function showMessages(shell, messages = []) {
  const last = Number(localStorage.getItem(read) ?? 0);
  const fresh = messages.filter((one) => one.id > last);
  document.getElementById('messages')?.remove();
  if (!fresh.length) return;
  const box = h('aside', { class: 'notice', id: 'messages', 'aria-label': t('messages') },
    ...fresh.map((one) => h('p', { dir: 'auto', text: one.text })),
    h('button', { type: 'button', class: 'quiet', text: t('close'), onclick: () => {
      localStorage.setItem(read, String(fresh.at(-1).id));
      box.remove();
    } }));
  shell.main.prepend(box);
}
