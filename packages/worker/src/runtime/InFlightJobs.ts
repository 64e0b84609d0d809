/**
 * The ids of the jobs that this worker holds, in memory that the heartbeat's thread can read while a handler blocks the main
 * thread.
 *
 * ```
 *   slot 0                      slot 1                      ...
 *   | version | length | id     | version | length | id     |      length in bytes of UTF-8; 0: free
 * ```
 *
 * The main thread fills a slot when a job starts and frees it when it ends, both without a message to the other thread, which
 * would wake it for every job. The version is odd while a slot changes, and different after: a reader that catches such a moment
 * looks again.
 */

/** Bytes of a slot: version, length, and an id of up to 248 bytes; ids are 128 characters at most. A multiple of four. */
export const SLOT = 256
/** Bytes before the id. */
export const HEADER = 8

/** Slots in the beginning; there are more as soon as they are needed. */
const INITIAL_SLOTS = 64
const MAX_SLOTS = 65_536

/** The shared list, as its writer sees it. */
export interface InFlightJobs {
  readonly memory: SharedArrayBuffer
  /** Puts an id on the list; the answer takes it off again. An id that is too long is not heard of in heartbeats. */
  readonly add: (id: string) => () => void
}

const nothing = () => {}

export const make = (): InFlightJobs => {
  const memory = new SharedArrayBuffer(INITIAL_SLOTS * SLOT, { maxByteLength: MAX_SLOTS * SLOT })
  // Views without a length follow the memory when it grows.
  const words = new Int32Array(memory)
  const bytes = new Uint8Array(memory)
  const encoder = new TextEncoder()
  const free: Array<number> = []
  const addSlots = (from: number) => {
    for (let slot = memory.byteLength / SLOT - 1; slot >= from; slot--) free.push(slot)
  }
  addSlots(0)

  return {
    memory,
    add: (id) => {
      if (free.length === 0) {
        const slots = memory.byteLength / SLOT
        if (slots === MAX_SLOTS) return nothing
        memory.grow(slots * 2 * SLOT)
        addSlots(slots)
      }
      const slot = free.pop()
      if (slot === undefined) return nothing
      const start = slot * SLOT
      const change = (length: number) => {
        Atomics.store(words, start / 4 + 1, length)
        Atomics.add(words, start / 4, 1)
      }
      Atomics.add(words, start / 4, 1)
      const { read, written } = encoder.encodeInto(id, bytes.subarray(start + HEADER, start + SLOT))
      if (read < id.length) {
        change(0)
        free.push(slot)
        return nothing
      }
      change(written)
      return () => {
        Atomics.add(words, start / 4, 1)
        change(0)
        free.push(slot)
      }
    }
  }
}
