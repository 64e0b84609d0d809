/**
 * Reads a submission: a job's input and options (contract, RunRequest). The queue applies them.
 */
import { CurrentCaller } from "@stint/contract/Authorization"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { IdempotencyKey, RunRequest, webhookOf } from "@stint/contract/Job"
import { jsonNull } from "@stint/contract/Json"
import type { InvalidRequest } from "@stint/contract/Problem"
import { traceContextOf } from "@stint/contract/TraceContext"
import type { Submission } from "@stint/queue/JobQueue"
import type { Quota } from "@stint/store/Quota"
import { slotOfKey, uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { JsonScan } from "../http/JsonScanner.ts"
import { type LimitSettings, remedyFor } from "../http/Limits.ts"
import { type BodyError, type BodyIssue, checker, decoder, invalidValues, parseMembers, readJson } from "../http/RequestBody.ts"
import { callerLimitIssues, LIMIT_HINT } from "./CallerLimits.ts"

const runHint = "Send a JSON object with the key \"input\", for example {\"input\": {\"name\": \"Ada\"}}."

/** The members of a submission. */
export const RUN_MEMBERS: ReadonlySet<string> = new Set(Object.keys(RunRequest.fields))

const SUBMISSION = { members: RUN_MEMBERS }

const INPUT: ReadonlySet<string> = new Set(["input"])

/** The input is stored as text, so only its presence is checked. */
const checkRun = checker(Schema.Struct({ ...RunRequest.fields, input: Schema.Unknown }))

type Options = Effect.Success<ReturnType<typeof checkRun>>

/** The decoded options of a body that contains only an input, as most bodies do. */
const INPUT_ALONE: Options = { input: null }

/** Whether an option counts as absent: some clients send `null` or `""` for options that their caller did not set. */
const isAbsent = (value: unknown): boolean => value === null || value === ""

/** Like {@link isAbsent}, for a member's text. */
export const isAbsentText = (text: string | undefined): boolean => text === undefined || text === "null" || text === "\"\""

/** Removes absent options, also from the objects among the options. */
const omitAbsent = (value: unknown): unknown =>
  Predicate.isObject(value)
    ? Object.fromEntries(Object.entries(value).flatMap(([name, option]) => isAbsent(option) ? [] : [[name, omitAbsent(option)]]))
    : value

/** The options in a body as values, without those that are absent. The members in `payloads` stay, with the value null. */
export const parseOptions = (
  body: Pick<JsonScan, "kind" | "members">,
  payloads: ReadonlySet<string> = INPUT
): Effect.Effect<unknown, ReadonlyArray<BodyIssue>> => {
  const parsed = parseMembers(body, payloads)
  if ("issue" in parsed) return Effect.fail([parsed.issue])
  const { value } = parsed
  if (!Predicate.isObject(value)) return Effect.succeed(value)
  return Effect.succeed(
    Object.fromEntries(
      Object.entries(value).flatMap(([name, option]): ReadonlyArray<readonly [string, unknown]> => {
        if (payloads.has(name)) return [[name, option]]
        return isAbsent(option) ? [] : [[name, omitAbsent(option)]]
      })
    )
  )
}

/** The options of a submission. A body that contains only an input needs no decoding. */
const readOptions = (
  body: Pick<JsonScan, "kind" | "members">
): Effect.Effect<Options, ReadonlyArray<BodyIssue>> =>
  body.members.size === 1 && body.members.has("input")
    ? Effect.succeed(INPUT_ALONE)
    : Effect.flatMap(parseOptions(body), checkRun)

const invalidOptions = (issues: ReadonlyArray<BodyIssue>): InvalidRequest => invalidValues(issues, runHint)

const HEADER = "Idempotency-Key"

const decodeKey = decoder(
  Schema.Struct({ [HEADER]: IdempotencyKey }),
  `Send your own unique key in ${HEADER}, for example a UUID, or omit the header.`
)

/** The key in a request's `Idempotency-Key` header. Fails with 400 when it is not a valid key. */
export const readIdempotencyKey = (
  request: HttpServerRequest.HttpServerRequest
): Effect.Effect<string | undefined, InvalidRequest> => {
  const header = request.headers[HEADER.toLowerCase()]
  return header === undefined ? Effect.undefined : Effect.map(decodeKey({ [HEADER]: header }), (keys) => keys[HEADER])
}

const remedy = "Put the data in an object store and pass its URL in \"input\"."

/** The maximum size of a request, and the hint for requests that exceed it. */
export interface SubmissionLimit {
  readonly bytes: number
  readonly remedy: string
}

/** The limits of `/run` and `/runsync`. */
export const submissionLimits = (
  limits: LimitSettings
): { readonly run: SubmissionLimit; readonly runsync: SubmissionLimit } => ({
  run: { bytes: limits.runBytes, remedy: remedyFor(remedy, "STINT_LIMIT_RUN", true, limits) },
  runsync: { bytes: limits.runsyncBytes, remedy: remedyFor(remedy, "STINT_LIMIT_RUNSYNC", true, limits) }
})

/** A UUID is a valid id, so it needs no checks, which take longer than its creation. */
const UNCHECKED = { disableChecks: true }

/** A new id. With an idempotency key, the id is in the slot of that key (see UuidV7.ts). */
export const newJobId = (endpoint: Endpoint, idempotencyKey: string | undefined, prefix: "" | "sync-"): JobId =>
  JobId.make(
    prefix + uuidV7At(Date.now(), idempotencyKey === undefined ? undefined : slotOfKey(endpoint.id, idempotencyKey)),
    UNCHECKED
  )

/** The key that submits a job. */
export interface Submitter {
  readonly id: string
  readonly limits?: Quota | undefined
}

/** The key of the current request. */
export const submitter: Effect.Effect<Submitter, never, CurrentCaller> = Effect.map(
  CurrentCaller,
  ({ key, limits }) => ({ id: key, limits })
)

/** Reads a submission from a request. */
export const readSubmission = Effect.fnUntraced(function*(
  endpoint: Endpoint,
  submitter: Submitter,
  request: HttpServerRequest.HttpServerRequest,
  limit: SubmissionLimit,
  prefix: "" | "sync-"
): Effect.fn.Return<
  Submission,
  BodyError,
  HttpServerRequest.HttpServerRequest | Scope.Scope
> {
  const key = yield* readIdempotencyKey(request)
  const body = yield* readJson(request, limit.bytes, limit.remedy, runHint, SUBMISSION)
  const { policy, priority, s3Config, startAfterMs, startAt, tags, webhook, ...own } = yield* Effect.mapErrorEager(
    readOptions(body),
    invalidOptions
  )
  const refused = callerLimitIssues(endpoint, { policy, priority, startAfterMs, startAt })
  if (refused.length > 0) return yield* invalidValues(refused, LIMIT_HINT)
  const idempotencyKey = key ?? own.idempotencyKey
  return {
    endpoint,
    id: newJobId(endpoint, idempotencyKey, prefix),
    input: body.members.get("input")?.text ?? jsonNull,
    s3Config: s3Config === undefined ? undefined : body.members.get("s3Config")?.text,
    policy,
    priority,
    tags,
    startAt,
    startAfterMs,
    webhook: webhookOf(webhook),
    trace: traceContextOf(request.headers),
    idempotencyKey,
    owner: submitter.id,
    keyQuota: submitter.limits
  }
})
