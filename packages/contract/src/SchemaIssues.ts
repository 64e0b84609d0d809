/**
 * What is wrong with a value that does not fit its Schema, for people and for error bodies: each problem with the path of the value.
 */
import type * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** One problem. An empty path is the value itself. */
export interface FieldIssue {
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

const segmentOf = (segment: PropertyKey | { readonly key: PropertyKey }): string | number => {
  const key = typeof segment === "object" ? segment.key : segment
  return typeof key === "number" ? key : String(key)
}

/** The problems of a decoding that failed, from its error or from the issue in it. Decode with `{ errors: "all" }` to get all of them. */
export const fieldIssues = ({ issue }: Pick<Schema.SchemaError, "issue">): ReadonlyArray<FieldIssue> =>
  format(issue).issues.map(({ message, path }) => ({ path: (path ?? []).map(segmentOf), message }))

/** One problem in words: `workers.max: Expected number`. */
export const formatFieldIssue = ({ message, path }: FieldIssue): string =>
  path.length === 0 ? message : `${path.join(".")}: ${message}`
