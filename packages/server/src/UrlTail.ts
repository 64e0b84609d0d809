/**
 * The sloppy addresses of existing worker SDKs: they append `&key=value` to the address that they were given, with or without a `?` in
 * it, so that a query may stand in the last path segment (wire-facts 5.1).
 *
 * ```
 *   job-take/w-1?gpu=none&job_in_progress=0      value "w-1", tail gpu, job_in_progress
 *   job-take/w-1&job_in_progress=0               the same without gpu
 * ```
 */
import type { HttpServerRequest } from "effect/http"

export interface Tail {
  /** The value of a key, wherever it stood; of several, the last. */
  readonly get: (key: string) => string | undefined
  readonly record: Readonly<Record<string, string>>
}

/** Splits the last path segment at its first `&` and joins what follows with the real query, which wins. */
export const splitTail = (
  segment: string,
  query: HttpServerRequest.ParsedSearchParams["Service"]
): { readonly value: string; readonly tail: Tail } => {
  const at = segment.indexOf("&")
  const record: Record<string, string> = Object.create(null)
  if (at !== -1) for (const [key, value] of new URLSearchParams(segment.slice(at + 1))) record[key] = value
  for (const [key, value] of Object.entries(query)) {
    const last = typeof value === "string" ? value : value[value.length - 1]
    if (last !== undefined) record[key] = last
  }
  return { value: at === -1 ? segment : segment.slice(0, at), tail: { get: (key) => record[key], record } }
}
