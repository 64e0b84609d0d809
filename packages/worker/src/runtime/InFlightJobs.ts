/**
 * The ids and lease tokens of the jobs that this worker holds, in shared memory, which the heartbeat thread can read while a handler blocks the main
 * thread.
 *
 * ```
 *   slot 0                      slot 1                      ...
 *   | version | length | id     | version | length | id     |      length in bytes of UTF-8; 0: free
 * ```
 *
 * A lease token follows the id after a line break.

 *
 * The main thread fills a slot when a job starts and frees it when the job ends. It does not send messages, because each message would wake
 * the other thread. The version is odd while a slot changes, and different afterwards: a reader that detects a change reads the slot again.
 */

/** The size of a slot in bytes, a multiple of four: version, length, and up to 248 bytes for an id and its token. Ids have at most 128 characters. */
export const SLOT = 256
/** Offset of the id in a slot. Bytes. */
export const HEADER = 8

/** The initial number of slots. It doubles on demand. */
const INITIAL_SLOTS = 64
const MAX_SLOTS = 65_536

/** The writer's side of the shared list. */
export interface InFlightJobs {
  readonly memory: SharedArrayBuffer
  /** Adds a job and returns a function that removes it. Heartbeats omit a job whose id and token are too long for a slot. */
  readonly add: (id: string, leaseToken?: string) => () => void
}

const nothing = () => {}

export const make = (): InFlightJobs => {
  const memory = new SharedArrayBuffer(INITIAL_SLOTS * SLOT, { maxByteLength: MAX_SLOTS * SLOT })
  // Views without an explicit length grow with the memory.
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
    add: (id, leaseToken) => {
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
      const text = leaseToken === undefined ? id : `${id}\n${leaseToken}`
      const { read, written } = encoder.encodeInto(text, bytes.subarray(start + HEADER, start + SLOT))
      if (read < text.length) {
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
