/**
 * Calls endpoints with Promises and AsyncIterables, in Node (20 and later) and in browsers.
 *
 * ```ts
 * const client = createClient({ baseUrl: "http://127.0.0.1:4600", apiKey })
 * const countdown = client.endpoint("countdown")
 * for await (const n of countdown.stream({ from: 3 })) console.log(n)
 * ```
 *
 * Every call takes an `AbortSignal` and rejects with its reason. All other errors are a {@link StintError}: a `CallError` where the
 * platform could not be asked or did not do it, `JobFailedError`, `JobCancelledError` or `JobTimedOutError` where the job ended without an
 * output.
 *
 * Aborting a wait does not touch the job, which is durable and goes on; `cancelOnAbort` cancels it, too.
 */
import type { CodecResult, PromiseCodec } from "@stint/client-effect/PromiseCodec"
import type { Health } from "@stint/contract/Health"
import type { Job, JobReceipt, Purged } from "@stint/contract/Job"
import type { Json } from "@stint/contract/Json"
import { CallError, schemaMismatch } from "./CallError.ts"
import { drive, type Fetch, Session } from "./FetchDriver.ts"
import type {
  ChunkOf,
  ElementOf,
  HandlerLike,
  InputOf,
  JsonChunkOf,
  JsonInputOf,
  JsonOutputOf,
  OutputOf,
  PlainHandler
} from "./HandlerType.ts"
import { JobCancelledError, JobFailedError, JobTimedOutError } from "./JobErrors.ts"
import type { EndedJob } from "./JobOutcome.ts"
import {
  DEFAULT_TIMEOUTS,
  normalizeBaseUrl,
  type Program,
  randomIdempotencyKey,
  requestHeaders,
  type Timeouts
} from "./protocol/DriverProtocol.ts"
import { type JobEvent, subscribe, type SubscribeOptions } from "./protocol/JobEventSubscription.ts"
import * as JobsApiCalls from "./protocol/JobsApiCalls.ts"
import { decoders } from "./protocol/ResponseGuards.ts"
import type { Target } from "./protocol/RetriedRequest.ts"

