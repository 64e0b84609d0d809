/**
 * Calls endpoints with promises and async iterables, in Node (20 and later) and in browsers.
 *
 * ```ts
 * const client = createClient({ baseUrl: "http://127.0.0.1:4600", apiKey })
 * const countdown = client.endpoint("countdown")
 * for await (const n of countdown.stream({ from: 3 })) console.log(n)
 * ```
 *
 * Every call accepts an `AbortSignal`; an aborted call rejects with the signal's reason. All other errors are a {@link StintError}:
 * `CallError` if the call failed, and `JobFailedError`, `JobCancelledError` or `JobTimedOutError` if the job ended without an output.
 *
 * Aborting a wait does not affect the job, which continues; `cancelOnAbort` cancels it.
 */
import type { Health, Job, JobReceipt, Json, Purged, RunEvent, RunEventReceipt } from "./ApiTypes.ts"
import { CallError, codecFailure } from "./CallError.ts"
import { DEFAULT_TIMEOUTS, normalizeBaseUrl, randomIdempotencyKey, requestHeaders, type Timeouts } from "./ClientSettings.ts"
import type { CodecResult, EndpointCodec } from "./EndpointCodec.ts"
import { drive, type Fetch, Session } from "./FetchDriver.ts"
import type { ElementOf, HandlerLike, JsonChunkOf, JsonInputOf, JsonOutputOf } from "./HandlerType.ts"
import { JobCancelledError, JobFailedError, JobTimedOutError } from "./JobErrors.ts"
import type { EndedJob } from "./JobOutcome.ts"
import type { Program } from "./protocol/DriverProtocol.ts"
import { type JobEvent, subscribe, type SubscribeOptions } from "./protocol/JobEventSubscription.ts"
import * as JobsApiCalls from "./protocol/JobsApiCalls.ts"
import { decoders } from "./protocol/ResponseGuards.ts"
import type { Target } from "./protocol/RetriedRequest.ts"

/** The platform's URL, the key and the {@link Timeouts}, in milliseconds. */
export interface ClientOptions extends Partial<Timeouts> {
  /** `http://127.0.0.1:4600`; in a browser also relative to the page. A `/v2` at the end is removed. */
  readonly baseUrl: string | URL
  /** Omit the key in web pages, where every visitor could read it, and let a proxy add it. */
  readonly apiKey?: string | undefined
  /** Default: the global `fetch`. */
  readonly fetch?: Fetch | undefined
  /**
   * Generates an idempotency key for every submission without one, so that the client can repeat a submission whose response was lost.
   * Default false, because RunPod ignores the header and would create a job for each attempt.
   */
  readonly idempotencyKeys?: boolean | undefined
}

/** The options for every call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** The options for a submission. */
export interface RunOptions extends CallOptions, JobsApiCalls.SubmitOptions {}

/** The options for a submission that waits for the job. */
export interface WaitOptions extends RunOptions {
  /**
   * Cancels the job when `signal` aborts the wait, or when the loop over its stream ends early. Default false: the job continues. If true,
   * the client first submits the job in a separate request, so that it knows the job's id before the wait.
   */
  readonly cancelOnAbort?: boolean | undefined
}

/** The options for `events`. */
export interface EventsOptions extends CallOptions {
  /** Read the events after this `position`. Default: all events. */
  readonly after?: string | undefined
}

/** A job. */
export interface JobHandle<Output, Chunk> {
  readonly id: string
  /** Reads the job. `output` is the latest progress while the job is IN_PROGRESS. */
  readonly status: (options?: CallOptions) => Promise<Job>
  /** Waits until the job ends, without a time limit, and returns its output. */
  readonly result: (options?: CallOptions) => Promise<Output>
  /**
   * Yields all of the job's chunks, starting with the first, until the job ends. Rejects after the last chunk if the job failed. Every
   * reader receives all chunks. When an attempt is lost, all chunks of the next attempt follow.
   */
  readonly stream: (options?: CallOptions) => AsyncIterableIterator<Chunk>
  /** Yields the job's events: statuses, progress, chunks, log lines and the end. Does not reject when the job failed. */
  readonly events: (options?: EventsOptions) => AsyncIterableIterator<JobEvent<Chunk>>
  readonly cancel: (options?: CallOptions) => Promise<JobReceipt>
  /** Runs a FAILED or TIMED_OUT job again. */
  readonly retry: (options?: CallOptions) => Promise<JobReceipt>
}

