/**
 * Runs a pipeline in a test: in memory, with its real interpreter, and with crashes at the points that the test selects.
 *
 * Whenever the run waits, it is parked, and another activation continues it from its journal, as on a platform. Services of the steps come from the
 * test's layers; endpoints are handlers, pipelines or functions; sleeps and timeouts follow `TestClock`.
 */
import type { JournalEntry, JournalRecord, RunWrite } from "@stint/contract/RunJournal"
import { CurrentJob } from "@stint/worker/CurrentJob"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import { isRunnable } from "@stint/worker/Runnable"
import type { Runnable } from "@stint/worker/Runnable"
import { WorkerTest } from "@stint/worker/testing"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { Journal } from "../Journal.ts"
import * as JournalMemory from "../JournalMemory.ts"
import type { JobEnd } from "../JournalMemory.ts"
import type { Pipeline } from "../Pipeline.ts"

/** An endpoint in a test: a handler, a pipeline, or a function from the encoded input to the encoded output that may throw. */
export type TestEndpoint<R> = Runnable<R> | ((input: Schema.Json) => unknown)

/** How the test runs the pipeline. */
export interface Options<out R> {
  /** The endpoints of the pipeline's jobs by name. A job of any other endpoint fails. */
  readonly endpoints?: { readonly [name: string]: TestEndpoint<R> }
  /**
   * Kills the worker at this record: before it is stored, or after it is stored and before the worker receives the response. Called for each record
   * that a worker writes, and kills at most once per record, so that the run can continue.
   */
  readonly crash?: (record: JournalRecord, when: "before" | "after") => boolean
  /**
   * The pipeline of a new release, which continues the run from the second activation on. A run whose records do not fit its definition waits, as on
   * a platform ({@link TestRun.held}). The output is decoded with the Schema of the first pipeline.
   */
  readonly next?: Pipeline<string, Schema.Constraint, Schema.Constraint, R | Journal>
}

/** The end of a run. */
export interface Result<out Output> {
  readonly status: JobEnd["status"]
  /** Undefined unless the run completed. */
  readonly output: Output | undefined
  readonly error: string | undefined
  /** The recorded entries, in order. */
  readonly entries: ReadonlyArray<JournalEntry>
  /** The chunks that callers received. */
  readonly chunks: ReadonlyArray<unknown>
  /** The number of activations of the run. */
  readonly activations: number
}

/** A run in progress. */
export interface TestRun<out Output> {
  /** The run's id. */
  readonly id: string
  /** Waits for the end. */
  readonly result: Effect.Effect<Result<Output>>
  /** Waits until every part of the run waits, one of them at this path, for a time, an event or a job. */
  readonly parked: (path: string) => Effect.Effect<void>
  /** Waits until the run waits for another definition. Returns why. */
  readonly held: Effect.Effect<string>
  /** Sends an event with this name, as a caller on the platform would. */
  readonly event: (name: string, event?: { readonly key?: string; readonly data?: Schema.Json }) => Effect.Effect<void>
  readonly cancel: Effect.Effect<void>
  /** The entries recorded so far, in order. */
  readonly entries: () => ReadonlyArray<JournalEntry>
}

const decodeJson = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))
const toJson = (value: unknown): Schema.Json => decodeJson(JSON.stringify(value) ?? "null")

