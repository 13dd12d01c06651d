// The page's own words; the server puts the locale's strings into the page as JSON.

let strings = {};
let locale = 'en';

export function setStrings(table, name) {
  strings = table;
  locale = name;
}

/** The words for a key with {placeholders} filled; a missing key shows itself, so that it is noticed. */
export function t(key, values = {}) {
  const words = strings[key] ?? key;
  return words.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export const number = (value) => new Intl.NumberFormat(locale).format(value);

/** Seconds in words: minutes up to 90, then hours. */
export function duration(seconds) {
  const minutes = Math.max(1, Math.round(seconds / 60));
  if (minutes < 90) return t('minutes', { n: number(minutes) });
  return t('hours', { n: number(Math.round(minutes / 6) / 10) });
}

/** A name from a protocol ("no-error", "much_better") as words, translated where the locale knows it. */
export function named(name) {
  const known = strings[`name_${String(name).toLowerCase().replace(/[^a-z0-9]+/g, '_')}`];
  if (known) return known;
  const words = String(name).replace(/[_-]+/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** An error of the server in the page's language, by its code; the server's own words are English. */
export function said(error) {
  if (error.status === 0) return t('offline');
  return strings[`error_${error.code}`] ?? (error.message || t('storage'));
}

/** The server's words, where the page speaks English. */
export const inEnglish = (words) => (locale.startsWith('en') ? words : null);
