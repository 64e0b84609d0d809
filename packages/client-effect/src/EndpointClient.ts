/**
 * An endpoint and its jobs, as Effects and Streams.
 */
import { codecFailure } from "@stint/client/CallError"
import { type JobEvent, subscribe, type SubscribeOptions } from "@stint/client/JobEventSubscription"
import type { EndedJob } from "@stint/client/JobOutcome"
import * as JobsApiCalls from "@stint/client/JobsApiCalls"
import type { Target } from "@stint/client/RetriedRequest"
import type { Health } from "@stint/contract/Health"
import type { Job, JobReceipt, Purged } from "@stint/contract/Job"
import type { Json } from "@stint/contract/Json"
import type { EventReceipt, SendEvent } from "@stint/contract/RunSteps"
import { fieldIssues } from "@stint/contract/SchemaIssues"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ClientError } from "./ClientError.ts"
import type { Driver } from "./EffectDriver.ts"
import type { Codec } from "./HandlerCodec.ts"
import { JobCancelled, JobFailed, type JobFailure, JobTimedOut } from "./JobFailure.ts"

/** The options for a submission. */
export interface RunOptions extends JobsApiCalls.SubmitOptions {}

/** The options for a submission that waits for the job. */
export interface WaitOptions extends RunOptions {
  /**
   * Cancels the job when the wait is interrupted. Default false: the job continues. If true, the client first submits the job in a
   * separate, uninterruptible request, so that it knows the job's id before the wait.
   */
  readonly cancelOnInterrupt?: boolean | undefined
}

/** The options for `events`. */
export interface EventsOptions {
  /** Read the events after this `position`. Default: all events. */
  readonly after?: string | undefined
}

/** A job. */
export interface JobHandle<out Output, out Chunk, out E = never, out R = never> {
  readonly id: string
  /** Reads the job. `output` is the latest progress while the job is IN_PROGRESS. */
  readonly status: Effect.Effect<Job, ClientError>
  /** Waits until the job ends, without a time limit, and returns its output. `E` are the failures that the handler declares. */
  readonly result: Effect.Effect<Output, E | JobFailure | ClientError, R>
  /**
   * Emits all of the job's chunks, starting with the first, until the job ends. Fails after the last chunk if the job failed. Every reader
   * receives all chunks. When an attempt is lost, all chunks of the next attempt follow.
   */
  readonly stream: Stream.Stream<Chunk, E | JobFailure | ClientError, R>
  /** Emits the job's events: statuses, progress, chunks, log lines and the end. Does not fail when the job failed. */
  readonly events: (options?: EventsOptions) => Stream.Stream<JobEvent<Chunk>, ClientError, R>
  readonly cancel: Effect.Effect<JobReceipt, ClientError>
  /** Runs a FAILED or TIMED_OUT job again. */
  readonly retry: Effect.Effect<JobReceipt, ClientError>
}

/** An endpoint. */
export interface Endpoint<in Input, out Output, out Chunk, out E = never, out R = never> {
  readonly name: string
  /** Submits a job. */
  readonly run: (input: Input, options?: RunOptions) => Effect.Effect<JobHandle<Output, Chunk, E, R>, ClientError, R>
  /** Submits a job, waits until it ends, without a time limit, and returns its output. */
  readonly runSync: (input: Input, options?: WaitOptions) => Effect.Effect<Output, E | JobFailure | ClientError, R>
  /** Submits a job when the stream runs, and emits its chunks. */
  readonly stream: (input: Input, options?: WaitOptions) => Stream.Stream<Chunk, E | JobFailure | ClientError, R>
  /** The handle of an existing job. */
  readonly job: (id: string) => JobHandle<Output, Chunk, E, R>
  readonly status: (id: string) => Effect.Effect<Job, ClientError>
  readonly result: (id: string) => Effect.Effect<Output, E | JobFailure | ClientError, R>
  readonly events: (id: string, options?: EventsOptions) => Stream.Stream<JobEvent<Chunk>, ClientError, R>
  readonly cancel: (id: string) => Effect.Effect<JobReceipt, ClientError>
  readonly retry: (id: string) => Effect.Effect<JobReceipt, ClientError>
  /** Pipelines only: sends an event to the run that waits for it. */
  readonly sendEvent: (event: SendEvent) => Effect.Effect<EventReceipt, ClientError>
  /** Removes all waiting jobs. */
  readonly purgeQueue: Effect.Effect<Purged, ClientError>
  readonly health: Effect.Effect<Health, ClientError>
}

