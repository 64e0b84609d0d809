/**
 * `run-journal`: a pipeline's worker records the progress of its runs (docs/spec/pipelines.md#run-journal).
 *
 * Bodies stay text in the store. Each run has its own result, so that one lost lease does not fail the writes of the others.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { jsonNull, type JsonText, toJsonText } from "@stint/contract/Json"
import { InvalidRequest, problemMembers } from "@stint/contract/Problem"
import {
  DEFAULT_RUN_MILLIS,
  FailedBody,
  type JournalRecord,
  MAX_JOURNAL_RECORDS,
  MAX_STEP_INPUT,
  PipelineGraph,
  RunJournalRequest,
  type RunWrite,
  SleepBody,
  SpawnBody,
  StepInput,
  WaitBody
} from "@stint/contract/RunJournal"
import { JobQueue } from "@stint/queue/JobQueue"
import { RunQueue, type RunRecordRequest, type RunRequest } from "@stint/queue/RunQueue"
import { Secrets } from "@stint/secrets/Secrets"
import { memberOf, type RunEntry } from "@stint/store/RunMachine"
import type { JournalResult } from "@stint/store/RunStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Schema from "effect/Schema"
import { trackedJson } from "../http/JsonResponse.ts"
import { Limits, remedyFor } from "../http/Limits.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, invalidValues, parsePart, readText } from "../http/RequestBody.ts"
import { BODY_SHAPES, type Cut, makeCutter, PayloadText } from "./JournalBody.ts"

const hint =
  "Send {\"runs\": [{\"run\": \"...\", \"attempt\": 1, \"records\": [{\"path\": \"list\", \"kind\": \"step\", \"body\": 1}]}]}."

const decodeRequest = decoder(RunJournalRequest, hint)
const decodeSpawn = decoder(SpawnBody, "The body of a spawn is like {\"endpoint\": \"thumbnail\", \"input\": {}}.")
const decodeSleep = decoder(SleepBody, "The body of a sleep is like {\"ms\": 5000}.")
const decodeWait = decoder(WaitBody, "The body of a wait is like {\"name\": \"approved\", \"key\": \"\"}.")
const decodeFailed = decoder(FailedBody, "The body of a failed record is like {\"error\": \"no such city\"}.")

const decodeInput = decoder(
  StepInput,
  "The input of a step is like {\"value\": 1}, or {\"text\": \"[1, 2, 3\"} for its beginning."
)

const decodeGraph = decoder(
  PipelineGraph,
  "A graph is like {\"name\": \"gallery\", \"nodes\": [{\"address\": \"list\", \"kind\": \"step\"}]}."
)

const isJobId = Schema.is(JobId)

/** The attempt under which a worker holds a run, or why it does not hold it. */
export type Proof = (write: RunWrite) => { readonly attempt: number } | { readonly cause: string }

/** How many outputs of children are read at the same time. Each may be as large as a result. */
const OUTPUTS_AT_ONCE = 8

/** The maximum size of the entries in a response, including the outputs of children. A single entry may be larger. */
const RESPONSE_CHARACTERS = 32 * 1024 * 1024

const textOf = (body: unknown) => body instanceof PayloadText ? body.part.text : body === undefined ? jsonNull : toJsonText(body)

/** The input of a step, as its worker sent it. */
const inputText = Effect.fnUntraced(function*(input: unknown): Effect.fn.Return<JsonText | undefined, InvalidRequest> {
  if (!(input instanceof PayloadText)) return undefined
  const { text } = input.part
  if (text.length > MAX_STEP_INPUT) {
    const message =
      `The input of a step must have at most ${MAX_STEP_INPUT} characters, got ${text.length}. Send {"text": its beginning}.`
    return yield* invalidValues([{ path: ["input"], message }], hint)
  }
  yield* decodeInput(parsePart(input.part))
  return text
})

