/**
 * How many jobs a worker can run at once, learned from its takes: a worker asks for as many jobs as it has free slots.
 *
 * A take that says that the worker holds no job asks for all its slots. Any other take leaves a lower bound: what it asked for, and the jobs that
 * the worker held then and still holds at its next take. A job that ends in between does not count, because Stint's worker frees the slot of a job
 * before its result arrives.
 */

/** What is known of a worker's slots. */
export interface Slots {
  /** The slots; undefined before they are known. */
  count: number | undefined
  /** How many jobs the last take asked for; 0 before the first one. */
  asked: number
  /** How many jobs the worker held at its last take and still holds. */
  held: number
  /** The jobs that it holds and took since its last take. */
  readonly taken: Set<string>
}

/** Nothing is known. */
export const make = (): Slots => ({ count: undefined, asked: 0, held: 0, taken: new Set() })

/** The worker asks for jobs. `held`: how many it holds, as far as this node knows; undefined if it says that it holds none. */
export const asks = (slots: Slots, asked: number, held: number | undefined): void => {
  if (held === undefined) slots.count = asked
  else {
    const bound = slots.asked === 0 ? 0 : slots.asked + slots.held
    // A first take with jobs says little: this node began while they ran.
    if (slots.count !== undefined || held === 0 || bound > 0) slots.count = Math.max(slots.count ?? 0, asked, bound)
  }
  slots.asked = asked
  slots.held = held ?? 0
  slots.taken.clear()
}

/** The worker no longer holds the job. */
export const released = (slots: Slots, job: string): void => {
  if (!slots.taken.delete(job) && slots.held > 0) slots.held -= 1
}
