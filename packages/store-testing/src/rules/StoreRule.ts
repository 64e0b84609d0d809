/**
 * Registers the rules of the conformance suite as tests, each with its own store and queue.
 */
import { it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** The services that a rule may use. */
export type RuleServices = JobStore | JobQueue.JobQueue | WorkerRegistry.WorkerRegistry

/** Registers one rule as a test. */
export type Rule = (title: string, body: () => Effect.Effect<void, unknown, RuleServices>) => void

/** Registers rules that run on the test clock with stores from this layer. */
export const storeRule = <E>(store: Layer.Layer<JobStore, E>): Rule => {
  const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(store, WorkerRegistry.layer)))
  return (title, body) => it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(world)))
}
