/**
 * Cuts a `run-journal` request into values for its schema, without parsing payloads.
 *
 * A request may contain 10,000 records, each with a body of any size. Parsing all of it would block the process for seconds, and a decoder that lists
 * the errors of millions of elements would use up the memory. So the scanner cuts the text along the request's shape: lists are counted before their
 * elements are decoded, bodies stay text, and only the rest, of limited size, is parsed (docs/decisions/0018-bodies-are-scanned.md).
 */
import { JsonText } from "@stint/contract/Json"
import type { InvalidRequest } from "@stint/contract/Problem"
import {
  FailedBody,
  JournalRecord,
  MAX_JOURNAL_RECORDS,
  MAX_JOURNAL_RUNS,
  RunWrite,
  SpawnBody,
  WaitBody
} from "@stint/contract/RunJournal"
import * as Effect from "effect/Effect"
import type { JsonPart, JsonScan } from "../http/JsonScanner.ts"
import { type BodyIssue, invalidValues, MAX_VALUES, parsePart, scanJson } from "../http/RequestBody.ts"

/** The maximum number of definitions in a request. A worker sends one for each of its pipelines. */
const MAX_DEFINITIONS = 100

/** The maximum number of parsed values in a request: ten for each record. */
const MAX_PARSED_VALUES = 10 * MAX_JOURNAL_RECORDS

/** A part of a request that is stored as it was sent. */
export class PayloadText {
  readonly part: JsonPart
  constructor(part: JsonPart) {
    this.part = part
  }
}

/** An object. Its other members are ignored. */
interface Members {
  readonly _tag: "Members"
  readonly names: ReadonlySet<string>
  readonly of: Readonly<Record<string, Shape>>
}

/** What to do with a part of a request. A part of another kind than its shape is parsed, so that the schema rejects it. */
type Shape =
  | { readonly _tag: "Payload" }
  | { readonly _tag: "Value" }
  | Members
  | { readonly _tag: "List"; readonly most: number; readonly of: Shape }

const PAYLOAD: Shape = { _tag: "Payload" }
const VALUE: Shape = { _tag: "Value" }

/** An object with these members. All of them are parsed, except those in `of`. */
const members = (names: ReadonlyArray<string>, of: Readonly<Record<string, Shape>> = {}): Members => ({
  _tag: "Members",
  names: new Set(names),
  of
})

const list = (most: number, of: Shape): Shape => ({ _tag: "List", most, of })

/** The whole request. */
const REQUEST_SHAPE = members(["definitions", "waitMs", "runs"], {
  definitions: list(MAX_DEFINITIONS, members(["hash", "graph"])),
  runs: list(
    MAX_JOURNAL_RUNS,
    members(Object.keys(RunWrite.fields), {
      records: list(MAX_JOURNAL_RECORDS, members(Object.keys(JournalRecord.fields), { body: PAYLOAD, input: PAYLOAD })),
      finish: members(["error", "cancelled", "output"], { output: PAYLOAD })
    })
  )
})

/** The bodies of the records that the platform reads. */
export const BODY_SHAPES = {
  spawn: members(Object.keys(SpawnBody.fields), { input: PAYLOAD }),
  sleep: members(["ms", "until"]),
  wait: members(Object.keys(WaitBody.fields)),
  failed: members(Object.keys(FailedBody.fields))
} as const

/** Cuts a part of a request. `path` is its place in the request, for errors. */
export type Cut = (part: JsonPart, shape: Shape, path?: BodyIssue["path"]) => Effect.Effect<unknown, InvalidRequest>

/** The cutter of one request. All parts of the request share its limit. */
export interface Cutter {
  /** Cuts the whole request, and checks that it is JSON. */
  readonly request: (text: string) => Effect.Effect<unknown, InvalidRequest>
  readonly cut: Cut
}

/** Creates the cutter of one request. */
export const makeCutter = (hint: string): Cutter => {
  let left = MAX_PARSED_VALUES
  const reject = (path: BodyIssue["path"], message: string) => Effect.fail(invalidValues([{ path, message }], hint))

  const parse = (part: JsonPart, path: BodyIssue["path"]): Effect.Effect<unknown, InvalidRequest> => {
    if (part.values > MAX_VALUES) return reject(path, `Expected at most ${MAX_VALUES} values, got ${part.values}`)
    left -= part.values
    return left < 0
      ? reject(path, `Expected at most ${MAX_PARSED_VALUES} values outside of bodies, inputs and outputs`)
      : Effect.succeed(parsePart(part))
  }

  const cutMembers = Effect.fnUntraced(function*(
    found: JsonScan["members"],
    of: Readonly<Record<string, Shape>>,
    path: BodyIssue["path"]
  ) {
    left -= 1
    const entries: Array<readonly [string, unknown]> = []
    for (const [name, member] of found) entries.push([name, yield* cut(member, of[name] ?? VALUE, [...path, name])])
    return Object.fromEntries(entries)
  })

  const cut: Cut = Effect.fnUntraced(function*(part, shape, path = []) {
    switch (shape._tag) {
      case "Payload":
        return new PayloadText(part)
      case "Value":
        return yield* parse(part, path)
      case "Members": {
        // A part begins with its value. One of another kind is not scanned again.
        if (!part.text.startsWith("{")) return yield* parse(part, path)
        const scanned = yield* scanJson(part.text, hint, { members: shape.names })
        return yield* cutMembers(scanned.members, shape.of, path)
      }
      case "List": {
        if (!part.text.startsWith("[")) return yield* parse(part, path)
        const scanned = yield* scanJson(part.text, hint, { elements: shape.most + 1 })
        if (scanned.elements.length > shape.most) return yield* reject(path, `Expected at most ${shape.most} elements`)
        const elements: Array<unknown> = []
        for (const [at, element] of scanned.elements.entries()) elements.push(yield* cut(element, shape.of, [...path, at]))
        return elements
      }
    }
  })

  return {
    cut,
    request: Effect.fnUntraced(function*(text) {
      const scanned = yield* scanJson(text, hint, { members: REQUEST_SHAPE.names })
      return scanned.kind === "object"
        ? yield* cutMembers(scanned.members, REQUEST_SHAPE.of, [])
        : yield* parse({ text: JsonText.make(text), values: scanned.values }, [])
    })
  }
}
