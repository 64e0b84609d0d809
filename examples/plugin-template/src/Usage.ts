/**
 * What a job uses: tokens, GPU seconds, pages. Handlers count, and the plugin writes each job's sums into a ledger.
 *
 * ```
 *   handler: Usage.add("tokens", 12) --+
 *   handler: Usage.add("tokens", 3)  --+--> the job's counts --job ends--> Ledger.write({ job, used: { tokens: 15 } })
 * ```
 *
 * The plugin is one middleware: it gives each job its own `Usage` and writes the sums when the job ends. `Usage` is in the type of every
 * handler that counts, so a worker without the middleware does not compile:
 *
 * ```ts
 * Worker.layer(Summary, { middleware: [Usage.middleware] })
 * ```
 */
import { JobMiddleware } from "@stint/worker"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Ledger } from "./Ledger.ts"

/** The job used more than it may. A handler may let this error fail the job, or catch it and return what it has. */
export class LimitExceeded extends Schema.TaggedError<LimitExceeded>()("LimitExceeded", {
  unit: Schema.String,
  used: Schema.Number,
  limit: Schema.Number
}) {
  override get message(): string {
    return `The job used ${this.used} ${this.unit}; the limit is ${this.limit}.`
  }
}

/** Counts what one job uses. Jobs that run at the same time never share one. */
export class Usage extends Context.Service<Usage, {
  /** Adds to what the job has used. Fails when the sum exceeds the limit; the amount is counted anyway. */
  readonly add: (unit: string, amount: number) => Effect.Effect<void, LimitExceeded>
}>()("example-plugin-template/Usage") {}

/**
 * Adds to what the current job has used. Fails when the sum exceeds the limit; the amount is counted anyway.
 *
 * @example
 * ```ts
 * yield* Usage.add("tokens", answer.tokens)
 * ```
 */
export const add = (unit: string, amount: number): Effect.Effect<void, LimitExceeded, Usage> =>
  Effect.flatMap(Usage, (usage) => usage.add(unit, amount))

/** Options of the middleware. */
export interface Options {
  /** The most that one job may use, by unit. Default: no limit, because only you know what a job of yours is worth. */
  readonly limits?: { readonly [unit: string]: number }
}

/** {@link middleware} with options. */
export const middlewareWith = ({ limits = {} }: Options): JobMiddleware.JobMiddleware<Usage, Ledger> =>
  JobMiddleware.provides(Usage, (next, job) =>
    Effect.suspend(() => {
      const used = new Map<string, number>()
      const add = Effect.fnUntraced(function*(unit: string, amount: number) {
        const sum = (used.get(unit) ?? 0) + amount
        used.set(unit, sum)
        const limit = limits[unit]
        if (limit !== undefined && sum > limit) return yield* new LimitExceeded({ unit, used: sum, limit })
      })
      // Also when the job fails or is stopped.
      return Effect.ensuring(
        next(job, { add }),
        Effect.flatMap(Ledger, (ledger) =>
          used.size === 0 ? Effect.void : ledger.write({ job: job.id, used: Object.fromEntries(used) }))
      )
    }))

/** Counts without limits, into the {@link file://./Ledger.ts} of the worker. */
export const middleware: JobMiddleware.JobMiddleware<Usage, Ledger> = middlewareWith({})
