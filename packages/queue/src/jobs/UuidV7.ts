/**
 * New ids.
 *
 * They are UUIDs of version 7: in order of time, to the millisecond. A store that finds jobs by an index of their ids writes to one end of
 * it, where ids by chance alone would touch another page of it with every job, and every page that is touched is written to disk. So an id
 * says when its job was submitted, which the job says anyway, and nothing else: 74 bits are chance.
 */
import { randomUUID } from "node:crypto"

/** A UUID of version 7 for a moment, in milliseconds since 1970. */
export const uuidV7At = (millis: number): string => {
  const time = millis.toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