/** Where the platform is, and how patient to be: {@link Patience}, in milliseconds. */
export interface ClientOptions extends Partial<Timeouts> {
  /** `http://127.0.0.1:4600`; in a browser also relative to the page. A `/v2` at its end is taken off. */
  readonly baseUrl: string | URL
  /** Leave it out where a proxy adds it: a key in a web page is everybody's. */
  readonly apiKey?: string | undefined
  /** Default: the global one. */
  readonly fetch?: Fetch | undefined
  /**
   * Give every submission an idempotency key of its own, where it has none, so that one whose answer was lost is sent again. Default false,
   * because on a platform that ignores the header every try is a job. Stint honours it.
   */
  readonly idempotencyKeys?: boolean | undefined
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, and rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** What a submission takes. */
export interface RunOptions extends CallOptions, JobsApiCalls.SubmitOptions {}

/** What a submission takes whose end is waited for. */
export interface WaitOptions extends RunOptions {
  /**
   * Cancel the job when the wait is ended by `signal`, or by leaving the loop over its stream. Default false: it goes on. With it the job
   * is submitted with a request of its own, because its id has to be known before the wait.
   */
  readonly cancelOnAbort?: boolean | undefined
}

/** From where a job is followed. */
export interface EventsOptions extends CallOptions {
  /** The `position` of the last event that is known. Default: from the beginning. */
  readonly after?: string | undefined
}

/** One job. */
export interface JobHandle<Output, Chunk> {
  readonly id: string
  /** As it is now; while IN_PROGRESS, `output` is its latest progress. */
  readonly status: (options?: CallOptions) => Promise<Job>
  /** Waits until it ends, however long it takes. */
  readonly result: (options?: CallOptions) => Promise<Output>
  /**
   * Its chunks, from the first one until it ends; a job that failed rejects after its last chunk. Any number of readers get all of them. An
   * attempt that was lost is followed by the chunks of the next one, from its beginning.
   */
  readonly stream: (options?: CallOptions) => AsyncIterableIterator<Chunk>
  /** Everything that happens to it: statuses, progress, chunks, its end, which rejects nothing here, however it ended. */
  readonly events: (options?: EventsOptions) => AsyncIterableIterator<JobEvent<Chunk>>
  readonly cancel: (options?: CallOptions) => Promise<JobReceipt>
  /** Runs it again, if it is FAILED or TIMED_OUT. */
  readonly retry: (options?: CallOptions) => Promise<JobReceipt>
}

/** One endpoint. */
export interface Endpoint<Input, Output, Chunk> {
  readonly name: string
  /** Submits a job. */
  readonly run: (input: Input, options?: RunOptions) => Promise<JobHandle<Output, Chunk>>
  /** Submits a job and waits for its output, however long it takes. */
  readonly runSync: (input: Input, options?: WaitOptions) => Promise<Output>
  /** Submits a job when it is iterated, and gives its chunks. */
  readonly stream: (input: Input, options?: WaitOptions) => AsyncIterableIterator<Chunk>
  /** A job that was submitted before, here or elsewhere. */
  readonly job: (id: string) => JobHandle<Output, Chunk>
  readonly status: (id: string, options?: CallOptions) => Promise<Job>
  readonly result: (id: string, options?: CallOptions) => Promise<Output>
  /** Everything that happens to a job. */
  readonly events: (id: string, options?: EventsOptions) => AsyncIterableIterator<JobEvent<Chunk>>
  readonly cancel: (id: string, options?: CallOptions) => Promise<JobReceipt>
  readonly retry: (id: string, options?: CallOptions) => Promise<JobReceipt>
  /** Removes all waiting jobs. */
  readonly purgeQueue: (options?: CallOptions) => Promise<Purged>
  readonly health: (options?: CallOptions) => Promise<Health>
}

/** A connection to a platform. It holds no resource, so there is nothing to close. */
export interface Client {
  /** Where the platform is. */
  readonly baseUrl: string
  /** An endpoint of JSON: the caller knows what goes in and comes out. `output` is undefined where the handler returned `{}`. */
  endpoint(name: string): Endpoint<Json, Json | undefined, Json>
  /** Typed by the type of a handler, in JSON: a `URL` of its Schemas is a string here. Nothing is checked at run time. */
  endpoint<H extends HandlerLike>(name: string): Endpoint<JsonInputOf<H>, JsonOutputOf<H>, JsonChunkOf<H>>
  /** Typed by the caller's word: `endpoint<{ from: number }, ReadonlyArray<number>>`. Nothing is checked at run time. */
  endpoint<Input, Output, Chunk = ElementOf<Output>>(name: string): Endpoint<Input, Output, Chunk>
  /**
   * Typed by a handler, and checked with its Schemas: input before it is sent (`CallError`, `Invalid`), output when it comes (`Mismatch`).
   * Schemas are loaded when the endpoint is first used. `name`: where the endpoint has another name than the handler.
   */
  endpoint<H extends PlainHandler>(handler: H, name?: string): Endpoint<InputOf<H>, OutputOf<H>, ChunkOf<H>>
}

const asIs = async (value: unknown): Promise<CodecResult> => ({ value })

const unchecked: PromiseCodec = { input: asIs, output: asIs, chunk: asIs, declared: async () => undefined }

/** Schemas come with a good part of Effect: they are loaded for those who use them, when they use them. */
const checked = (handler: PlainHandler): PromiseCodec => {
  let loading: Promise<PromiseCodec> | undefined
  const codec = () =>
    loading ??= import("@stint/client-effect/PromiseCodec").then(
      ({ make }) => make(handler),
      (error: unknown) => {
        // A web page that was offline for a moment may load it the next time.
        loading = undefined
        throw error
      }
    )
  return {
    input: async (input) => (await codec()).input(input),
    output: async (json) => (await codec()).output(json),
    chunk: async (json) => (await codec()).chunk(json),
    declared: async (error) => (await codec()).declared(error)
  }
}

/** How one endpoint is spoken to. */
interface EndpointContext {
  readonly target: Target
  readonly codec: PromiseCodec
  readonly fetch: Fetch
  readonly drive: <A>(program: Program<A>, signal: AbortSignal | undefined) => Promise<A>
}

const writeInput = async ({ codec, target }: EndpointContext, operation: string, input: unknown): Promise<unknown> => {
  const fit = await codec.input(input)
  if ("value" in fit) return fit.value
  throw new CallError(schemaMismatch({ ...target, operation }, "Invalid", fit.problems))
}

const readOutput = async (
  { target }: EndpointContext,
  operation: string,
  job: EndedJob,
  fit: Promise<CodecResult>
): Promise<unknown> => {
  const read = await fit
  if ("value" in read) return read.value
  throw new CallError(schemaMismatch({ ...target, operation, job: job.id }, "Mismatch", read.problems))
}

/** The output of a job that ended; throws where there is none. */
const outputOrFail = async (context: EndpointContext, operation: string, job: EndedJob): Promise<unknown> => {
  const { codec, target: { endpoint } } = context
  switch (job.status) {
    case "COMPLETED":
      return readOutput(context, operation, job, codec.output(job.output))
    case "FAILED":
      throw new JobFailedError(endpoint, job, await codec.declared(job.error ?? ""))
    case "CANCELLED":
      throw new JobCancelledError(endpoint, job)
    case "TIMED_OUT":
      throw new JobTimedOutError(endpoint, job)
  }
}

/** What happens to a job; hangs up when its reader leaves. */
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
        if (event._tag !== "Chunk") {
          yield event
          continue
        }
        const fit = await context.codec.chunk(event.output)
        if ("value" in fit) yield { ...event, output: fit.value }
        else {throw new CallError(
            schemaMismatch({ ...context.target, operation: options.operation, job: id }, "Mismatch", fit.problems)
          )}
      }
    }
  } finally {
    session.close()
  }
}