/** Creates an endpoint that runs its programs with a driver. */
export const make = <Input, Output, Chunk, E, R>(
  target: Target,
  { drive, session }: Driver,
  codec: Codec<Input, Output, Chunk, E, R>
): Endpoint<Input, Output, Chunk, E, R> => {
  const { endpoint, host } = target
  const attributes = { "stint.endpoint": endpoint }

  /** Converts a Schema's rejection to a ClientError. */
  const mapSchemaError = <A, R>(
    effect: Effect.Effect<A, Schema.SchemaError, R>,
    tag: "Invalid" | "Mismatch",
    operation: string,
    job?: string
  ): Effect.Effect<A, ClientError, R> =>
    Effect.mapError(
      effect,
      (error) =>
        new ClientError(
          codecFailure({ host, endpoint, operation, ...(job === undefined ? {} : { job }) }, tag, fieldIssues(error))
        )
    )

  const encodeInput = (operation: string, input: Input) => mapSchemaError(codec.input(input), "Invalid", operation)

  const failure = (job: EndedJob): Effect.Effect<never, E | JobFailure, R> => {
    switch (job.status) {
      case "CANCELLED":
        return Effect.fail(new JobCancelled({ endpoint, job }))
      case "TIMED_OUT":
        return Effect.fail(new JobTimedOut({ endpoint, job }))
      case "COMPLETED":
      case "FAILED":
        return Effect.flatMap(
          codec.declared(job.error ?? ""),
          (declared): Effect.Effect<never, E | JobFailure> =>
            Option.isSome(declared) ? Effect.fail(declared.value) : Effect.fail(new JobFailed({ endpoint, job }))
        )
    }
  }

  const outputOrFail = (operation: string, job: EndedJob): Effect.Effect<Output, E | JobFailure | ClientError, R> =>
    job.status === "COMPLETED" ? mapSchemaError(codec.output(job.output), "Mismatch", operation, job.id) : failure(job)

  const submit = (operation: string, json: unknown, options: JobsApiCalls.SubmitOptions) =>
    Effect.map(drive(() => JobsApiCalls.run(target, json, options, operation)), ({ id }) => id)

  const cancel = (id: string) => drive(() => JobsApiCalls.cancel(target, id))

  /** Ignores errors, because the caller has been interrupted. */
  const cancelQuietly = (id: string) => Effect.ignore(cancel(id))

  const waitFor = (operation: string, id: string) =>
    Effect.flatMap(drive(() => JobsApiCalls.result(target, id, operation)), (job) => outputOrFail(operation, job))

  const decodeChunk = (operation: string, id: string, output: Json) =>
    mapSchemaError(codec.chunk(output), "Mismatch", operation, id)

  /** Converts each batch of a job's events with `read`. Runs `end` after the elements of the last batch have been emitted. */
  const follow = <A, E>(
    id: string,
    options: SubscribeOptions,
    read: (events: ReadonlyArray<JobEvent>) => Effect.Effect<ReadonlyArray<A>, E | ClientError, R>,
    end: (job: EndedJob) => Effect.Effect<void, E, R>
  ): Stream.Stream<A, E | ClientError, R> =>
    Stream.unwrap(Effect.map(session, (drive) => {
      const next = subscribe(target, id, options)
      return Stream.paginate<EndedJob | undefined, A, E | ClientError, R>(undefined, (ended) =>
        Effect.gen(function*() {
          if (ended !== undefined) yield* end(ended)
          const events = yield* drive(next)
          if (events === undefined) return [[], Option.none()]
          const last = events.at(-1)
          return [yield* read(events), Option.some(last?._tag === "End" ? last.job : undefined)]
        }))
    }))

  const chunks = (operation: "stream", id: string): Stream.Stream<Chunk, E | JobFailure | ClientError, R> =>
    follow<Chunk, E | JobFailure>(
      id,
      { operation },
      (events) =>
        Effect.forEach(
          events.flatMap((event) => event._tag === "Chunk" ? [event.output] : []),
          (output) => decodeChunk(operation, id, output)
        ),
      (job) => job.status === "COMPLETED" ? Effect.void : failure(job)
    )

  const events = (id: string, options: EventsOptions = {}): Stream.Stream<JobEvent<Chunk>, ClientError, R> =>
    follow<JobEvent<Chunk>, never>(
      id,
      { operation: "events", after: options.after },
      (events) =>
        Effect.forEach(events, (event): Effect.Effect<JobEvent<Chunk>, ClientError, R> =>
          event._tag === "Chunk"
            ? Effect.map(decodeChunk("events", id, event.output), (output) => ({ ...event, output }))
            : Effect.succeed(event)),
      () => Effect.void
    )

  const job = (id: string): JobHandle<Output, Chunk, E, R> => ({
    id,
    status: drive(() => JobsApiCalls.status(target, id)),
    result: waitFor("result", id),
    stream: chunks("stream", id),
    events: (options) => events(id, options),
    cancel: cancel(id),
    retry: drive(() => JobsApiCalls.retry(target, id))
  })

  const runSync = Effect.fn("Client.runSync", { attributes })(
    function*(input: Input, options: WaitOptions = {}): Effect.fn.Return<Output, E | JobFailure | ClientError, R> {
      const { cancelOnInterrupt, ...submission } = options
      const json = yield* encodeInput("runSync", input)
      if (cancelOnInterrupt !== true) {
        return yield* outputOrFail("runSync", yield* drive(() => JobsApiCalls.runSync(target, json, submission)))
      }
      return yield* Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(
          submit("runSync", json, submission),
          (id) => Effect.onInterrupt(restore(waitFor("runSync", id)), () => cancelQuietly(id))
        )
      )
    }
  )

  return {
    name: endpoint,
    run: Effect.fn("Client.run", { attributes })(
      function*(input: Input, options: RunOptions = {}): Effect.fn.Return<JobHandle<Output, Chunk, E, R>, ClientError, R> {
        return job(yield* submit("run", yield* encodeInput("run", input), options))
      }
    ),
    runSync,
    stream: (input, { cancelOnInterrupt, ...submission } = {}) =>
      Stream.unwrap(Effect.gen(function*() {
        const json = yield* encodeInput("stream", input)
        if (cancelOnInterrupt !== true) return chunks("stream", yield* submit("stream", json, submission))
        // The stream's scope owns the job: the job is cancelled if the stream is interrupted or only some chunks are taken.
        let hasEnded = false
        const id = yield* Effect.acquireRelease(
          submit("stream", json, submission),
          (id) => hasEnded ? Effect.void : cancelQuietly(id)
        )
        return Stream.onEnd(
          Stream.tapError(chunks("stream", id), () =>
            Effect.sync(() => {
              hasEnded = true
            })),
          Effect.sync(() => {
            hasEnded = true
          })
        )
      })),
    job,
    status: (id) => job(id).status,
    result: (id) => job(id).result,
    events,
    cancel,
    retry: (id) => job(id).retry,
    sendEvent: (event) => drive(() => JobsApiCalls.sendEvent(target, event)),
    purgeQueue: drive(() => JobsApiCalls.purgeQueue(target)),
    health: drive(() => JobsApiCalls.health(target))
  }
}
