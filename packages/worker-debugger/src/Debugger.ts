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
 * and the fields of {@link Options.fields}. The names and the list are those of the described platform's own SDK; times here count
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

/** Fields for the report on one job, collected after the handler has ended. */
export type FieldSource<R = never> = (job: ReceivedJob) => Effect.Effect<{ readonly [field: string]: Schema.Json }, never, R>

/** How the debugger differs from its defaults. */
export interface Options<R = never> {
  /**
   * Adds fields of plugins to the report. Of two sources that return the same field, the later one counts; the debugger's own fields
   * always win. A source may need services that the middleware before the debugger provides to each job. Default: none.
   */
  readonly fields?: ReadonlyArray<FieldSource<R>>
  /** What the report says of the machine. Looked up once, while the first job runs. Default: `SystemInfo.read()`. */
  readonly systemInfo?: Effect.Effect<SystemInfo.SystemInfo>
}

/** Milliseconds since this process was started. */
const sinceStart = (): number => Math.round(performance.now() * 1_000) / 1_000

/** What JSON makes an object of, and a key can be added to. */
const isRecord = (output: unknown): output is Record<string, unknown> => Predicate.isObject(output) && !("toJSON" in output)

const make = <R>(options: Options<R>) =>
  Effect.gen(function*() {
    const { fields = [] } = options
    const scope = yield* Effect.scope
    const systemInfo = yield* Effect.cached(options.systemInfo ?? SystemInfo.read())

    let readyDelay: number | undefined
    // A handler's test has no take loop.
    const ready = yield* Effect.serviceOption(Ready)
    if (Option.isSome(ready)) {
      yield* Deferred.await(ready.value).pipe(
        Effect.map(() => {
          readyDelay ??= sinceStart()
        }),
        Effect.forkScoped
      )
    }

    const fieldsOf = (job: ReceivedJob) =>
      Effect.catchCause(
        Effect.map(Effect.forEach(fields, (source) => source(job)), (all): object => Object.assign({}, ...all)),
        (cause) =>
          Effect.as(Effect.logWarning("A plugin's part of the debugger's report is left out, because it failed.", cause), {})
      )

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
        `The output has a key "${KEY}" of the handler's own. It stays; the debugger's report follows here. Rename the key to have the ` +
          "report in the output."
      ).pipe(Effect.andThen(log(report)), Effect.as(outcome))
    }

    return JobMiddleware.provides(JobTimings.JobTimings, (next, job) =>
      Effect.withFiber((fiber) => {
        const clock = fiber.getRef(Clock.Clock)
        const timings = JobTimings.make(clock.monotonicTimeNanosUnsafe())
        // A worker that takes its jobs from elsewhere is ready when its first job is there.
        readyDelay ??= sinceStart()
        const run = next(job, timings).pipe(
          Effect.onExit(() => Effect.sync(() => timings.close(clock.monotonicTimeNanosUnsafe())))
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
      }))
  })

/**
 * The debugger for every job, deployed or not and whatever the command line says: for tests, and for workers of one's own.
 */
export const middlewareAlwaysWith = <R = never>(options: Options<R>): JobMiddleware.JobMiddleware<never, R, Scope.Scope> =>
  JobMiddleware.unwrap(make(options))

/** {@link middlewareAlwaysWith} with the defaults. */
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
 * The debugger (docs/spec/debugger.md#when-it-is-active): active with `--rp_debugger` on a platform. Otherwise it changes nothing, and
 * outputs are byte for byte what they are without it.
 */
export const middleware: JobMiddleware.JobMiddleware<never, never, Scope.Scope | WorkerConfig> = middlewareWith({})
