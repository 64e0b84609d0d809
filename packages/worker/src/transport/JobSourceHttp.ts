/**
 * The HTTP transport to a platform (docs/spec/worker-protocol.md#overview).
 *
 * Requests are nearly the same for every platform: `Authorization` contains the raw key, the job's `attempt` is sent back if it has one
 * (our platform uses it for fencing, others ignore it), and results are JSON. Only the content type of results differs: with `RUNPOD_`
 * variables, it is the content type that RunPod's own SDK sends (docs/spec/worker-protocol.md#headers), because no other content type is
 * known to be accepted there.
 */
import { LEASE_TOKEN_HEADER, TakenJob } from "@stint/contract/WorkerProtocol"
import type { Ping } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import { flow } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import { VERSION } from "../runtime/Version.ts"
import { appendQuery, WorkerConfig } from "../runtime/WorkerConfig.ts"
import type { JobAddress, Platform } from "../runtime/WorkerConfig.ts"
import { JobSource, JobSourceError, Refused } from "./JobSource.ts"
import * as NodeHttpClient from "./NodeHttpClient.ts"
import * as ProgressThread from "./ProgressThread.ts"
import * as ResultBatch from "./ResultBatch.ts"

/** Timeout for a take or a stop poll; platforms respond earlier. Milliseconds (docs/spec/worker-protocol.md#timings). */
const POLL_TIMEOUT = 90_000

/** Timeout for the response to a result. Milliseconds. */
const RESPONSE_TIMEOUT = 30_000

/** The maximum length of the platform's error message in the log, in characters. */
const MAX_ERROR_TEXT = 500

/**
 * The validated fields of a job. The input comes from JSON.parse, so it is valid JSON, and validating it again would take time proportional
 * to its size.
 */
const Frame = Schema.Struct({
  id: TakenJob.fields.id,
  delayTime: TakenJob.fields.delayTime,
  attempt: TakenJob.fields.attempt,
  leaseToken: TakenJob.fields.leaseToken
})
const decodeFrame = Schema.decodeUnknownOption(Frame)
const isJson = (value: unknown): value is Schema.Json => value !== undefined
const decodeStops = Schema.decodeUnknownOption(Schema.Struct({ jobsToStop: Schema.Array(Schema.Unknown) }))

/**
 * Reads a job from a JSON value; undefined when the value is not a job. A missing `input` becomes `{}`: RunPod drops an empty input, and its
 * callers would wait forever (docs/spec/rulings.md#empty-input).
 */
