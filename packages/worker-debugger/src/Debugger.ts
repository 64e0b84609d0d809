/**
 * The debugger: what a job's time went into, in the job's own output (docs/spec/debugger.md#report).
 *
 * ```
 *   middleware:  next(job) with JobTimings in its context --> outcome --> "rp_debugger" in its output
 *   timers:      LineTimer, FunctionTimer, timed          --> JobTimings, and a span where there is a tracer
 * ```
 *
 * ```json
 * "rp_debugger": {
 *   "timestamps": [
 *     { "name": "thumbnail", "start": 0.113, "end": 41.87, "duration_ms": 41.757 },
 *     { "name": "resize", "start": 3.2, "end": 40.1, "duration_ms": 36.9, "parent": 0 }
 *   ],
 *   "system_info": { "os": "Linux 6.8.0-31-generic", "processor": "...", ... },
 *   "ready_delay_ms": 84.2
 * }
 * ```
 *
 * and whatever plugins add (`DebugFields`). The names and the list are those of the described platform's own SDK; times here count
 * from the job's beginning and are all milliseconds.
 *
 * | the job ends with | the report goes |
 * |---|---|
 * | an output that is an object, `{}` included, whether the job failed or not | into it |
 * | any other output: text, a number, a list, a stream's; a failure without an output; an exception | to the log, one INFO line |
 * | an output that has a key `rp_debugger` of its own | to the log, with a WARN: the handler's value stays |
 * | being stopped | nowhere |
 *
 * So a debugger never changes what kind of value a caller gets, nor whether the job failed.
 */
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import { DebugFields } from "@stint/worker/DebugFields"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import * as Outcome from "@stint/worker/Outcome"
import * as Ready from "@stint/worker/Ready"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as JobTimings from "./JobTimings.ts"
import * as SystemInfo from "./SystemInfo.ts"
import * as Timing from "./Timing.ts"

/** The key of the output that the report stands under. */
export const KEY = "rp_debugger"

/** Times an effect under this name; and is a span around it, where there is a tracer. Without both it costs one look at the fiber. */
export const timed = (name: string) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const timing = Timing.begin(fiber.context, name)
    return timing === undefined
      ? self
      : Effect.onExit(Effect.provideContext(self, timing.services), (exit) => Effect.sync(() => timing.end(exit)))
  })

/** How the debugger differs from its defaults. */
export interface Options {
  /** What the report says of the machine. Looked up once, while the first job runs. Default: `SystemInfo.read()`. */
  readonly systemInfo?: Effect.Effect<SystemInfo.SystemInfo>
}

/** Milliseconds since this process was started. */
const sinceStart = (): number => Math.round(performance.now() * 1_000) / 1_000

/** What JSON makes an object of, and a key can be added to. */
const isRecord = (output: unknown): output is Record<string, unknown> => Predicate.isObject(output) && !("toJSON" in output)

const make = (options: Options) =>
  Effect.gen(function*() {
    const middleware = yield* JobMiddleware.JobMiddleware
    const fields = yield* DebugFields
    const scope = yield* Effect.scope
    const systemInfo = yield* Effect.cached(options.systemInfo ?? SystemInfo.read())

    let readyDelay: number | undefined
    const ready = yield* Ready.Ready
    yield* Deferred.await(ready).pipe(
      Effect.map(() => {
        readyDelay ??= sinceStart()
      }),
      Effect.forkScoped
    )

    const fieldsOf = (job: ReceivedJob) =>
      Effect.catchCause(fields.of(job), (cause) =>
        Effect.as(Effect.logWarning("A plugin's part of the debugger's report is left out, because it failed.", cause), {}))

    const reportOn = Effect.fnUntraced(function*(job: ReceivedJob, timings: JobTimings.JobTimings["Service"]) {
      const { omitted, timestamps } = timings.report()
      return {
        ...(yield* fieldsOf(job)),
        timestamps,
        ...(omitted === 0 ? {} : { timestamps_left_out: omitted }),
        system_info: yield* systemInfo,
        ready_delay_ms: readyDelay
      }
    })

    const log = (report: object) =>
      Effect.logInfo(`${KEY}: ${JSON.stringify(report)}`)

    const addTo = (outcome: Outcome.Outcome, report: object): Effect.Effect<Outcome.Outcome> => {
      const { output } = outcome
      if (output === undefined && !Outcome.isFailed(outcome)) {
        return Effect.succeed({ ...outcome, output: { [KEY]: report } })
      }
      if (!isRecord(output)) {
        return Effect.as(log(report), outcome)
      }
      if (!(KEY in output)) {
        return Effect.succeed({ ...outcome, output: { ...output, [KEY]: report } })
      }
      return Effect.logWarning(
        `The output has a key "${KEY}" of the handler's own. It stays; the debugger's report follows here. Rename the key to have the ` +
          "report in the output."
      ).pipe(Effect.andThen(log(report)), Effect.as(outcome))
    }

    yield* middleware.add((next, job) =>
      Effect.withFiber((fiber) => {
        const clock = fiber.getRef(Clock.Clock)
        const timings = JobTimings.make(clock.monotonicTimeNanosUnsafe())
        // A worker that takes its jobs from elsewhere is ready when its first job is there.
        readyDelay ??= sinceStart()
        const run = next(job).pipe(
          Effect.provideService(JobTimings.JobTimings, timings),
          Effect.onExit(() =>
            Effect.sync(() => timings.close(clock.monotonicTimeNanosUnsafe()))
          )
        )
        // Looked up beside the handler, not after it.
        return Effect.andThen(
          Effect.forkIn(systemInfo, scope),
          Effect.matchCauseEffect(run, {
            onFailure: (cause) =>
              Cause.hasInterrupts(cause)
                ? Effect.failCause(cause)
                : Effect.andThen(Effect.flatMap(reportOn(job, timings), log), Effect.failCause(cause)),
            onSuccess: (outcome) => Effect.flatMap(reportOn(job, timings), (report) => addTo(outcome, report))
          })
        )
      })
    )
  })

/**
 * The debugger for every job, deployed or not and whatever the command line says: for tests, and for workers of one's own.
 *
 * The moment of the first take is the worker's own: within one program layers of the same identity are built once.
 */
export const layerAlwaysWith = (options: Options): Layer.Layer<never, never, DebugFields | JobMiddleware.JobMiddleware> =>
  Layer.provide(Layer.effectDiscard(make(options)), Ready.layer)

/** {@link layerAlwaysWith} as it comes. */
export const layerAlways: Layer.Layer<never, never, DebugFields | JobMiddleware.JobMiddleware> = layerAlwaysWith({})

/** {@link layer} with options. */
export const layerWith = (
  options: Options
): Layer.Layer<never, never, DebugFields | JobMiddleware.JobMiddleware | WorkerConfig> =>
  Layer.unwrap(
    Effect.map(WorkerConfig, ({ flags, platform }) =>
      flags.debugger && platform !== undefined ? layerAlwaysWith(options) : Layer.empty)
  )

/**
 * The debugger (docs/spec/debugger.md#when-it-is-active): with `--rp_debugger`, on a platform. Otherwise nothing is added to the worker at all, and
 * outputs are what
 * they would be without it, byte for byte.
 */
export const layer: Layer.Layer<never, never, DebugFields | JobMiddleware.JobMiddleware | WorkerConfig> = layerWith({})
