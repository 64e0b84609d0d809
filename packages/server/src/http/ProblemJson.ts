/**
 * Problems that are not part of any operation's contract, as JSON text: for requests that match no operation, and for defects.
 */
import { problemMembers } from "@stint/contract/Problem"

/** Maximum length of caller text in a message: long enough to recognize the text, and short enough for a log. */
const EXCERPT_LENGTH = 200

/** Caller text, shortened for a message. */
export const excerpt = (text: string): string => (text.length <= EXCERPT_LENGTH ? text : `${text.slice(0, EXCERPT_LENGTH)}...`)

/** The content type of every problem. */
export const PROBLEM_CONTENT_TYPE = "application/problem+json"

/** The body of a problem (contract, Problem.ts). `type` is the last segment of its URL, such as `route-not-found`. */
export const problemJson = (problem: {
  readonly status: number
  readonly title: string
  readonly type: string
  readonly error: string
  readonly hint: string
  readonly errors?: ReadonlyArray<{ readonly path: ReadonlyArray<string | number>; readonly message: string }>
}): string => {
  const { error, errors, hint, status, title, type } = problem
  return JSON.stringify({
    type: `/problems/${type}`,
    title,
    status,
    ...problemMembers(error, hint),
    ...(errors === undefined ? {} : { errors })
  })
}
