/**
 * The sloppy addresses of existing worker SDKs: they append `&key=value` to the address that they were given, with or without a `?` in
 * it, so that a query may stand in the last path segment (docs/spec/worker-protocol.md#appended-queries).
 *
 * ```
 *   job-take/w-1?gpu=none&job_in_progress=0      last "w-1", gpu, job_in_progress
 *   job-take/w-1&job_in_progress=0               last "w-1", job_in_progress
 *   job-take/w%26x&job_in_progress=0             last "w&x", job_in_progress
 * ```
 *
 * The address is read as it was sent: a router decodes a segment before anybody can see which `&` was part of an id.
 */

/** What the end of an address says. */
export interface WorkerUrl {
  /** The last path segment without its tail: a worker's or a job's id. */
  readonly last: string
  /** The value of a key; of several the last. A key of the real query counts over one of the tail. */
  readonly get: (key: string) => string | undefined
  /** All values of a key, from the real query where it has any. */
  readonly all: (key: string) => ReadonlyArray<string>
}

const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    // No route matches such an address, so this is for the types only.
    return segment
  }
}

/** Reads the address of a request: its path and its query. */
export const parseWorkerUrl = (url: string): WorkerUrl => {
  const end = url.search(/[?#;]/)
  const path = (end === -1 ? url : url.slice(0, end)).replace(/\/+$/, "")
  const segment = path.slice(path.lastIndexOf("/") + 1)
  const tailAt = segment.indexOf("&")
  const query = new URLSearchParams(end === -1 ? "" : url.slice(end + 1))
  const tail = new URLSearchParams(tailAt === -1 ? "" : segment.slice(tailAt + 1))
  const all = (key: string) => query.has(key) ? query.getAll(key) : tail.getAll(key)
  return {
    last: decoded(tailAt === -1 ? segment : segment.slice(0, tailAt)),
    get: (key) => all(key).at(-1),
    all
  }
}
