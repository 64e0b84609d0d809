/**
 * Tracks the operations in flight at the store under test, so that `Scenario.settle` can wait for a store behind a network as it waits
 * for one in memory.
 */
import { JobLogStore } from "@stint/store/JobLogStore"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** The operations in flight. One set is enough: the tests of a file run one after the other. */
const inFlight = new Set<Promise<void>>()

/** The operations in flight now. */
export const operationsInFlight = (): ReadonlyArray<Promise<void>> => [...inFlight]

/** The same operation, in flight while it runs. */
export const counted = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const { promise, resolve } = Promise.withResolvers<void>()
    inFlight.add(promise)
    return Effect.onExit(effect, () =>
      Effect.sync(() => {
        inFlight.delete(promise)
        resolve()
      }))
  })

/** The same services, counting the operations of the job store. */
export const counting = <A, E, R>(store: Layer.Layer<A | JobStore, E, R>): Layer.Layer<A | JobStore, E, R> =>
  Layer.merge(
    store,
    Layer.effect(
      JobStore,
      Effect.map(JobStore, (jobs): JobStore["Service"] => ({
        durability: jobs.durability,
        insert: (...args) => counted(jobs.insert(...args)),
        apply: (...args) => counted(jobs.apply(...args)),
        append: (...args) => counted(jobs.append(...args)),
        claim: (...args) => counted(jobs.claim(...args)),
        tick: (...args) => counted(jobs.tick(...args)),
        applyRunning: (...args) => counted(jobs.applyRunning(...args)),
        applyWaiting: (...args) => counted(jobs.applyWaiting(...args)),
        get: (...args) => counted(jobs.get(...args)),
        traceOf: (...args) => counted(jobs.traceOf(...args)),
        input: (...args) => counted(jobs.input(...args)),
        drain: (...args) => counted(jobs.drain(...args)),
        peek: (...args) => counted(jobs.peek(...args)),
        list: (...args) => counted(jobs.list(...args)),
        texts: (...args) => counted(jobs.texts(...args)),
        ahead: (...args) => counted(jobs.ahead(...args)),
        depth: (...args) => counted(jobs.depth(...args)),
        keyUsage: (...args) => counted(jobs.keyUsage(...args))
      }))
    ).pipe(Layer.provide(store))
  )

/** The same services, counting the operations of the store of log lines. */
export const countingLogs = <A, E, R>(store: Layer.Layer<A | JobLogStore, E, R>): Layer.Layer<A | JobLogStore, E, R> =>
  Layer.merge(
    store,
    Layer.effect(
      JobLogStore,
      Effect.map(JobLogStore, (logs): JobLogStore["Service"] => ({
        append: (...args) => counted(logs.append(...args)),
        read: (...args) => counted(logs.read(...args)),
        scan: (...args) => counted(logs.scan(...args))
      }))
    ).pipe(Layer.provide(store))
  )