/** An endpoint. */
export interface Endpoint<Input, Output, Chunk> {
  readonly name: string
  /** Submits a job. */
  readonly run: (input: Input, options?: RunOptions) => Promise<JobHandle<Output, Chunk>>
  /** Submits a job, waits until it ends, without a time limit, and returns its output. */
  readonly runSync: (input: Input, options?: WaitOptions) => Promise<Output>
  /** Submits a job when the iteration starts, and yields its chunks. */
  readonly stream: (input: Input, options?: WaitOptions) => AsyncIterableIterator<Chunk>
  /** The handle of an existing job. */
  readonly job: (id: string) => JobHandle<Output, Chunk>
  readonly status: (id: string, options?: CallOptions) => Promise<Job>
  readonly result: (id: string, options?: CallOptions) => Promise<Output>
  readonly events: (id: string, options?: EventsOptions) => AsyncIterableIterator<JobEvent<Chunk>>
  readonly cancel: (id: string, options?: CallOptions) => Promise<JobReceipt>
  readonly retry: (id: string, options?: CallOptions) => Promise<JobReceipt>
  /** Pipelines only: sends an event to the run that waits for it. */
  readonly sendEvent: (event: RunEvent, options?: CallOptions) => Promise<RunEventReceipt>
  /** Removes all waiting jobs. */
  readonly purgeQueue: (options?: CallOptions) => Promise<Purged>
  readonly health: (options?: CallOptions) => Promise<Health>
}

/** A connection to a platform. It holds no resources and does not have to be closed. */
export interface Client {
  /** The platform's URL. */
  readonly baseUrl: string
  /** An endpoint with JSON input and output. `output` is undefined if the handler returned `{}`. */
  endpoint(name: string): Endpoint<Json, Json | undefined, Json>
  /**
   * An endpoint whose types come from the type of its handler. Values have their JSON types: a `URL` is a string. Nothing is validated at run
   * time.
   */
  endpoint<H extends HandlerLike>(name: string): Endpoint<JsonInputOf<H>, JsonOutputOf<H>, JsonChunkOf<H>>
  /** An endpoint typed by the caller: `endpoint<{ from: number }, ReadonlyArray<number>>`. Nothing is validated at run time. */
  endpoint<Input, Output, Chunk = ElementOf<Output>>(name: string): Endpoint<Input, Output, Chunk>
  /**
   * An endpoint typed and validated by a codec: `endpoint(PromiseCodec.make(handler))` with `PromiseCodec` from `@stint/client-effect`. An
   * invalid input is rejected before it is sent (`CallError`, `Invalid`), and an invalid output when it is received (`Mismatch`). `name`
   * overrides the codec's name.
   */
  endpoint<Input, Output, Chunk>(codec: EndpointCodec<Input, Output, Chunk>, name?: string): Endpoint<Input, Output, Chunk>
}

const passThrough = async (value: unknown): Promise<CodecResult<unknown>> => ({ value })

/** The codec of an endpoint that is called by name. */
const unvalidated = (name: string): EndpointCodec<unknown, unknown, unknown> => ({
  name,
  input: passThrough,
  output: passThrough,
  chunk: passThrough,
  declared: async () => undefined
})

interface EndpointContext {
  readonly target: Target
  readonly codec: EndpointCodec<never, unknown, unknown>
  readonly fetch: Fetch
  readonly drive: <A>(program: Program<A>, signal: AbortSignal | undefined) => Promise<A>
}

const encodeInput = async ({ codec, target }: EndpointContext, operation: string, input: never): Promise<unknown> => {
  const result = await codec.input(input)
  if ("value" in result) return result.value
  throw new CallError(codecFailure({ ...target, operation }, "Invalid", result.problems))
}

