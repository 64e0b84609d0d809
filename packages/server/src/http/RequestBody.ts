/**
 * Reads JSON bodies, in the same way for all routes and content types.
 *
 * ```
 *   request --> readText --> scanJson --> members and elements as text        payloads: stored as they are
 *               413, 415      400           \--> parsePart, parseJson --> decoder       options and settings: at most MAX_VALUES values
 *               503                                    400                   400
 * ```
 *
 * Existing workers send raw JSON with the content type of a form (docs/spec/worker-protocol.md#headers), and some clients send no content
 * type. So the server ignores the content type and reads the body as JSON. A body that is not JSON, has the wrong shape or is too large is
 * rejected with a problem.
 *
 * The cost of a body is proportional to its size, whatever it contains (docs/decisions/0018-bodies-are-scanned.md): the scan builds no
 * values, and a schema never receives more than {@link MAX_VALUES} of them.
 */
import {
  type bodyErrors,
  InvalidRequest,
  PayloadTooLarge,
  problemMembers,
  type Unavailable,
  UnsupportedEncoding
} from "@stint/contract/Problem"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { BUDGET_THRESHOLD_BYTES, PayloadMemoryBudget } from "@stint/store/PayloadMemoryBudget"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Schema from "effect/Schema"
import type * as SchemaIssue from "effect/SchemaIssue"
import type * as Scope from "effect/Scope"
import { admit, memoryFull, setHeader } from "./BodyAdmission.ts"
import { type BodyEncoding, readBodyText, type ReadOptions } from "./BodyReader.ts"
import { type JsonFault, type JsonPart, type JsonScan, MAX_DEPTH, scan, type Wanted } from "./JsonScanner.ts"
import { bytesInWords } from "./Limits.ts"
import { excerpt } from "./ProblemJson.ts"

/** Maximum number of invalid values listed in one error. More than this usually have the same cause. */
export const MAX_ISSUES = 20

/**
 * Maximum number of values in JSON that is parsed for decoding: settings, options, the ids in a heartbeat. Payloads are not parsed and may have
 * any number. Decoding this many takes about 20 ms at worst, whatever the schema.
 */
export const MAX_VALUES = 10_000

/** Maximum length of JSON that is parsed for decoding. Only a long string can reach it before {@link MAX_VALUES}. */
const MAX_PARSED_LENGTH = 1024 * 1024

/** The errors of reading a body as text. */
export type BodyError = InstanceType<(typeof bodyErrors)[number]> | InvalidRequest | Unavailable

