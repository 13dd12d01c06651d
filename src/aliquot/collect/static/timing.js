// Active and idle time of each cell. Time counts as active while the page is visible and something was done in the
// last minute; the rest is idle.

const IDLE_AFTER = 60000;

export class Clock {
  constructor(now = () => performance.now()) {
    this.now = now;
    this.last = now();
    this.visible = true;
    this.cell = null;
    this.spent = new Map();
  }

  /** Book the time since the last sign of life on the current cell. */
  tick() {
    const time = this.now();
    const passed = time - this.last;
    this.last = time;
    if (this.cell === null) return;
    const spent = this.#of(this.cell);
    const active = this.visible ? Math.min(passed, IDLE_AFTER) : 0;
    spent.active += active;
    spent.idle += passed - active;
  }

  focus(cell) {
    if (cell === this.cell) return;
    this.tick();
    this.cell = cell;
  }

  show(visible) {
    this.tick();
    this.visible = visible;
  }

  /** What a cell took since it was last asked, in whole milliseconds. */
  take(cell) {
    if (cell === this.cell) this.tick();
    const spent = this.#of(cell);
    const taken = { active_ms: Math.round(spent.active), idle_ms: Math.round(spent.idle) };
    spent.active = 0;
    spent.idle = 0;
    return taken;
  }

  /** Cells with at least a second not yet told to the server. */
  leftOver() {
    this.tick();
    return [...this.spent].filter(([, spent]) => spent.active >= 1000).map(([cell]) => cell);
  }

  reset() {
    this.spent.clear();
    this.cell = null;
    this.last = this.now();
  }

  #of(cell) {
    if (!this.spent.has(cell)) this.spent.set(cell, { active: 0, idle: 0 });
    return this.spent.get(cell);
  }
}