const readJob = (value: unknown): ReceivedJob | undefined => {
  if (!Predicate.isObject(value)) return undefined
  const frame = Option.getOrUndefined(decodeFrame(value))
  if (frame === undefined) return undefined
  const input = value["input"]
  return { ...value, ...frame, input: isJson(input) ? input : {} }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The message of an error body, on one line and truncated. Problem bodies contain it under `error`, `detail` or `message`. */
const errorText = (text: string): string => {
  const body = parse(text)
  const message = Predicate.isObject(body) ? body["error"] ?? body["detail"] ?? body["message"] : undefined
  const words = (typeof message === "string" ? message : text).replaceAll(/\s+/g, " ").trim()
  return words.length > MAX_ERROR_TEXT ? `${words.slice(0, MAX_ERROR_TEXT)}...` : words
}

const toJobSourceError = ({ status, text }: NodeHttpClient.HttpResponse) =>
  new JobSourceError({ reason: new Refused({ status, text: errorText(text) }) })

/** Treats a poll that timed out as empty, because a timeout is not an error here (docs/spec/worker-protocol.md#taking-a-job). */
const emptyOnTimeout = <A>(
  poll: Effect.Effect<ReadonlyArray<A>, JobSourceError>
): Effect.Effect<ReadonlyArray<A>, JobSourceError> =>
  Effect.catch(
    poll,
    (error) => error.reason._tag === "Unreachable" && error.reason.timedOut ? Effect.succeed([]) : Effect.fail(error)
  )

const isSuccess = ({ status }: NodeHttpClient.HttpResponse) => status >= 200 && status < 300

const make = Effect.fnUntraced(function*(platform: Platform, workerId: string) {
  const described = platform.prefix === "RUNPOD_"
  const headers = {
    ...(platform.key === undefined ? {} : { authorization: Redacted.value(platform.key) }),
    accept: "application/json",
    // Platforms other than Stint ignore it.
    [LEASE_TOKEN_HEADER]: "1",
    "user-agent": `stint-worker/${VERSION} (${workerId})`
  }
  const call = yield* NodeHttpClient.make(headers)
  const get = (url: string, idleTimeout: number) => call({ method: "GET", url, idleTimeout })

  const contentType = described ? "application/x-www-form-urlencoded" : "application/json"
  const addressOf = (address: JobAddress, job: ReceivedJob, stream: boolean, chunk?: number): string => {
    const base = appendQuery(address.join(encodeURIComponent(job.id)), "isStream", String(stream))
    const url = job.leaseToken === undefined ? base : appendQuery(base, "lease_token", job.leaseToken)
    // Only our platform knows these parameters, so they are sent only for jobs that have an attempt.
    if (job.attempt === undefined) return url
    return appendQuery(chunk === undefined ? url : appendQuery(url, "chunk", chunk), "attempt", job.attempt)
  }
  const post = (url: string, body: string): Effect.Effect<void, JobSourceError> =>
    Effect.flatMap(
      call({ method: "POST", url, body, contentType, idleTimeout: RESPONSE_TIMEOUT }),
      (answer) => isSuccess(answer) ? Effect.void : Effect.fail(toJobSourceError(answer))
    )

  /** Reads the jobs in a response. Skips and logs values that are not jobs (docs/spec/worker-protocol.md#the-taken-job). */
  const received = (answer: NodeHttpClient.HttpResponse): Effect.Effect<ReadonlyArray<ReceivedJob>, JobSourceError> => {
    if (answer.status === 204 || answer.status === 400) return Effect.succeed([])
    if (answer.status !== 200) return Effect.fail(toJobSourceError(answer))
    const body = answer.contentType === "application/json" ? parse(answer.text) : undefined
    if (body === undefined) {
      return Effect.as(
        Effect.logWarning(
          `The platform answered a take with ${answer.status}, content type "${answer.contentType}" and ${answer.text.length} ` +
            "characters, which is not JSON. Treating it as no job."
        ),
        []
      )
    }
    const values: ReadonlyArray<unknown> = Array.isArray(body) ? body : [body]
    const jobs = values.map(readJob).filter(Predicate.isNotUndefined)
    return jobs.length === values.length ? Effect.succeed(jobs) : Effect.as(
      Effect.logError(
        `The platform sent ${values.length - jobs.length} of ${values.length} jobs without an id. The worker cannot run them ` +
          "or deliver results for them."
      ),
      jobs
    )
  }

  // A 404 means that the platform has no batch route; from then on, the worker takes jobs one by one.
  let batches = platform.takeBatch

  const { doneBatch } = platform
  const results = doneBatch === undefined ? undefined : ResultBatch.make(
    (body) => call({ method: "POST", url: doneBatch, body, contentType: "application/json", idleTimeout: RESPONSE_TIMEOUT }),
    toJobSourceError
  )

  const take: JobSource["Service"]["take"] = ({ count, hasJobs }) => {
    const inProgress = hasJobs ? 1 : 0
    const single = get(appendQuery(platform.take, "job_in_progress", inProgress), POLL_TIMEOUT)
    const answer = count === 1 || batches === undefined ? single : Effect.flatMap(
      get(appendQuery(appendQuery(batches, "batch_size", count), "job_in_progress", inProgress), POLL_TIMEOUT),
      (batch) => {
        if (batch.status !== 404) return Effect.succeed(batch)
        batches = undefined
        return Effect.andThen(Effect.logDebug("The platform has no job-take-batch; taking jobs one by one."), single)
      }
    )
    const polled = emptyOnTimeout(Effect.flatMap(answer, received))
    return results === undefined ? polled : Effect.suspend(() => {
      results.taking(hasJobs)
      return Effect.tap(polled, (jobs) => Effect.sync(() => results.taken(jobs.length)))
    })
  }

  const deliverResult: JobSource["Service"]["deliverResult"] = (job, body, stream) => {
    const alone = post(addressOf(platform.done, job, stream), body)
    return results === undefined ? alone : results.deliver(job, body, alone)
  }

  const stopRequests: JobSource["Service"]["stopRequests"] = platform.stop === undefined ? Effect.never : Effect.gen(function*() {
    const answer = yield* get(platform.stop ?? "", POLL_TIMEOUT)
    if (answer.status === 204) return []
    if (answer.status !== 200) return yield* toJobSourceError(answer)
    const body = decodeStops(parse(answer.text))
    return Option.isNone(body) ? [] : body.value.jobsToStop.filter(Predicate.isString)
  }).pipe(emptyOnTimeout)

  const ping = Effect.fnUntraced(function*(message: Ping) {
    if (platform.ping === undefined) return
    const { form, url } = platform.ping
    const answer = form === "json"
      ? yield* call({
        method: "POST",
        url,
        body: JSON.stringify(message),
        contentType: "application/json",
        idleTimeout: RESPONSE_TIMEOUT
      })
      : yield* get(
        Object.entries(message).reduce((address, [key, value]) => appendQuery(address, key, String(value)), url),
        RESPONSE_TIMEOUT
      )
    if (!isSuccess(answer)) return yield* toJobSourceError(answer)
  })

  /** Sends JSON and returns the text of the response. */
  const send = (url: string) => (body: string) =>
    Effect.flatMap(
      call({ method: "POST", url, body, contentType: "application/json", idleTimeout: RESPONSE_TIMEOUT }),
      (answer) => isSuccess(answer) ? Effect.succeed(answer.text) : Effect.fail(toJobSourceError(answer))
    )

  return JobSource.of({
    take,
    deliverResult,
    deliverChunk: (job, body, number) => post(addressOf(platform.stream, job, false, number), body),
    progress: (job, output) => post(addressOf(platform.done, job, false), JSON.stringify({ status: "IN_PROGRESS", output })),
    // The heartbeat thread exists only if there is an address for heartbeats.
    ...(platform.ping === undefined ? {} : {
      progressThread: {
        ...yield* ProgressThread.make,
        addressOf: (job: ReceivedJob) => ({
          url: addressOf(platform.done, job, false),
          headers: { ...headers, "content-type": contentType }
        })
      }
    }),
    ...(platform.runJournal === undefined ? {} : { runJournal: send(platform.runJournal) }),
    ...(platform.handlerSchema === undefined ? {} : { handlerSchema: flow(send(platform.handlerSchema), Effect.asVoid) }),
    stopRequests,
    ping,
    streaming: true
  })
})

/** The HTTP transport to the given platform. */
export const layerOf = (platform: Platform): Layer.Layer<JobSource, never, WorkerConfig> =>
  Layer.effect(JobSource, Effect.flatMap(WorkerConfig, ({ identity }) => make(platform, identity.workerId)))
