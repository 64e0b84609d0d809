/**
 * Parses the non-standard URLs of existing worker SDKs: they append `&key=value` to the configured URL whether or not it contains a `?`,
 * so the last path segment may contain a query (docs/spec/worker-protocol.md#appended-queries).
 *
 * ```
 *   job-take/w-1?gpu=none&job_in_progress=0      last "w-1", gpu, job_in_progress
 *   job-take/w-1&job_in_progress=0               last "w-1", job_in_progress
 *   job-take/w%26x&job_in_progress=0             last "w&x", job_in_progress
 * ```
 *
 * This parses the raw URL, because a router decodes segments first, and an `&` that belongs to an id could then no longer be recognized.
 */

/** The last part of a worker URL. */
export interface WorkerUrl {
  /** The last path segment without the appended query: a worker's or a job's id. */
  readonly last: string
  /** The last value of a key. The real query takes precedence over the appended query. */
  readonly get: (key: string) => string | undefined
  /** All values of a key: from the real query if it has the key, otherwise from the appended query. */
  readonly all: (key: string) => ReadonlyArray<string>
}

const decoded = (segment: string): string => {
  if (!segment.includes("%")) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    // This cannot happen, because no route matches such a URL.
    return segment
  }
}

/** Parses the URL of a request: its path and its query. */
export const parseWorkerUrl = (url: string): WorkerUrl => {
  const end = url.search(/[?#;]/)
  const path = (end === -1 ? url : url.slice(0, end)).replace(/\/+$/, "")
  const segment = path.slice(path.lastIndexOf("/") + 1)
  const tailAt = segment.indexOf("&")
  const query = end === -1 ? undefined : new URLSearchParams(url.slice(end + 1))
  const tail = tailAt === -1 ? undefined : new URLSearchParams(segment.slice(tailAt + 1))
  const all = (key: string) => query?.has(key) === true ? query.getAll(key) : tail?.getAll(key) ?? []
  return {
    last: decoded(tailAt === -1 ? segment : segment.slice(0, tailAt)),
    get: (key) => all(key).at(-1),
    all
  }
}
