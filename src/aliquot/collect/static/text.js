// Offsets, words and differences of texts. The server counts code points, the browser UTF-16 units.

const segmenters = new Map();

function segmenter(granularity, lang) {
  const key = `${granularity} ${lang ?? ''}`;
  if (!segmenters.has(key)) {
    let made;
    try {
      made = new Intl.Segmenter(lang || undefined, { granularity });
    } catch {
      made = new Intl.Segmenter(undefined, { granularity }); // a language tag the browser does not know
    }
    segmenters.set(key, made);
  }
  return segmenters.get(key);
}

/** UTF-16 offset -> number of code points before it. */
export function codePoints(text, offset) {
  let count = 0;
  for (let i = 0; i < offset; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xd800 && unit < 0xdc00 && i + 1 < offset) i += 1;
    count += 1;
  }
  return count;
}

/** Number of code points -> UTF-16 offset. */
export function utf16(text, points) {
  let i = 0;
  for (let count = 0; count < points && i < text.length; count += 1) i += text.codePointAt(i) > 0xffff ? 2 : 1;
  return i;
}

/** [start, end) of the words (or other non-space segments) of a text, in UTF-16 units. */
export function words(text, lang) {
  const found = [];
  for (const part of segmenter('word', lang).segment(text)) {
    if (part.segment.trim()) found.push([part.index, part.index + part.segment.length]);
  }
  return found;
}

export function graphemes(text, lang) {
  return Array.from(segmenter('grapheme', lang).segment(text), (part) => [part.index, part.index + part.segment.length]);
}

/** Widen a range to whole graphemes, then cut white space at its ends; null when nothing is left. */
export function tidyRange(text, start, end, lang) {
  const around = segmenter('grapheme', lang).segment(text);
  let from = start < text.length ? around.containing(start).index : text.length;
  let to = end;
  if (end > 0 && end < text.length) {
    const last = around.containing(end);
    if (last.index !== end) to = last.index + last.segment.length;
  }
  while (from < to && !text[from].trim()) from += 1;
  while (to > from && !text[to - 1].trim()) to -= 1;
  return from < to ? [from, to] : null;
}

/** The segment before or after a range, or the range itself at an end of the text. */
export function neighbour(segments, [start, end], forward) {
  if (forward) return segments.find(([from]) => from >= end) ?? segments.at(-1) ?? [start, end];
  return segments.findLast(([, to]) => to <= start) ?? segments[0] ?? [start, end];
}

const pieces = (text, lang) => Array.from(segmenter('word', lang).segment(text), (part) => part.segment);
const MOST = 4e6; // cells of the table of common parts; beyond it the middle is shown as replaced

/** How `after` differs from `before`, as [['same'|'del'|'ins', text], ...] by words. */
export function difference(before, after, lang) {
  const a = pieces(before, lang);
  const b = pieces(after, lang);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a.at(-1 - tail) === b.at(-1 - tail)) tail += 1;
  const result = [];
  const add = (kind, text) => {
    if (!text) return;
    if (result.at(-1)?.[0] === kind) result.at(-1)[1] += text;
    else result.push([kind, text]);
  };
  add('same', a.slice(0, head).join(''));
  const x = a.slice(head, a.length - tail);
  const y = b.slice(head, b.length - tail);
  if (x.length * y.length > MOST) {
    add('del', x.join(''));
    add('ins', y.join(''));
  } else for (const [kind, text] of aligned(x, y)) add(kind, text);
  add('same', tail ? a.slice(-tail).join('') : '');
  return result;
}

function aligned(x, y) {
  const width = y.length + 1;
  const common = new Uint32Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      const here = i * width + j;
      common[here] = x[i] === y[j] ? common[here + width + 1] + 1 : Math.max(common[here + width], common[here + 1]);
    }
  }
  const result = [];
  let i = 0;
  let j = 0;
  while (i < x.length || j < y.length) {
    const here = i * width + j;
    if (i < x.length && j < y.length && x[i] === y[j]) {
      result.push(['same', x[i]]);
      i += 1;
      j += 1;
    } else if (j >= y.length || (i < x.length && common[here + width] >= common[here + 1])) {
      result.push(['del', x[i]]);
      i += 1;
    } else {
      result.push(['ins', y[j]]);
      j += 1;
    }
  }
  return result;
}