/** Starts a run of the pipeline with this input. It ends with the scope. */
export const start = Effect.fnUntraced(function*<
  Name extends string,
  I extends Schema.ConstraintCodec<unknown, unknown>,
  O extends Schema.ConstraintCodec<unknown, unknown>,
  R,
  R2 = never
>(
  pipeline: Pipeline<Name, I, O, R>,
  input: I["Type"],
  options: Options<R2> = {}
): Effect.fn.Return<TestRun<O["Type"]>, never, Exclude<R | R2, Journal | CurrentJob> | Scope.Scope> {
  const context = yield* Effect.context<Exclude<R | R2, Journal | CurrentJob>>()
  const scope = yield* Effect.scope
  const { next } = options
  const crashed = new Set<string>()
  /** The worker of each run. Completing the deferred kills the worker. */
  const workers = new Map<string, Deferred.Deferred<void>>()
  let activations = 0

  const around = (write: RunWrite, when: "before" | "after") =>
    Effect.suspend(() => {
      const hit = (write.records ?? []).find((record) =>
        !crashed.has(`${when} ${record.kind} ${record.path}`) && options.crash?.(record, when) === true
      )
      if (hit === undefined) return Effect.void
      crashed.add(`${when} ${hit.kind} ${hit.path}`)
      const worker = workers.get(write.run)
      if (worker !== undefined) Deferred.doneUnsafe(worker, Effect.void)
      return Effect.never
    })

  const memory: JournalMemory.MemoryJournal = yield* JournalMemory.make({
    parks: true,
    around,
    spawn: (child) => runChild(child)
  })

  /** Runs one activation after the other until the run ends. */
  const hold = (target: Runnable<unknown>, id: string, encoded: Schema.Json): Effect.Effect<void> =>
    provided(Effect.gen(function*() {
      let attempt = 0
      while (true) {
        attempt++
        if (id === run) activations++
        const killed = Deferred.makeUnsafe<void>()
        workers.set(id, killed)
        const job: ReceivedJob = { id, input: encoded, attempt }
        yield* Effect.raceFirst(
          Effect.matchCauseEffect(
            (id === run && attempt > 1 && next !== undefined ? next : target).run(job, undefined),
            {
              onSuccess: ({ error, output }) =>
                memory.end(
                  id,
                  error === undefined ? { status: "COMPLETED", output: toJson(output) } : { status: "FAILED", error }
                ),
              onFailure: (cause) =>
                cause.reasons.some((reason) => reason._tag === "Fail")
                  ? memory.isHeld(id) ? Effect.never : memory.awake(id)
                  : memory.end(id, { status: "FAILED", error: String(cause) })
            }
          ),
          Effect.raceFirst(Deferred.await(killed), Effect.asVoid(memory.ended(id)))
        )
        if (memory.isEnded(id)) return
      }
    }))

  /** The services of the steps are in the pipeline's type, but not in a child's type. */
  function provided(self: Effect.Effect<void, never, unknown>): Effect.Effect<void>
  function provided<S>(self: Effect.Effect<void, never, S>): Effect.Effect<void, never, unknown> {
    return self.pipe(
      Effect.provideService(Journal, memory.journal),
      Effect.provideService(CurrentJob, { id: run, input: null }),
      Effect.provideContext(context)
    )
  }

  const runChild = ({ endpoint, id, input: encoded }: JournalMemory.Child): Effect.Effect<JobEnd> => {
    const target = options.endpoints?.[endpoint]
    if (target === undefined) {
      return Effect.succeed({
        status: "FAILED",
        error: `The test has no endpoint "${endpoint}". Add it to the option \`endpoints\`.`
      })
    }
    if (!isRunnable(target)) {
      return Effect.promise(async () => target(encoded)).pipe(
        Effect.map((output): JobEnd => ({ status: "COMPLETED", output: toJson(output) })),
        Effect.catchDefect((thrown) =>
          Effect.succeed<JobEnd>({ status: "FAILED", error: thrown instanceof Error ? thrown.message : String(thrown) })
        )
      )
    }
    if (Predicate.hasProperty(target, "definition")) return Effect.andThen(hold(target, id, encoded), memory.ended(id))
    return ofHandler(target, encoded)
  }

  const ofHandler = (target: Runnable<unknown>, encoded: Schema.Json): Effect.Effect<JobEnd> => {
    let end: JobEnd = { status: "FAILED" }
    return Effect.as(
      provided(Effect.map(WorkerTest.runJson(target, encoded), ({ error, output }) => {
        end = error === undefined
          ? { status: "COMPLETED", ...(output === undefined ? {} : { output }) }
          : { status: "FAILED", error }
      })),
      undefined
    ).pipe(Effect.map(() => end))
  }

  const run = `test-${crypto.randomUUID()}`
  const encoded = toJson(yield* Effect.orDie(Schema.encodeUnknownEffect(Schema.toCodecJson(pipeline.input))(input)))
  yield* Effect.forkIn(hold(pipeline, run, encoded), scope)
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(pipeline.output))
  return {
    id: run,
    result: Effect.gen(function*() {
      const { error, output, status } = yield* memory.ended(run)
      return {
        status,
        output: status === "COMPLETED" ? yield* Effect.orDie(decode(output)) : undefined,
        error,
        entries: memory.entries(run),
        chunks: memory.chunks(run),
        activations
      }
    }),
    parked: (path) => memory.parked(run, path),
    held: memory.held(run),
    event: (name, { data = null, key = "" } = {}) => memory.event(name, key, data),
    cancel: memory.cancel(run),
    entries: () => memory.entries(run)
  }
})

/** Runs the pipeline to its end. For pipelines that sleep or wait for events, use {@link start} and `TestClock`. */
export const run = <
  Name extends string,
  I extends Schema.ConstraintCodec<unknown, unknown>,
  O extends Schema.ConstraintCodec<unknown, unknown>,
  R,
  R2 = never
>(
  pipeline: Pipeline<Name, I, O, R>,
  input: I["Type"],
  options: Options<R2> = {}
): Effect.Effect<Result<O["Type"]>, never, Exclude<R | R2, Journal | CurrentJob>> =>
  Effect.scoped(Effect.flatMap(start(pipeline, input, options), ({ result }) => result))
