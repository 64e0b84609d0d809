/**
 * Counts the events of the last few minutes in {@link PARTS} parts, so that its size does not depend on the number of events. It drops one
 * part at a time, so the counted time is between nine tenths of the window and the whole window.
 */

const PARTS = 10

export class EventWindow {
  readonly #partMs: number
  readonly #counts = Array.from({ length: PARTS }, () => 0)
  readonly #marked = Array.from({ length: PARTS }, () => 0)
  /** The number of the newest part, counting from 1970. */
  #newest = 0

  constructor(windowMs: number) {
    this.#partMs = windowMs / PARTS
  }

  /** Drops the parts that are older than the window. A clock that was set back keeps the newest part. */
  #advance(now: number): number {
    const part = Math.floor(now / this.#partMs)
    if (part > this.#newest) {
      const passed = Math.min(PARTS, part - this.#newest)
      for (let index = 0; index < passed; index += 1) {
        this.#counts[(part - index) % PARTS] = 0
        this.#marked[(part - index) % PARTS] = 0
      }
      this.#newest = part
    }
    return this.#newest % PARTS
  }

  /** Counts one event. `isMarked`: whether it also counts as marked. */
  add(now: number, isMarked: boolean): void {
    const index = this.#advance(now)
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    if (isMarked) this.#marked[index] = (this.#marked[index] ?? 0) + 1
  }

  /** The number of events in the window. */
  sum(now: number): { readonly all: number; readonly marked: number } {
    this.#advance(now)
    const total = (counts: ReadonlyArray<number>) => counts.reduce((sum, count) => sum + count, 0)
    return { all: total(this.#counts), marked: total(this.#marked) }
  }
}