/** Unwraps a decoded output or chunk. */
const valueOrThrow = (
  { target }: EndpointContext,
  operation: string,
  job: string,
  result: CodecResult<unknown>
): unknown => {
  if ("value" in result) return result.value
  throw new CallError(codecFailure({ ...target, operation, job }, "Mismatch", result.problems))
}

/** Returns the output of an ended job, or throws. */
const outputOrThrow = async (context: EndpointContext, operation: string, job: EndedJob): Promise<unknown> => {
  const { codec, target: { endpoint } } = context
  switch (job.status) {
    case "COMPLETED":
      return valueOrThrow(context, operation, job.id, await codec.output(job.output))
    case "FAILED":
      throw new JobFailedError(endpoint, job, await codec.declared(job.error ?? ""))
    case "CANCELLED":
      throw new JobCancelledError(endpoint, job)
    case "TIMED_OUT":
      throw new JobTimedOutError(endpoint, job)
  }
}

/** Yields a job's events. Closes the connection when the reader stops. */
async function* follow(
  context: EndpointContext,
  id: string,
  options: SubscribeOptions,
  signal: AbortSignal | undefined
): AsyncGenerator<JobEvent<unknown>, void> {
  const next = subscribe(context.target, id, options)
  const session = new Session(context.fetch)
  try {
    while (true) {
      const events = await session.drive(next(), signal)
      if (events === undefined) return
      for (const event of events) {
        yield event._tag === "Chunk"
          ? { ...event, output: valueOrThrow(context, options.operation, id, await context.codec.chunk(event.output)) }
          : event
      }
    }
  } finally {
    session.close()
  }
}

async function* chunks(context: EndpointContext, id: string, signal: AbortSignal | undefined): AsyncGenerator<unknown, void> {
  for await (const event of follow(context, id, { operation: "stream" }, signal)) {
    if (event._tag === "Chunk") yield event.output
    // Do not decode the output of a COMPLETED job: callers of `stream` do not read it, and it is usually an empty list.
    if (event._tag === "End" && event.job.status !== "COMPLETED") await outputOrThrow(context, "stream", event.job)
  }
}

const jobHandle = (context: EndpointContext, id: string): JobHandle<unknown, unknown> => ({
  id,
  status: ({ signal } = {}) => context.drive(JobsApiCalls.status(context.target, id), signal),
  result: async ({ signal } = {}) =>
    outputOrThrow(context, "result", await context.drive(JobsApiCalls.result(context.target, id), signal)),
  stream: ({ signal } = {}) => chunks(context, id, signal),
  events: ({ after, signal } = {}) => follow(context, id, { operation: "events", after }, signal),
  cancel: ({ signal } = {}) => context.drive(JobsApiCalls.cancel(context.target, id), signal),
  retry: ({ signal } = {}) => context.drive(JobsApiCalls.retry(context.target, id), signal)
})

/** Cancels a job after an aborted wait. Ignores errors, because the caller receives the reason for the abort. */
const cancelQuietly = (context: EndpointContext, id: string): Promise<unknown> =>
  context.drive(JobsApiCalls.cancel(context.target, id), undefined).catch(() => {})

/** Submits a job that must be cancelled if the wait is aborted. This call cannot be aborted, because the job's id must be known. */
const submitCancellable = async (
  context: EndpointContext,
  operation: string,
  input: unknown,
  options: JobsApiCalls.SubmitOptions,
  signal?: AbortSignal
) => {
  signal?.throwIfAborted()
  return (await context.drive(JobsApiCalls.run(context.target, input, options, operation), undefined)).id
}

