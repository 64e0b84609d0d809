/**
 * The debugger: adds a report of a job's timings to its output (docs/spec/debugger.md#report).
 *
 * ```
 *   middleware:  next(job) with JobTimings in its context --> outcome --> "rp_debugger" in its output
 *   timers:      LineTimer, FunctionTimer, timed          --> JobTimings, and a span if there is a tracer
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
 * The report also contains the fields of {@link Options.fields}. Names and structure are the same as in RunPod's SDK. All times are milliseconds
 * from the job's start.
 *
 * | end of the job | destination of the report |
 * |---|---|
 * | an output that is an object, `{}` included, of a completed or failed job | the output |
 * | any other output: text, a number, a list, a stream; a failure without an output; an exception | the log, one INFO line |
 * | an output that already has the key `rp_debugger` | the log, with a WARN; the handler's value stays |
 * | a stop | none |
 *
 * The debugger therefore changes neither the type of the output nor the status of the job.
 */
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import * as Outcome from "@stint/worker/Outcome"
import { Ready } from "@stint/worker/Ready"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as JobTimings from "./JobTimings.ts"
import * as SystemInfo from "./SystemInfo.ts"
import * as Timing from "./Timing.ts"

/** The key of the report in the output. */
const KEY = "rp_debugger"

/** Times an effect under this name, with a span if there is a tracer. Without a debugger or tracer, it only reads the fiber. */
export const timed = (name: string) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const timing = Timing.begin(fiber.context, name)
    return timing === undefined
      ? self
      : Effect.onExit(Effect.provideContext(self, timing.services), (exit) => Effect.sync(() => timing.end(exit)))
  })

/** Returns fields for the report of one job. It is called after the handler has ended. */
export type FieldSource<R = never> = (job: ReceivedJob) => Effect.Effect<{ readonly [field: string]: Schema.Json }, never, R>

/** Options for the debugger. */
export interface Options<R = never> {
  /**
   * Adds plugins' fields to the report. If two sources return the same field, the later one wins; the
   * debugger's own fields always win. A source may need services that the middleware before the debugger provides to each job. Default: none.
   */
  readonly fields?: ReadonlyArray<FieldSource<R>>
  /** The machine's information. It is read once, while the first job runs. Default: `SystemInfo.read()`. */
  readonly systemInfo?: Effect.Effect<SystemInfo.SystemInfo>
}

/** Milliseconds since this process's start. */
const sinceStart = (): number => Math.round(performance.now() * 1_000) / 1_000

/** Whether the value becomes a JSON object, so that a key can be added. */
const isRecord = (output: unknown): output is Record<string, unknown> => Predicate.isObject(output) && !("toJSON" in output)

const make = <R>(options: Options<R>) =>
  Effect.gen(function*() {
    const { fields = [] } = options
    const scope = yield* Effect.scope
    const systemInfo = yield* Effect.cached(options.systemInfo ?? SystemInfo.read())

    let readyDelay: number | undefined
    // Tests of handlers have no take loop.
    const ready = yield* Effect.serviceOption(Ready)
    if (Option.isSome(ready)) {
      yield* Deferred.await(ready.value).pipe(
        Effect.map(() => {
          readyDelay ??= sinceStart()
        }),
        Effect.forkScoped
      )
    }

    const collectFields = (job: ReceivedJob) =>
      Effect.catchCause(
        Effect.map(Effect.forEach(fields, (source) => source(job)), (all): object => Object.assign({}, ...all)),
        (cause) => Effect.as(Effect.logWarning("The debugger's report has no plugin fields, because a plugin failed.", cause), {})
      )

    const makeReport = Effect.fnUntraced(function*(job: ReceivedJob, timings: JobTimings.JobTimings["Service"]) {
      const { omitted, timestamps } = timings.report()
      return {
        ...(yield* collectFields(job)),
        timestamps,
        ...(omitted === 0 ? {} : { timestamps_left_out: omitted }),
        system_info: yield* systemInfo,
        ready_delay_ms: readyDelay
      }
    })

    const log = (report: object) => Effect.logInfo(`${KEY}: ${JSON.stringify(report)}`)

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
        `The handler's output already has the key "${KEY}", so the debugger's report is logged instead. Rename the key to get the report ` +
          "in the output."
      ).pipe(Effect.andThen(log(report)), Effect.as(outcome))
    }

    return JobMiddleware.provides(JobTimings.JobTimings, (next, job) =>
      Effect.withFiber((fiber) => {
        const clock = fiber.getRef(Clock.Clock)
        const timings = JobTimings.make(clock.monotonicTimeNanosUnsafe())
        // A worker without a take loop is ready when its first job arrives.
        readyDelay ??= sinceStart()
        const run = next(job, timings).pipe(
          Effect.onExit(() => Effect.sync(() => timings.close(clock.monotonicTimeNanosUnsafe())))
        )
        // Read concurrently with the handler, so that the result is not delayed.
        return Effect.andThen(
          Effect.forkIn(systemInfo, scope),
          Effect.matchCauseEffect(run, {
            onFailure: (cause) =>
              Cause.hasInterrupts(cause)
                ? Effect.failCause(cause)
                : Effect.andThen(Effect.flatMap(makeReport(job, timings), log), Effect.failCause(cause)),
            onSuccess: (outcome) => Effect.flatMap(makeReport(job, timings), (report) => addTo(outcome, report))
          })
        )
      }))
  })

/**
 * The debugger, active for every job regardless of platform and command line. For tests and custom workers.
 */
export const middlewareAlwaysWith = <R = never>(options: Options<R>): JobMiddleware.JobMiddleware<never, R, Scope.Scope> =>
  JobMiddleware.unwrap(make(options))

/** {@link middlewareAlwaysWith} with default options. */
export const middlewareAlways: JobMiddleware.JobMiddleware<never, never, Scope.Scope> = middlewareAlwaysWith({})

/** {@link middleware} with options. */
export const middlewareWith = <R = never>(
  options: Options<R>
): JobMiddleware.JobMiddleware<never, R, Scope.Scope | WorkerConfig> =>
  JobMiddleware.unwrap(
    Effect.map(WorkerConfig, ({ flags, platform }): JobMiddleware.JobMiddleware<never, R, Scope.Scope> =>
      flags.debugger && platform !== undefined ? middlewareAlwaysWith(options) : JobMiddleware.none)
  )

/**
 * The debugger (docs/spec/debugger.md#when-it-is-active): active with `--rp_debugger` on a platform. Otherwise it does nothing, and outputs
 * are byte for byte the same as without it.
 */
export const middleware: JobMiddleware.JobMiddleware<never, never, Scope.Scope | WorkerConfig> = middlewareWith({})