/** An invalid value. */
export interface BodyIssue {
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

/** `requests[3].policy.ttl` */
const pathInWords = (path: ReadonlyArray<string | number>): string =>
  path.map((key, at) => typeof key === "number" ? `[${key}]` : at === 0 ? key : `.${key}`).join("")

const toBodyIssue = ({ message, path }: BodyIssue): BodyIssue => ({
  path: path.map((key) => typeof key === "number" ? key : excerpt(key)),
  message: excerpt(message)
})

/** The first issues, and one message for all of them. */
const summarize = (all: ReadonlyArray<BodyIssue>): { readonly errors: ReadonlyArray<BodyIssue>; readonly message: string } => {
  const errors = all.slice(0, MAX_ISSUES).map(toBodyIssue)
  const sentences = errors.map(({ message, path }) =>
    formatFieldIssue({ message, path: path.length === 0 ? [] : [excerpt(pathInWords(path))] })
  )
  if (all.length > errors.length) sentences.push("and more")
  return { errors, message: sentences.join("; ") }
}

/** The invalid values, each with its path, and one message for all of them. */
export const issuesOf = (issue: SchemaIssue.Issue): ReturnType<typeof summarize> => summarize(fieldIssues({ issue }))

/** 400 for invalid values. */
export const invalidValues = (issues: ReadonlyArray<BodyIssue>, hint: string): InvalidRequest => {
  const { errors, message } = summarize(issues)
  return new InvalidRequest({ ...problemMembers(message, hint), errors })
}

/** 413 for a body that exceeds its limit. `remedy` is the hint. */
export const tooLarge = (limit: number, remedy: string): PayloadTooLarge =>
  new PayloadTooLarge({ ...problemMembers(`The body is larger than the limit of ${bytesInWords(limit)}.`, remedy), limit })

const unsupportedEncoding = (encoding: string) =>
  Effect.andThen(
    setHeader("accept-encoding", "gzip, deflate"),
    new UnsupportedEncoding(problemMembers(
      `The body has the content-encoding "${excerpt(encoding)}", which the platform does not decode.`,
      "Send the body uncompressed, or compressed once with gzip or deflate."
    ))
  )

/** The compression of a body; undefined when it is not compressed. */
const encodingOf = (header: string): BodyEncoding | undefined | "other" => {
  switch (header.trim().toLowerCase()) {
    case "":
    case "identity":
      return undefined
    case "gzip":
    case "x-gzip":
      return "gzip"
    case "deflate":
      return "deflate"
    default:
      return "other"
  }
}

/** Reserves payload memory while a body of unknown size arrives. */
const admitWhileReading = Effect.map(
  Effect.flatMap(PayloadMemoryBudget, ({ growing }) => growing),
  ({ grow }): ReadOptions["admit"] => {
    let reserved = 0
    return (bytes) => {
      if (bytes < BUDGET_THRESHOLD_BYTES || bytes <= reserved) return true
      const step = Math.max(BUDGET_THRESHOLD_BYTES, bytes - reserved)
      if (!grow(step)) return false
      reserved += step
      return true
    }
  }
)

/** Whether a body may have this many bytes: its headers announce them, or its size is unknown. */
export const mayBeLarge = ({ headers }: HttpServerRequest.HttpServerRequest, bytes: number): boolean => {
  const { "content-encoding": encoding, "content-length": length } = headers
  if (encoding !== undefined && encodingOf(encoding) !== undefined) return encodingOf(encoding) !== "other"
  return length === undefined || Number(length) >= bytes
}

/**
 * The text of a request's body, up to `limit` bytes. Fails with 413 over the limit, with `remedy` as the hint. For a large body, payload
 * memory is reserved until the request ends, before the body is read or, when its size is unknown, as it arrives. When the memory is full,
 * the request fails with 503.
 */
export const readText = (
  request: HttpServerRequest.HttpServerRequest,
  limit: number,
  remedy: string
): Effect.Effect<string, BodyError, Scope.Scope> => {
  const { "content-encoding": header, "content-length": length } = request.headers
  const encoding = header === undefined ? undefined : encodingOf(header)
  if (encoding === "other") return unsupportedEncoding(header ?? "")
  const declared = Number(length ?? 0)
  if (declared > limit) return Effect.fail(tooLarge(limit, remedy))
  const read = (options: ReadOptions) =>
    Effect.catch(readBodyText(request, options), (reason): Effect.Effect<never, BodyError> => {
      switch (reason) {
        case "large":
          return Effect.fail(tooLarge(limit, remedy))
        case "memory":
          return memoryFull(BUDGET_THRESHOLD_BYTES)
        case "encoding":
          return Effect.fail(
            new InvalidRequest(problemMembers(
              `The body is not valid ${encoding}, although its content-encoding says so.`,
              "Compress the whole body, or omit the header content-encoding."
            ))
          )
        case "disconnected":
          return Effect.fail(
            new InvalidRequest(problemMembers("The connection closed before the end of the body.", "Send the request again."))
          )
      }
    })
  if (length === undefined || encoding !== undefined) {
    return Effect.flatMap(admitWhileReading, (admit) => read({ limit, encoding, admit }))
  }
  return declared < BUDGET_THRESHOLD_BYTES ? read({ limit }) : Effect.flatMap(admit(declared), () => read({ limit }))
}

/** A valid JSON body. */
export interface JsonBody extends JsonScan {
  /** The original text, for storage. */
  readonly text: string
}

/** The number of characters before and after a fault that an error quotes. */
const FAULT_CONTEXT = 20

const faultInWords = (text: string, { at, reason }: JsonFault): string => {
  switch (reason) {
    case "depth":
      return `The JSON is nested more than ${MAX_DEPTH} levels deep, at character ${at + 1}.`
    case "number":
      return `The number ${/[\d.eE+-]*/.exec(text.slice(at, at + FAULT_CONTEXT))?.[0]} at character ${at + 1} is too large.`
    case "syntax":
      if (/^\s*$/.test(text.slice(0, FAULT_CONTEXT)) && text.trim() === "") {
        return "The body is empty, but a JSON object is required."
      }
      return at >= text.length
        ? `The body is not JSON: it ends after ${text.length} characters, before its last value is complete.`
        : `The body is not JSON: unexpected ${JSON.stringify(text.charAt(at))} at character ${at + 1}, in ${
          JSON.stringify(text.slice(Math.max(0, at - FAULT_CONTEXT), at + FAULT_CONTEXT))
        }.`
  }
}

const remedyOf = (reason: JsonFault["reason"], hint: string): string => {
  switch (reason) {
    case "depth":
      return "Flatten the value, or send its nested part as a string of JSON."
    case "number":
      return "Send a number between -1.8e308 and 1.8e308, or send it as a string."
    case "syntax":
      return hint
  }
}

const finishScan = Effect.fnUntraced(function*(steps: ReturnType<typeof scan>) {
  while (true) {
    yield* Effect.yieldNow
    const step = steps.next()
    if (step.done === true) return step.value
  }
})

/**
 * Checks that a text is JSON and cuts the wanted parts out of it. Fails with 400 when it is not JSON; `hint` describes the expected body.
 * Other requests are served during the scan of a large text.
 */
export const scanJson = (text: string, hint: string, wanted?: Wanted): Effect.Effect<JsonBody, InvalidRequest> => {
  const toBody = (found: JsonScan | JsonFault): Effect.Effect<JsonBody, InvalidRequest> =>
    found._tag === "JsonScan"
      ? Effect.succeed({ ...found, text })
      : Effect.fail(new InvalidRequest(problemMembers(faultInWords(text, found), remedyOf(found.reason, hint))))
  const steps = scan(text, wanted)
  const first = steps.next()
  return first.done === true ? toBody(first.value) : Effect.flatMap(finishScan(steps), toBody)
}

/** An issue when a scanned text is too large to be parsed. */
const oversize = (path: BodyIssue["path"], part: { readonly text: string; readonly values: number }): BodyIssue | undefined => {
  if (part.values > MAX_VALUES) return { path, message: `Expected at most ${MAX_VALUES} values, got ${part.values}` }
  return part.text.length > MAX_PARSED_LENGTH
    ? { path, message: `Expected at most ${MAX_PARSED_LENGTH} characters, got ${part.text.length}` }
    : undefined
}

/** Parses a text as JSON, for decoding. Fails with 400 when it is not JSON or contains more than {@link MAX_VALUES} values. */
export const parseJson = (text: string, hint: string): Effect.Effect<unknown, InvalidRequest> =>
  Effect.flatMap(scanJson(text, hint), (body): Effect.Effect<unknown, InvalidRequest> => {
    const issue = oversize([], body)
    return issue === undefined ? Effect.succeed(JSON.parse(text)) : Effect.fail(invalidValues([issue], hint))
  })

/** A value of each kind, for the error of a decoder that expects an object. */
const STAND_INS: { readonly [kind in Exclude<JsonScan["kind"], "object">]: unknown } = {
  array: [],
  string: "",
  number: 0,
  boolean: false,
  null: null
}

/**
 * The members of an object as values, for decoding. Members in `payloads` are not parsed: their value is null. A value that is not an object
 * yields a value of its kind. Returns an issue when a member is too large to be parsed.
 */
export const parseMembers = (
  { kind, members }: Pick<JsonScan, "kind" | "members">,
  payloads: ReadonlySet<string>
): { readonly value: unknown } | { readonly issue: BodyIssue } => {
  if (kind !== "object") return { value: STAND_INS[kind] }
  const value: Record<string, unknown> = {}
  for (const [name, part] of members) {
    const issue = payloads.has(name) ? undefined : oversize([name], part)
    if (issue !== undefined) return { issue }
    value[name] = payloads.has(name) ? null : parsePart(part)
  }
  return { value }
}

const NO_PAYLOADS: ReadonlySet<string> = new Set()

/** {@link parseMembers}, with the issue as an error. Default: no member is a payload. */
export const memberValues = (
  body: Pick<JsonScan, "kind" | "members">,
  hint: string,
  payloads = NO_PAYLOADS
): Effect.Effect<unknown, InvalidRequest> => {
  const parsed = parseMembers(body, payloads)
  return "issue" in parsed ? Effect.fail(invalidValues([parsed.issue], hint)) : Effect.succeed(parsed.value)
}

/** Parses a part of a scanned text. */
export const parsePart = ({ text }: JsonPart): unknown => JSON.parse(text)

/**
 * Checks a value against a schema. Stops at the first invalid value, and only then collects the others for the error. Unknown members are
 * dropped, or rejected with `unknown: "error"`.
 */
export const checker = <S extends Schema.ConstraintDecoder<unknown>>(
  schema: S,
  { unknown = "ignore" }: { readonly unknown?: "ignore" | "error" } = {}
): (value: unknown) => Effect.Effect<S["Type"], ReadonlyArray<BodyIssue>> => {
  const decode = Schema.decodeUnknownEffect(schema, unknown === "error" ? { onExcessProperty: unknown } : {})
  const decodeAll = Schema.decodeUnknownEffect(schema, { errors: "all", onExcessProperty: unknown })
  return (value) => Effect.catch(decode(value), () => Effect.mapError(decodeAll(value), fieldIssues))
}

/** A decoder of JSON values that fails with 400 and the path of each invalid value. */
export const decoder = <S extends Schema.ConstraintDecoder<unknown>>(
  schema: S,
  hint: string,
  options?: { readonly unknown?: "ignore" | "error" }
): (value: unknown) => Effect.Effect<S["Type"], InvalidRequest> => {
  const check = checker(schema, options)
  return (value) => Effect.mapError(check(value), (issues) => invalidValues(issues, hint))
}

/** A request's body as JSON. Fails with 413 over `limit` bytes and with 400 when the body is not JSON. */
export const readJson = (
  request: HttpServerRequest.HttpServerRequest,
  limit: number,
  remedy: string,
  hint: string,
  wanted?: Wanted
): Effect.Effect<JsonBody, BodyError, Scope.Scope> =>
  Effect.flatMap(readText(request, limit, remedy), (text) => scanJson(text, hint, wanted))
