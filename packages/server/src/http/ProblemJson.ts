/**
 * Problems that no operation's contract knows, as JSON text: they arise before there is an operation, or in spite of it.
 */
import { problemMembers } from "@stint/contract/Problem"

/** The most of a text that a message repeats: enough to recognise it, too little to fill a log. */
const EXCERPT_LENGTH = 200

/** A text from outside, fit for a message. */
export const excerpt = (text: string): string => (text.length <= EXCERPT_LENGTH ? text : `${text.slice(0, EXCERPT_LENGTH)}...`)

/** The content type of every problem. */
export const PROBLEM_CONTENT_TYPE = "application/problem+json"

/** The body of a problem (contract, Problem.ts). `type` is its last part, like `route-not-found`. */
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
