// Elements from plain values. Data only ever becomes text: nothing here parses HTML.

const DIRECT = new Set(['value', 'checked', 'disabled', 'hidden', 'textContent', 'tabIndex', 'className']);

/** h('p', {class: 'text', onclick: f}, 'words', child) makes an element. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') node.className = value;
    else if (name === 'text') node.textContent = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (DIRECT.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

let counter = 0;
/** A new id for an element. */
export const newId = (stem) => `${stem}-${(counter += 1)}`;

/** Paragraphs, headings (# ...) and lists (- ...) of plain text, for guidelines and instructions. */
export function formatted(text) {
  const parts = [];
  let list = null;
  let lines = [];
  const close = () => {
    if (lines.length) parts.push(h('p', { dir: 'auto', text: lines.join(' ') }));
    lines = [];
    list = null;
  };
  for (const raw of String(text).split('\n')) {
    const line = raw.trim();
    const heading = /^(#+)\s+(.*)$/.exec(line);
    const entry = /^[-*]\s+(.*)$/.exec(line);
    if (heading) {
      close();
      parts.push(h(heading[1].length === 1 ? 'h3' : 'h4', { dir: 'auto', text: heading[2] }));
    } else if (entry) {
      if (!list) {
        close();
        list = h('ul');
        parts.push(list);
      }
      list.append(h('li', { dir: 'auto', text: entry[1] }));
    } else if (!line) close();
    else if (list) list.lastChild.append(` ${line}`);
    else lines.push(line);
  }
  close();
  return parts;
}
