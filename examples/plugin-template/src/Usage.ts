/**
 * Counts what a job uses, such as tokens, GPU seconds or pages. Handlers add amounts, and the plugin writes each job's totals to a ledger.
 *
 * ```
 *   handler: Usage.add("tokens", 12) --+
 *   handler: Usage.add("tokens", 3)  --+--> the job's counts --job ends--> Ledger.write({ job, used: { tokens: 15 } })
 * ```
 *
 * The plugin is a single middleware: it provides each job with its own `Usage` and writes the totals when the job ends. `Usage` is part of
 * the type of every handler that counts its usage, so a worker without the middleware does not compile:
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

/** The job exceeded a limit. A handler may let this error fail the job, or catch it and return a partial result. */
export class LimitExceeded extends Schema.TaggedError<LimitExceeded>()("LimitExceeded", {
  unit: Schema.String,
  used: Schema.Number,
  limit: Schema.Number
}) {
  override get message(): string {
    return `The job used ${this.used} ${this.unit}; the limit is ${this.limit}.`
  }
}

/** Counts what one job uses. Each job has its own instance. */
export class Usage extends Context.Service<Usage, {
  /** Adds an amount to the job's usage. Fails when the total exceeds the limit; the amount is counted anyway. */
  readonly add: (unit: string, amount: number) => Effect.Effect<void, LimitExceeded>
}>()("example-plugin-template/Usage") {}

/**
 * Adds an amount to the current job's usage. Fails when the total exceeds the limit; the amount is counted anyway.
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
  /** The maximum that one job may use, by unit. Default: no limit, because the right limit depends on your jobs. */
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
      // Writes the entry even when the job fails or is stopped.
      return Effect.ensuring(
        next(job, { add }),
        Effect.flatMap(Ledger, (ledger) =>
          used.size === 0 ? Effect.void : ledger.write({ job: job.id, used: Object.fromEntries(used) }))
      )
    }))

/** Counts without limits, and writes to the worker's {@link file://./Ledger.ts}. */
export const middleware: JobMiddleware.JobMiddleware<Usage, Ledger> = middlewareWith({})
