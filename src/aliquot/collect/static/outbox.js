// Answers that the server has not acknowledged yet. They live in localStorage, one entry per cell, so that a cut
// network, a closed laptop or a crashed tab loses nothing. A newer answer of a cell replaces the unsent one; the
// server keeps every version it was sent. Each entry has a client id: sent twice, it is stored once. It says which
// revision of the answer it changes (base) and which page wrote it: the server refuses a change of an answer that
// another page has changed since, and takes one that follows on this page's own, acknowledged or not.

import { ApiError } from './api.js';

const DELAY = 500;
const LONGEST_WAIT = 30000;
const CHUNK = 40;
const KEEPALIVE_BYTES = 60000; // browsers refuse more in a request that outlives its page

/** A random id; crypto.randomUUID exists only on https and localhost. */
export function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** localStorage, or a map where the browser forbids it (answers then live as long as the tab). */
function storage() {
  try {
    localStorage.setItem('aliquot:probe', '1');
    localStorage.removeItem('aliquot:probe');
    return {
      keys: () => Object.keys(localStorage),
      get: (key) => localStorage.getItem(key),
      set: (key, value) => localStorage.setItem(key, value),
      remove: (key) => localStorage.removeItem(key),
    };
  } catch {
    const map = new Map();
    return {
      keys: () => [...map.keys()],
      get: (key) => map.get(key) ?? null,
      set: (key, value) => map.set(key, value),
      remove: (key) => map.delete(key),
    };
  }
}

const disk = storage();

/** What the browser keeps under a name; null where there is nothing. */
export const kept = (key) => disk.get(key);

/** Keep a text; where the storage is full, as long as the page lives. */
export function keep(key, text) {
  try {
    disk.set(key, text);
  } catch {
    // The worker can go on, but not come again by the shared link.
  }
}

/** A short digest of the token, to keep two links on one machine apart without writing the token down. */
function digest(token) {
  let value = 2166136261;
  for (const character of token) value = Math.imul(value ^ character.codePointAt(0), 16777619);
  return (value >>> 0).toString(36);
}

export class Outbox {
  /** report({pending, trouble, progress}) is called whenever what is unsaved changes. */
  constructor(api, report) {
    this.api = api;
    this.report = report;
    this.disk = disk;
    this.prefix = `aliquot:out:${digest(api.token)}:`;
    this.entries = new Map();
    this.writer = uuid();
    this.revisions = new Map();
    for (const key of this.disk.keys()) {
      if (!key.startsWith(this.prefix)) continue;
      const entry = this.#read(key);
      if (entry) this.entries.set(key.slice(this.prefix.length), { ...entry, sent: false });
    }
    this.timer = null;
    this.sending = null;
    this.failures = 0;
    this.trouble = null;
  }

