/**
 * Lists the issues with a value that does not match its Schema, for messages and error bodies.
 */
import type * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** An invalid value. An empty path means the whole value. */
export interface FieldIssue {
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

const segmentOf = (segment: PropertyKey | { readonly key: PropertyKey }): string | number => {
  const key = typeof segment === "object" ? segment.key : segment
  return typeof key === "number" ? key : String(key)
}

/** The issues of a failed decoding. Decode with `{ errors: "all" }` to receive all of them. */
export const fieldIssues = ({ issue }: Pick<Schema.SchemaError, "issue">): ReadonlyArray<FieldIssue> =>
  format(issue).issues.map(({ message, path }) => ({ path: (path ?? []).map(segmentOf), message }))

/** Formats an issue: `workers.max: Expected number`. */
export const formatFieldIssue = ({ message, path }: FieldIssue): string =>
  path.length === 0 ? message : `${path.join(".")}: ${message}`
