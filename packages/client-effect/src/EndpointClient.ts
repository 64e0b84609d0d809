/**
 * One endpoint and its jobs, as Effects and Streams.
 */
import { schemaMismatch } from "@stint/client/CallError"
import { type JobEvent, subscribe, type SubscribeOptions } from "@stint/client/JobEventSubscription"
import type { EndedJob } from "@stint/client/JobOutcome"
import * as JobsApiCalls from "@stint/client/JobsApiCalls"
import type { Target } from "@stint/client/RetriedRequest"
import type { Health } from "@stint/contract/Health"
import type { Job, JobReceipt, Purged } from "@stint/contract/Job"
import type { Json } from "@stint/contract/Json"
import { fieldIssues } from "@stint/contract/SchemaIssues"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ClientError } from "./ClientError.ts"
import type { Driver } from "./EffectDriver.ts"
import type { Codec } from "./HandlerCodec.ts"
import { JobCancelled, JobFailed, type JobFailure, JobTimedOut } from "./JobFailure.ts"

/** What a submission takes. */
export interface RunOptions extends JobsApiCalls.SubmitOptions {}

/** What a submission takes whose end is waited for. */
export interface WaitOptions extends RunOptions {
  /**
   * Cancel the job when the wait is interrupted. Default false: it goes on. With it the job is submitted with a request of its own, which
   * cannot be interrupted, because the job's id has to be known before the wait.
   */
  readonly cancelOnInterrupt?: boolean | undefined
}

/** From where a job is followed. */
export interface EventsOptions {
  /** The `position` of the last event that is known. Default: from the beginning. */
  readonly after?: string | undefined
}

/** One job. */
export interface JobHandle<out Output, out Chunk, out E = never, out R = never> {
  readonly id: string
  /** As it is now; while IN_PROGRESS, `output` is its latest progress. */
  readonly status: Effect.Effect<Job, ClientError>
  /** Waits until it ends, however long it takes. `E` are the failures that the handler declares. */
  readonly result: Effect.Effect<Output, E | JobFailure | ClientError, R>
  /**
   * Its chunks, from the first one until it ends; a job that failed fails the stream after its last chunk. Any number of readers get all
   * of them. An attempt that was lost is followed by the chunks of the next one, from its beginning.
   */
  readonly stream: Stream.Stream<Chunk, E | JobFailure | ClientError, R>
  /** Everything that happens to it: statuses, progress, chunks, its end, which is no failure here, however it ended. */
  readonly events: (options?: EventsOptions) => Stream.Stream<JobEvent<Chunk>, ClientError, R>
  readonly cancel: Effect.Effect<JobReceipt, ClientError>
  /** Runs it again, if it is FAILED or TIMED_OUT. */
  readonly retry: Effect.Effect<JobReceipt, ClientError>
}

/** One endpoint. */
export interface Endpoint<in Input, out Output, out Chunk, out E = never, out R = never> {
  readonly name: string
  /** Submits a job. */
  readonly run: (input: Input, options?: RunOptions) => Effect.Effect<JobHandle<Output, Chunk, E, R>, ClientError, R>
  /** Submits a job and waits for its output, however long it takes. */
  readonly runSync: (input: Input, options?: WaitOptions) => Effect.Effect<Output, E | JobFailure | ClientError, R>
  /** Submits a job when the stream is run, and gives its chunks. */
  readonly stream: (input: Input, options?: WaitOptions) => Stream.Stream<Chunk, E | JobFailure | ClientError, R>
  /** A job that was submitted before, here or elsewhere. */
  readonly job: (id: string) => JobHandle<Output, Chunk, E, R>
  readonly status: (id: string) => Effect.Effect<Job, ClientError>
  readonly result: (id: string) => Effect.Effect<Output, E | JobFailure | ClientError, R>
  /** Everything that happens to a job. */
  readonly events: (id: string, options?: EventsOptions) => Stream.Stream<JobEvent<Chunk>, ClientError, R>
  readonly cancel: (id: string) => Effect.Effect<JobReceipt, ClientError>
  readonly retry: (id: string) => Effect.Effect<JobReceipt, ClientError>
  /** Removes all waiting jobs. */
  readonly purgeQueue: Effect.Effect<Purged, ClientError>
  readonly health: Effect.Effect<Health, ClientError>
}

/** An endpoint over a driver. */
export const make = <Input, Output, Chunk, E, R>(
  target: Target,
  { drive, session }: Driver,
  codec: Codec<Input, Output, Chunk, E, R>
): Endpoint<Input, Output, Chunk, E, R> => {
  const { endpoint, host } = target
  const attributes = { "stint.endpoint": endpoint }

  /** What a Schema refuses, in the words of the client. */
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
          schemaMismatch({ host, endpoint, operation, ...(job === undefined ? {} : { job }) }, tag, fieldIssues(error))
        )
    )

  const write = (operation: string, input: Input) => mapSchemaError(codec.input(input), "Invalid", operation)

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

  /** Whoever was interrupted is gone, whatever comes of this. */
  const cancelQuietly = (id: string) => Effect.ignore(cancel(id))

  const waitFor = (operation: string, id: string) =>
    Effect.flatMap(drive(() => JobsApiCalls.result(target, id, operation)), (job) => outputOrFail(operation, job))

  const readChunk = (operation: string, id: string, output: Json) =>
    mapSchemaError(codec.chunk(output), "Mismatch", operation, id)

  /** What happens to a job, page by page: `read` gives what comes of a page. Its end is handed on once what came with it has gone out. */
  const follow = <A, E>(
    id: string,
    options: SubscribeOptions,
    read: (events: ReadonlyArray<JobEvent>) => Effect.Effect<ReadonlyArray<A>, E | ClientError, R>,
    end: (job: EndedJob) => Effect.Effect<void, E, R>
  ): Stream.Stream<A, E | ClientError, R> =>
    Stream.unwrap(Effect.map(session, (drive) => {
      const next = subscribe(target, id, options)
      return Stream.paginate<EndedJob | undefined, A, E | ClientError, R>(undefined, (over) =>
        Effect.gen(function*() {
          if (over !== undefined) yield* end(over)
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
          (output) => readChunk(operation, id, output)
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
            ? Effect.map(readChunk("events", id, event.output), (output) => ({ ...event, output }))
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
      const json = yield* write("runSync", input)
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
        return job(yield* submit("run", yield* write("run", input), options))
      }
    ),
    runSync,
    stream: (input, { cancelOnInterrupt, ...submission } = {}) =>
      Stream.unwrap(Effect.gen(function*() {
        const json = yield* write("stream", input)
        if (cancelOnInterrupt !== true) return chunks("stream", yield* submit("stream", json, submission))
        // The job belongs to the scope of the stream: left before its end, by interruption or by taking no more, it is cancelled.
        let over = false
        const id = yield* Effect.acquireRelease(
          submit("stream", json, submission),
          (id) => over ? Effect.void : cancelQuietly(id)
        )
        return Stream.onEnd(
          Stream.tapError(chunks("stream", id), () =>
            Effect.sync(() => {
              over = true
            })),
          Effect.sync(() => {
            over = true
          })
        )
      })),
    job,
    status: (id) => job(id).status,
    result: (id) => job(id).result,
    events,
    cancel,
    retry: (id) => job(id).retry,
    purgeQueue: drive(() => JobsApiCalls.purgeQueue(target)),
    health: drive(() => JobsApiCalls.health(target))
  }
}