  #read(key) {
    try {
      return JSON.parse(this.disk.get(key));
    } catch {
      this.disk.remove(key);
      return null;
    }
  }

  get pending() {
    return this.entries.size;
  }

  /** Keep an answer of a cell, to be sent soon. */
  put(assignment, cell, answer, times) {
    const name = `${assignment} ${cell}`;
    const unsent = this.entries.get(name);
    const earlier = unsent && !unsent.sent ? unsent : { active_ms: 0, idle_ms: 0 };
    const { base, writer } = unsent ?? { base: this.revisions.get(name) ?? 0, writer: this.writer };
    const entry = {
      assignment,
      id: uuid(),
      cell,
      answer,
      active_ms: earlier.active_ms + times.active_ms,
      idle_ms: earlier.idle_ms + times.idle_ms,
      base,
      writer,
    };
    this.entries.set(name, entry);
    try {
      this.disk.set(this.prefix + name, JSON.stringify(entry));
    } catch {
      // A full localStorage: the answer stays in memory and is sent all the same.
    }
    this.#say();
    this.schedule(DELAY);
  }

  /** Remember the revisions of answers that the page shows: {cell: number}. */
  know(assignment, revisions = {}) {
    for (const [cell, revision] of Object.entries(revisions)) this.revisions.set(`${assignment} ${cell}`, revision);
  }

  /** Unsent answers of an assignment, as {cell: answer}. */
  unsent(assignment) {
    const found = {};
    for (const entry of this.entries.values()) {
      if (entry.assignment === assignment) found[entry.cell] = entry.answer;
    }
    return found;
  }

  schedule(delay) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), delay);
  }

  /** Send what is there; true when nothing is left. Calls do not overlap. */
  async flush() {
    clearTimeout(this.timer);
    while (this.sending) await this.sending;
    if (!this.entries.size) return true;
    this.sending = this.#sendAll();
    try {
      await this.sending;
    } finally {
      this.sending = null;
    }
    this.#say();
    return this.entries.size === 0;
  }

  /** The page is being left: one request that outlives it; what it cannot carry waits in localStorage. */
  leave() {
    clearTimeout(this.timer);
    for (const [assignment, changes] of this.#batches()) {
      if (JSON.stringify(changes).length < KEEPALIVE_BYTES) {
        this.api.save(assignment, changes, { keepalive: true }).then(
          (reply) => this.#sent(assignment, changes, reply),
          () => {},
        );
      }
    }
  }

  #batches() {
    const groups = new Map();
    for (const entry of this.entries.values()) {
      if (!groups.has(entry.assignment)) groups.set(entry.assignment, []);
      groups.get(entry.assignment).push(entry);
    }
    const batches = [];
    for (const [assignment, entries] of groups) {
      for (let start = 0; start < entries.length; start += CHUNK) {
        const part = entries.slice(start, start + CHUNK);
        batches.push([assignment, part.map(({ id, cell, answer, active_ms, idle_ms, base, writer }) => ({ id, cell, answer, active_ms, idle_ms, base, writer }))]);
      }
    }
    return batches;
  }

  async #sendAll() {
    for (const [assignment, changes] of this.#batches()) {
      for (const { cell } of changes) {
        const entry = this.entries.get(`${assignment} ${cell}`);
        if (entry) entry.sent = true;
      }
      this.#say(true);
      try {
        const reply = await this.api.save(assignment, changes);
        this.#sent(assignment, changes, reply);
        this.failures = 0;
        this.trouble = null;
        this.progress = reply.progress;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        this.trouble = error.passing ? error : null;
        if (error.passing) {
          for (const entry of this.entries.values()) entry.sent = false;
          this.failures += 1;
          const wait = Math.min(LONGEST_WAIT, 1000 * 2 ** Math.min(this.failures - 1, 5));
          this.schedule(Math.max(wait, error.wait * 1000));
          return;
        }
        await this.#refused(assignment, changes, error);
      }
    }
  }

  /** The server will never take this batch: find the change it refuses, set it aside, send the rest. */
  async #refused(assignment, changes, error) {
    if (changes.length === 1) return this.#setAside(assignment, changes[0], error);
    for (const change of changes) {
      try {
        this.#sent(assignment, [change], await this.api.save(assignment, [change]));
      } catch (single) {
        if (!(single instanceof ApiError)) throw single;
        if (single.passing) return this.schedule(1000);
        this.#setAside(assignment, change, single);
      }
    }
    return null;
  }

  #setAside(assignment, change, error) {
    if (this.refused?.code !== 'stale') this.refused = Object.assign(error, { assignment });
    try {
      this.disk.set(`aliquot:kept:${change.id}`, JSON.stringify({ assignment, ...change }));
    } catch {
      // Nothing more can be done; the message in the page stays.
    }
    this.#sent(assignment, [change]);
  }

  #sent(assignment, changes, reply) {
    this.know(assignment, reply?.revisions);
    for (const { cell, id } of changes) {
      const name = `${assignment} ${cell}`;
      if (this.entries.get(name)?.id !== id) continue; // a newer answer has replaced it
      this.entries.delete(name);
      this.disk.remove(this.prefix + name);
    }
  }

  #say(sending = false) {
    const refused = this.refused ?? null;
    this.refused = null;
    const progress = this.progress ?? null;
    this.progress = null;
    this.report({ pending: this.entries.size, sending, trouble: this.trouble, refused, progress });
  }
}