/** A journal entry as the worker receives it. `output`: the output of the child that ended. */
const entryJson = ({ at, body, kind, n, path }: RunEntry, output: string | undefined): string => {
  const text = body === null || output === undefined ? body : `${body.slice(0, -1)},"output":${output}}`
  const head = `{"path":${JSON.stringify(path)},"kind":"${kind}","n":${n},"at":${at}`
  return text === null ? `${head}}` : `${head},"body":${text}}`
}

const make = Effect.gen(function*() {
  const runs = yield* RunQueue
  const jobs = yield* JobQueue
  const secrets = yield* Secrets
  const limits = yield* Limits
  const remedy = remedyFor("Upload large outputs to an object store and record their URLs.", "STINT_LIMIT_RESULT", true, limits)

  const toRecord = Effect.fnUntraced(function*(
    { body, input, kind, ms, path }: JournalRecord,
    mask: (text: string) => string,
    cut: Cut
  ): Effect.fn.Return<RunRecordRequest, InvalidRequest> {
    const read = (kind: keyof typeof BODY_SHAPES) =>
      body instanceof PayloadText ? cut(body.part, BODY_SHAPES[kind]) : Effect.undefined
    switch (kind) {
      case "spawn": {
        const { input, ...spawn } = yield* Effect.flatMap(read(kind), decodeSpawn)
        return { kind, path, ...spawn, input: textOf(input) }
      }
      case "sleep":
        return { kind, path, ...(yield* Effect.flatMap(read(kind), decodeSleep)) }
      case "wait":
        return { kind, path, ...(yield* Effect.flatMap(read(kind), decodeWait)) }
      case "failed": {
        const { error, ...rest } = yield* Effect.flatMap(read(kind), decodeFailed)
        return { kind, path, body: toJsonText({ error: mask(error), ...rest }), ms, input: yield* inputText(input) }
      }
      default:
        return { kind, path, body: textOf(body), ms, input: yield* inputText(input) }
    }
  })

  const toRequest = Effect.fnUntraced(function*(
    { after, finish, park, records = [], start }: RunWrite,
    run: JobId,
    attempt: number,
    mask: (text: string) => string,
    cut: Cut
  ): Effect.fn.Return<RunRequest, InvalidRequest> {
    return {
      run,
      attempt,
      after,
      records: yield* Effect.forEach(records, (record) => toRecord(record, mask, cut)),
      start: start === undefined
        ? undefined
        : { definition: start.definition, ttlMs: start.ttlMs ?? DEFAULT_RUN_MILLIS, undo: start.undo ?? false },
      park: park === undefined ? undefined : { seen: park.seen, wakeAfter: park.wakeAfter ?? 1, until: park.until ?? null },
      finish: finish === undefined
        ? undefined
        : "error" in finish
        ? { output: null, error: mask(finish.error), cancelled: false }
        : "cancelled" in finish
        ? { output: null, error: null, cancelled: true }
        : { output: finish.output === undefined ? null : textOf(finish.output), error: null, cancelled: false }
    }
  })

  /** The output of the child whose end an entry records. */
  const outputOf = Effect.fnUntraced(function*(entry: RunEntry) {
    const [job, endpoint] = entry.kind === "end" && memberOf(entry, "status") === "COMPLETED"
      ? [memberOf(entry, "job"), memberOf(entry, "endpoint")]
      : []
    if (job === undefined || endpoint === undefined) return undefined
    return yield* jobs.get(EndpointId.make(endpoint), job).pipe(
      Effect.map(({ output }) => output ?? undefined),
      Effect.catchTag("JobMissing", () => Effect.succeed(undefined))
    )
  })

  /**
   * The result for one run. Entries that do not fit into the response are omitted, except those that correspond to the request's own records. `space`
   * is reduced by the size of the result.
   */
  const answerJson = Effect.fnUntraced(function*(
    { records, run }: Pick<RunRequest, "records" | "run">,
    result: JournalResult,
    space: { left: number }
  ) {
    const own = new Set(records.map(({ path }) => path))
    const entries: Array<string> = []
    let { upTo } = result
    let isCut = false
    let outputs = new Map<number, string | undefined>()
    for (const [at, entry] of result.entries.entries()) {
      const isOwn = own.has(entry.path)
      if (isCut && !isOwn) continue
      if (!outputs.has(entry.n)) {
        const next = result.entries.slice(at, at + OUTPUTS_AT_ONCE)
        outputs = new Map(
          yield* Effect.forEach(next, (one) => Effect.map(outputOf(one), (output) => [one.n, output] as const), {
            concurrency: "unbounded"
          })
        )
      }
      const text = entryJson(entry, outputs.get(entry.n))
      // The first entry is always included, so that a worker that requests more makes progress.
      if (!isOwn && text.length > space.left && space.left < RESPONSE_CHARACTERS) {
        isCut = true
        upTo = entry.n - 1
        continue
      }
      space.left -= text.length
      entries.push(text)
    }
    const state = result.state === "unknown" || result.state === "idle" ? "running" : result.state
    return `{"run":${JSON.stringify(run)},"state":"${state}","n":${result.last},"entries":[${entries.join(",")}]` +
      `,"phase":"${result.phase}","chunks":${result.chunks}` + (upTo === null ? "" : `,"more":true,"upTo":${upTo}`) +
      (result.state === "unknown" ? ",\"definition\":\"unknown\"" : "") +
      (result.cause === null ? "}" : `,"cause":${JSON.stringify(result.cause)}}`)
  })

  const lostJson = (run: string, cause: string): string =>
    `{"run":${JSON.stringify(run)},"state":"lost","n":0,"entries":[],"phase":"doing","chunks":0,"cause":${JSON.stringify(cause)}}`

  return Effect.fnUntraced(function*(
    { request }: { readonly request: HttpServerRequest.HttpServerRequest },
    { endpoint, proof, worker }: { readonly endpoint: Endpoint; readonly worker: string; readonly proof: Proof }
  ) {
    const text = yield* readText(request, limits.resultBytes, remedy)
    const { cut, request: cutRequest } = makeCutter(hint)
    const { definitions = [], runs: writes, waitMs = 0 } = yield* Effect.flatMap(cutRequest(text), decodeRequest)
    if (writes.reduce((count, { records = [] }) => count + records.length, 0) > MAX_JOURNAL_RECORDS) {
      return yield* new InvalidRequest(problemMembers(
        `The request has more than ${MAX_JOURNAL_RECORDS} records. Nothing was stored.`,
        "Send the records in several requests."
      ))
    }
    const mask = secrets.maskOf(endpoint) ?? ((error: string) => error)
    if (definitions.length > 0) {
      // Members that the schema does not list are stored too.
      yield* Effect.forEach(definitions, ({ graph }) => decodeGraph(graph), { discard: true })
      yield* mapStoreErrors(
        runs.define(endpoint.id, definitions.map(({ graph, hash }) => ({ hash, graph: textOf(graph) })))
      )
    }
    const answers = new Map<number, string>()
    const requests: Array<{ readonly at: number; readonly request: RunRequest }> = []
    for (const [at, write] of writes.entries()) {
      const proven = isJobId(write.run) ? proof(write) : { cause: `There is no job "${write.run}".` }
      if ("cause" in proven || !isJobId(write.run)) answers.set(at, lostJson(write.run, "cause" in proven ? proven.cause : ""))
      else requests.push({ at, request: yield* toRequest(write, write.run, proven.attempt, mask, cut) })
    }
    const results = requests.length === 0
      ? []
      : yield* mapStoreErrors(runs.journal(endpoint.id, worker, requests.map(({ request }) => request), waitMs))
    const space = { left: RESPONSE_CHARACTERS }
    for (const [index, { at, request }] of requests.entries()) {
      const result = results[index]
      if (result !== undefined) answers.set(at, yield* mapStoreErrors(answerJson(request, result, space)))
    }
    const now = yield* Clock.currentTimeMillis
    return yield* trackedJson(`{"now":${now},"runs":[${writes.map((_, at) => answers.get(at)).join(",")}]}`)
  })
})

/** Reads a request of `run-journal`, stores its records and returns the response. The caller has checked the worker's key. */
export const operation = make
