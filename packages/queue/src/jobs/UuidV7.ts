/**
 * New ids: UUIDs of version 7, which sort by time to the millisecond.
 *
 * A store with an index on job ids then writes to one end of it. Random ids would write to a different page for each job, and every changed
 * page is written to disk. An id reveals only when its job was submitted, which the job shows anyway; 74 bits are random.
 */
import { randomUUID } from "node:crypto"

/** A UUID of version 7 for a time in milliseconds since the epoch. */
export const uuidV7At = (millis: number): string => {
  const time = millis.toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