async function* chunks(context: EndpointContext, id: string, signal: AbortSignal | undefined): AsyncGenerator<unknown, void> {
  for await (const event of follow(context, id, { operation: "stream" }, signal)) {
    if (event._tag === "Chunk") yield event.output
    // Its output is not asked for here, and of a stream it is mostly an empty list.
    if (event._tag === "End" && event.job.status !== "COMPLETED") await outputOrFail(context, "stream", event.job)
  }
}

const jobHandle = (context: EndpointContext, id: string): JobHandle<unknown, unknown> => ({
  id,
  status: ({ signal } = {}) => context.drive(JobsApiCalls.status(context.target, id), signal),
  result: async ({ signal } = {}) =>
    outputOrFail(context, "result", await context.drive(JobsApiCalls.result(context.target, id), signal)),
  stream: ({ signal } = {}) => chunks(context, id, signal),
  events: ({ after, signal } = {}) => follow(context, id, { operation: "events", after }, signal),
  cancel: ({ signal } = {}) => context.drive(JobsApiCalls.cancel(context.target, id), signal),
  retry: ({ signal } = {}) => context.drive(JobsApiCalls.retry(context.target, id), signal)
})

/** Cancels a job that nobody waits for any more. Whoever stopped waiting gets their own reason, whatever comes of this. */
const cancelQuietly = (context: EndpointContext, id: string): Promise<unknown> =>
  context.drive(JobsApiCalls.cancel(context.target, id), undefined).catch(() => {})

/** Submits a job that is cancelled if the wait for it is given up, so that its id has to be known whatever happens. */
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

  const runSync = async (input: unknown, { cancelOnAbort, signal, ...options }: WaitOptions = {}): Promise<unknown> => {
    const json = await writeInput(context, "runSync", input)
    if (cancelOnAbort !== true) {
      return outputOrFail(context, "runSync", await drive(JobsApiCalls.runSync(target, json, options), signal))
    }
    const id = await submitCancellable(context, "runSync", json, options, signal)
    try {
      return await outputOrFail(context, "runSync", await drive(JobsApiCalls.result(target, id, "runSync"), signal))
    } catch (error) {
      if (signal?.aborted === true) await cancelQuietly(context, id)
      throw error
    }
  }

  async function* stream(input: unknown, { cancelOnAbort, signal, ...options }: WaitOptions = {}): AsyncGenerator<unknown, void> {
    const json = await writeInput(context, "stream", input)
    const id = cancelOnAbort === true
      ? await submitCancellable(context, "stream", json, options, signal)
      : (await drive(JobsApiCalls.run(target, json, options, "stream"), signal)).id
    let left = true
    try {
      yield* chunks(context, id, signal)
      left = false
    } catch (error) {
      left = signal?.aborted === true
      throw error
    } finally {
      if (left && cancelOnAbort === true) await cancelQuietly(context, id)
    }
  }

  return {
    name: target.endpoint,
    run: async (input, { signal, ...options } = {}) => {
      const json = await writeInput(context, "run", input)
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
    purgeQueue: ({ signal } = {}) => drive(JobsApiCalls.purgeQueue(target), signal),
    health: ({ signal } = {}) => drive(JobsApiCalls.health(target), signal)
  }
}

/**
 * Connects to a platform. Nothing is sent before the first call.
 *
 * Throws a TypeError for a `baseUrl` that is no address, or an `apiKey` that cannot be one.
 */
export const createClient = (options: ClientOptions): Client => {
  const { apiKey, baseUrl, fetch = (...call) => globalThis.fetch(...call), idempotencyKeys, ...timeouts } = options
  const host = normalizeBaseUrl(baseUrl)
  const newIdempotencyKey = idempotencyKeys === true ? randomIdempotencyKey : undefined
  const settings = { ...DEFAULT_TIMEOUTS, ...timeouts, host, headers: requestHeaders(apiKey), decoders, newIdempotencyKey }

  function endpoint(name: string): Endpoint<Json, Json | undefined, Json>
  function endpoint<H extends HandlerLike>(name: string): Endpoint<JsonInputOf<H>, JsonOutputOf<H>, JsonChunkOf<H>>
  function endpoint<Input, Output, Chunk = ElementOf<Output>>(name: string): Endpoint<Input, Output, Chunk>
  function endpoint<H extends PlainHandler>(handler: H, name?: string): Endpoint<InputOf<H>, OutputOf<H>, ChunkOf<H>>
  function endpoint(of: string | PlainHandler, name?: string): Endpoint<never, unknown, unknown> {
    return endpointOf({
      target: { ...settings, endpoint: typeof of === "string" ? of : name ?? of.name },
      codec: typeof of === "string" ? unchecked : checked(of),
      fetch,
      drive: (program, signal) => drive(fetch, program, signal)
    })
  }

  return { baseUrl: host, endpoint }
}