const endpointOf = (context: EndpointContext): Endpoint<never, unknown, unknown> => {
  const { drive, target } = context

  const runSync = async (input: never, { cancelOnAbort, signal, ...options }: WaitOptions = {}): Promise<unknown> => {
    const json = await encodeInput(context, "runSync", input)
    if (cancelOnAbort !== true) {
      return outputOrThrow(context, "runSync", await drive(JobsApiCalls.runSync(target, json, options), signal))
    }
    const id = await submitCancellable(context, "runSync", json, options, signal)
    try {
      return await outputOrThrow(context, "runSync", await drive(JobsApiCalls.result(target, id, "runSync"), signal))
    } catch (error) {
      if (signal?.aborted === true) await cancelQuietly(context, id)
      throw error
    }
  }

  async function* stream(input: never, { cancelOnAbort, signal, ...options }: WaitOptions = {}): AsyncGenerator<unknown, void> {
    const json = await encodeInput(context, "stream", input)
    const id = cancelOnAbort === true
      ? await submitCancellable(context, "stream", json, options, signal)
      : (await drive(JobsApiCalls.run(target, json, options, "stream"), signal)).id
    let stoppedEarly = true
    try {
      yield* chunks(context, id, signal)
      stoppedEarly = false
    } catch (error) {
      stoppedEarly = signal?.aborted === true
      throw error
    } finally {
      if (stoppedEarly && cancelOnAbort === true) await cancelQuietly(context, id)
    }
  }

  return {
    name: target.endpoint,
    run: async (input, { signal, ...options } = {}) => {
      const json = await encodeInput(context, "run", input)
      return jobHandle(context, (await drive(JobsApiCalls.run(target, json, options), signal)).id)
    },
    runSync,
    stream,
    job: (id) => jobHandle(context, id),
    status: (id, options) => jobHandle(context, id).status(options),
    result: (id, options) => jobHandle(context, id).result(options),
    events: (id, options) => jobHandle(context, id).events(options),
    cancel: (id, options) => jobHandle(context, id).cancel(options),
    retry: (id, options) => jobHandle(context, id).retry(options),
    sendEvent: (event, { signal } = {}) => drive(JobsApiCalls.sendEvent(target, event), signal),
    purgeQueue: ({ signal } = {}) => drive(JobsApiCalls.purgeQueue(target), signal),
    health: ({ signal } = {}) => drive(JobsApiCalls.health(target), signal)
  }
}

/**
 * Creates a client. It sends nothing until the first call.
 *
 * Throws a TypeError if `baseUrl` is not a URL or `apiKey` contains invalid characters.
 */
export const createClient = (options: ClientOptions): Client => {
  const { apiKey, baseUrl, fetch = (...call) => globalThis.fetch(...call), idempotencyKeys, ...timeouts } = options
  const host = normalizeBaseUrl(baseUrl)
  const newIdempotencyKey = idempotencyKeys === true ? randomIdempotencyKey : undefined
  const settings = { ...DEFAULT_TIMEOUTS, ...timeouts, host, headers: requestHeaders(apiKey), decoders, newIdempotencyKey }

  function endpoint(name: string): Endpoint<Json, Json | undefined, Json>
  function endpoint<H extends HandlerLike>(name: string): Endpoint<JsonInputOf<H>, JsonOutputOf<H>, JsonChunkOf<H>>
  function endpoint<Input, Output, Chunk = ElementOf<Output>>(name: string): Endpoint<Input, Output, Chunk>
  function endpoint<Input, Output, Chunk>(
    codec: EndpointCodec<Input, Output, Chunk>,
    name?: string
  ): Endpoint<Input, Output, Chunk>
  function endpoint(of: string | EndpointCodec<never, unknown, unknown>, name?: string): Endpoint<never, unknown, unknown> {
    const codec = typeof of === "string" ? unvalidated(of) : of
    if (!("chunk" in codec)) {
      throw new TypeError(
        "endpoint() received a handler. Pass a codec: endpoint(PromiseCodec.make(handler)), with PromiseCodec from @stint/client-effect."
      )
    }
    return endpointOf({
      target: { ...settings, endpoint: name ?? codec.name },
      codec,
      fetch,
      drive: (program, signal) => drive(fetch, program, signal)
    })
  }

  return { baseUrl: host, endpoint }
}
