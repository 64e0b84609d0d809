/**
 * Ids of new jobs, batches and webhook deliveries: version 7 UUIDs.
 *
 * ```
 *   TTTTTTTT-TTTT-7SSS-VCCC-CCCCRRRRRRRR
 *
 *   T  48 bits   milliseconds since 1970
 *   S  12 bits   slot
 *   C  30 bits   counter of this process; two of them share the digit V with the UUID variant
 *   R  32 bits   random
 * ```
 *
 * Ids sort by time, so a store appends to its id index. With random ids, every job would modify a different page of that index, and each
 * modified page is written to disk. The id of a job reveals its submission time, which the job reports anyway.
 *
 * The slot is a logical partition: a store may use it to spread the jobs of one endpoint over several tables. A job with an idempotency key
 * has the slot of that key, so a repeated submission reaches the same partition. A webhook delivery has the slot of its job or batch,
 * because both are written in one commit. All other slots are random.
 *
 * The counter starts at a random number. It ensures that ids from one process, millisecond and slot sort in the order in which they were
 * created.
 */
import { hash, randomInt, randomUUID } from "node:crypto"

/** The slot of an idempotency key, 0 to 4095: the first 12 bits of the SHA-256 of `ENDPOINT\nKEY`. */
export const slotOfKey = (endpoint: string, key: string): number =>
  Number.parseInt(hash("sha256", `${endpoint}\n${key}`, "hex").slice(0, 3), 16)

/** The slot in an id, with any prefix (`sync-`, `batch_`). Undefined for ids that do not contain a version 7 UUID. */
export const slotOfId = (id: string): number | undefined => {
  const [, slot] = /[0-9a-f]{8}-[0-9a-f]{4}-7([0-9a-f]{3})-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.exec(id) ?? []
  return slot === undefined ? undefined : Number.parseInt(slot, 16)
}

// One counter per process is intended: ids of all layers share it.
// oxlint-disable-next-line stint/no-module-let
let counter = randomInt(2 ** 29)

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0")

/** A version 7 UUID for a time in milliseconds since 1970. Default slot: random. */
export const uuidV7At = (millis: number, slot?: number): string => {
  counter = (counter + 1) % 2 ** 30
  const random = randomUUID()
  // In halves: V8 formats integers of more than 31 bits several times slower.
  const early = hex(Math.floor(millis / 2 ** 24), 6)
  const late = hex(millis % 2 ** 24, 6)
  const slotDigits = slot === undefined ? random.slice(15, 18) : hex(slot, 3)
  const high = hex(0x8000 + (counter >>> 16), 4)
  return `${early}${late.slice(0, 2)}-${late.slice(2)}-7${slotDigits}-${high}-${hex(counter & 0xffff, 4)}${random.slice(28)}`
}
