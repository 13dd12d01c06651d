// The answers of the unit on the screen, with undo. A change tells its listeners; who listens saves and draws.

const TOGETHER = 800; // ms: the steps of one drag or one word typed are undone together
const DEPTH = 200;

export class Answers {
  constructor(unit) {
    this.assignment = unit.assignment;
    this.cells = new Map();
    this.undoStack = [];
    this.listeners = [];
    for (const [cell, answer] of Object.entries(unit.answers ?? {})) this.cells.set(cell, { ...answer });
  }

  get(cell, widget) {
    return this.cells.get(cell)?.[widget];
  }

  whole(cell) {
    return { ...this.cells.get(cell) };
  }

  /** A value to begin with (prefilled spans); it is saved with the first change of its cell. */
  begin(cell, widget, value) {
    if (this.get(cell, widget) !== undefined) return;
    this.#write(cell, widget, value);
  }

  set(cell, widget, value) {
    const before = this.get(cell, widget);
    if (before === value) return;
    const time = performance.now();
    const top = this.undoStack.at(-1);
    if (top && top.cell === cell && top.widget === widget && time - top.time < TOGETHER && !Array.isArray(value)) {
      top.time = time;
    } else {
      this.undoStack.push({ cell, widget, before, time });
      if (this.undoStack.length > DEPTH) this.undoStack.shift();
    }
    this.#write(cell, widget, value);
    this.#tell(cell, widget, value);
  }

  /** Take the last change back; its cell and widget, or null. */
  undo() {
    const last = this.undoStack.pop();
    if (!last) return null;
    this.#write(last.cell, last.widget, last.before);
    this.#tell(last.cell, last.widget, last.before);
    return last;
  }

  /** Replace everything by what the server has (another device was used); no save follows. */
  adopt(answers) {
    const before = this.cells;
    this.cells = new Map(Object.entries(answers).map(([cell, answer]) => [cell, { ...answer }]));
    for (const cell of new Set([...before.keys(), ...this.cells.keys()])) {
      const names = new Set([...Object.keys(before.get(cell) ?? {}), ...Object.keys(this.cells.get(cell) ?? {})]);
      for (const name of names) this.#tell(cell, name, this.get(cell, name), true);
    }
  }

  #write(cell, widget, value) {
    const answer = { ...this.cells.get(cell) };
    if (value === undefined) delete answer[widget];
    else answer[widget] = value;
    this.cells.set(cell, answer);
  }

  #tell(cell, widget, value, foreign = false) {
    for (const listener of this.listeners) listener(cell, widget, value, foreign);
  }
}
