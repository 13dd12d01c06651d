// Marks on texts by the CSS Custom Highlight API: the text stays one node, marks may overlap, nothing is re-laid out.

export const LEVELS = 5; // styles that page.css has for severities
const supported = typeof Highlight === 'function' && CSS.highlights !== undefined;
const registry = new Map();
const owners = new Map();

function highlight(name) {
  if (!registry.has(name)) {
    const made = new Highlight();
    registry.set(name, made);
    CSS.highlights.set(name, made);
  }
  return registry.get(name);
}

/** Show the marks of one owner: [{name, node, start, end}], offsets in UTF-16 units. */
export function paint(owner, marks) {
  if (!supported) return; // the list of marks below the text says the same
  for (const { name, range } of owners.get(owner) ?? []) registry.get(name)?.delete(range);
  const made = marks.map(({ name, node, start, end }) => {
    const range = new StaticRange({ startContainer: node, startOffset: start, endContainer: node, endOffset: end });
    highlight(name).add(range);
    return { name, range };
  });
  if (made.length) owners.set(owner, made);
  else owners.delete(owner);
}

/** Forget all marks: another unit comes. */
export function clear() {
  registry.forEach((one) => one.clear());
  owners.clear();
}
