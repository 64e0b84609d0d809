/**
 * What a job used: tokens, seconds of a GPU, pages. Handlers count, the plugin adds up and writes the sum into a ledger.
 *
 * ```
 *   handler: Usage.add("tokens", 12) --+
 *   handler: Usage.add("tokens", 3)  --+--> the job's tally --job ends--> Ledger.write({ job, used: { tokens: 15 } })
 *                                               |
 *                                               +--> `usage` in the debugger's report
 * ```
 *
 * A plugin is a service, its layers, and what it adds to the worker's seams:
 *
 * - `JobMiddleware`: gives each job a tally of its own, and writes it when the job has ended, however it ended.
 * - `DebugFields`: shows the tally to whoever runs the worker with `--rp_debugger`.
 * - `FitnessChecks`: a worker that cannot write its ledger takes no jobs (see `Ledger.ts`).
 *
 * The worker knows none of this by name: `Worker.layer(handler).pipe(Layer.provide(Usage.layer), ...)` is all it takes.
 */
import { DebugFields, JobMiddleware } from "@stint/worker"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { Ledger } from "./Ledger.ts"

/** More was used than a job may. A handler may let it fail the job, or catch it and return what it has. */
export class LimitExceeded extends Schema.TaggedError<LimitExceeded>()("LimitExceeded", {
  unit: Schema.String,
  used: Schema.Number,
  limit: Schema.Number
}) {
  override get message(): string {
    return `The job used ${this.used} ${this.unit}; it may use ${this.limit}.`
  }
}

/** What one job has used so far. The middleware makes one for each job, so jobs that run at once never share one. */
class Tally extends Context.Service<Tally, Map<string, number>>()("example-plugin-template/Tally") {}

/** Counts what jobs use. */
export class Usage extends Context.Service<Usage, {
  /** Adds to what the current job has used. Outside of jobs it counts nothing. */
  readonly add: (unit: string, amount: number) => Effect.Effect<void, LimitExceeded>
}>()("example-plugin-template/Usage") {}

/** How the layer differs from its defaults. */
export interface Options {
  /** The most that one job may use, by unit. Default: no limit, because only you know what a job of yours is worth. */
  readonly limits?: { readonly [unit: string]: number }
}

/**
 * Adds to what the current job has used. Fails when that is more than a job may use; what was used is counted all the same.
 *
 * @example
 * ```ts
 * yield* Usage.add("tokens", answer.tokens)
 * ```
 */
export const add = (unit: string, amount: number): Effect.Effect<void, LimitExceeded, Usage> =>
  Effect.flatMap(Usage, (usage) => usage.add(unit, amount))

const make = ({ limits = {} }: Options): Usage["Service"] => ({
  add: Effect.fnUntraced(function*(unit, amount) {
    const tally = yield* Effect.serviceOption(Tally)
    if (Option.isNone(tally)) return
    const used = (tally.value.get(unit) ?? 0) + amount
    tally.value.set(unit, used)
    const limit = limits[unit]
    if (limit !== undefined && used > limit) return yield* new LimitExceeded({ unit, used, limit })
  })
})

/** Each job gets its tally, which is written when the job ends: with its outcome, or because it was stopped. */
const tallies = Effect.gen(function*() {
  const middleware = yield* JobMiddleware.JobMiddleware
  const debug = yield* DebugFields.DebugFields
  const ledger = yield* Ledger
  const running = new Map<string, Map<string, number>>()

  yield* middleware.add((next, job) =>
    Effect.suspend(() => {
      const tally = new Map<string, number>()
      running.set(job.id, tally)
      return Effect.provideService(next(job), Tally, tally).pipe(
        Effect.ensuring(Effect.suspend(() => {
          running.delete(job.id)
          return tally.size === 0 ? Effect.void : ledger.write({ job: job.id, used: Object.fromEntries(tally) })
        }))
      )
    })
  )
  yield* debug.add((job) =>
    Effect.sync(() => {
      const tally = running.get(job.id)
      return tally === undefined || tally.size === 0 ? {} : { usage: Object.fromEntries(tally) }
    })
  )
})

/** {@link layer} with options. */
export const layerWith = (
  options: Options
): Layer.Layer<Usage, never, DebugFields.DebugFields | JobMiddleware.JobMiddleware | Ledger> =>
  Layer.merge(Layer.succeed(Usage, make(options)), Layer.effectDiscard(tallies))

/** Counts without limits, into the {@link file://./Ledger.ts} that is provided. */
export const layer: Layer.Layer<Usage, never, DebugFields.DebugFields | JobMiddleware.JobMiddleware | Ledger> = layerWith({})
