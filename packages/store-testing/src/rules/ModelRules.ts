/**
 * Compares the store under test with a model, using random command sequences.
 */
import { it } from "@effect/vitest"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as fc from "fast-check"
import * as JobCommands from "../models/JobCommands.ts"

/**
 * How many sequences to run; `STINT_PROPERTY_RUNS` overrides it. More sequences find rarer faults and take longer. Stores that write to
 * disk run fewer sequences, because faults in the state machine also show up with the memory store, in a tenth of the time.
 */
const runsOf = (asked: number): number => Number(process.env["STINT_PROPERTY_RUNS"] ?? asked)

/** The seed; `STINT_PROPERTY_SEED` sets it to repeat a failed sequence. A failure prints its seed. */
const seed = process.env["STINT_PROPERTY_SEED"]

/** Registers the rule. */
export const modelRules = <E>(store: Layer.Layer<JobStore, E>, runs: number): void => {
  it.live("behaves as the model does for every sequence of commands", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(JobCommands.commands, (commands) =>
          Effect.runPromise(
            Effect.flatMap(JobStore, (store) => JobCommands.run(store, commands)).pipe(Effect.provide(store))
          )),
        { numRuns: runsOf(runs), ...(seed === undefined ? {} : { seed: Number(seed) }) }
      )
    ), 600_000)
}
