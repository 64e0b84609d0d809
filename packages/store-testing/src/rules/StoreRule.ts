/**
 * How a rule of the conformance suite becomes a test: each with a store and a queue of its own.
 */
import { it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** What a rule may use. */
export type World = JobStore | JobQueue.JobQueue | WorkerRegistry.WorkerRegistry

/** Registers one rule as a test. */
export type Rule = (title: string, body: () => Effect.Effect<void, unknown, World>) => void

/** Rules over stores of this kind. `TestClock` is the clock of all of them. */
export const storeRule = <E>(store: Layer.Layer<JobStore, E>): Rule => {
  const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(store, WorkerRegistry.layer)))
  return (title, body) => it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(world)))
}
