/**
 * Fault injection for a job store.
 *
 * ```
 *   failNextWrites    request --x   store             fails, nothing stored
 *   dropNextAnswers   request ----> store --x         stored, the caller receives an error
 *   freeze            request ----> store --| thaw    stored, the caller waits
 *   fillUp            insert --x    store             new jobs fail, all other operations work
 *   breakFile         write --x     store             writes and `depth` fail, nothing stored
 * ```
 */
import { JobStore } from "@stint/store/JobStore"
import { StoreBroken, StoreError, StoreFull, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export class StoreFaults extends Context.Service<StoreFaults, {
  /** The next `count` writes fail before they reach the store. */
  readonly failNextWrites: (count: number) => Effect.Effect<void>
  /** The next `count` writes are stored, but their callers receive an error. */
  readonly dropNextAnswers: (count: number) => Effect.Effect<void>
  /**
   * From now on, the share `failed` of all writes fails before it reaches the store, and the share `lost` is stored but returns an error.
   * The outcome of each write is drawn with `random`.
   */
  readonly failRandomly: (shares: { readonly failed: number; readonly lost: number }, random: () => number) => Effect.Effect<void>
  /** From now on, every operation reaches the store, but its result is delayed until {@link thaw}. */
  readonly freeze: Effect.Effect<void>
  readonly thaw: Effect.Effect<void>
  /** From now on, new jobs fail with `StoreFull`, until {@link repair}. */
  readonly fillUp: Effect.Effect<void>
  /** From now on, writes and `depth` fail with `StoreBroken`, until {@link repair}. */
  readonly breakFile: (problem: StoreBroken["problem"]) => Effect.Effect<void>
  /** Ends `fillUp` and `breakFile`. */
  readonly repair: Effect.Effect<void>
}>()("@stint/store-testing/StoreFaults") {}

/** The faults to inject. */
interface Faults {
  failures: number
  lostAnswers: number
  chance: (() => "failed" | "lost" | undefined) | undefined
  frozen: Deferred.Deferred<void> | undefined
  full: boolean
  broken: StoreBroken["problem"] | undefined
}

const failBroken = (operation: string, problem: StoreBroken["problem"]) =>
  Effect.fail(new StoreError({ reason: new StoreBroken({ operation, problem }) }))

const faulty = (store: JobStore["Service"], faults: Faults): JobStore["Service"] => {
  const slow = <A>(effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
    Effect.tap(effect, () => faults.frozen === undefined ? Effect.void : Deferred.await(faults.frozen))

  const write = <A>(operation: string, effect: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
    Effect.suspend(() => {
      const failing = (why: string) =>
        Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation, cause: new Error(why) }) }))
      if (faults.broken !== undefined) return failBroken(operation, faults.broken)
      const fate = faults.chance?.()
      if (faults.failures > 0 || fate === "failed") {
        faults.failures = Math.max(0, faults.failures - 1)
        return failing("the disk is full")
      }
      if (faults.lostAnswers > 0 || fate === "lost") {
        faults.lostAnswers = Math.max(0, faults.lostAnswers - 1)
        return Effect.andThen(effect, failing("the connection was lost before the answer came"))
      }
      return slow(effect)
    })

  return {
    durability: store.durability,
    insert: (job, key, quotas) =>
      Effect.suspend(() =>
        faults.full
          ? Effect.fail(new StoreError({ reason: new StoreFull({ operation: "insert" }) }))
          : write("insert", store.insert(job, key, quotas))
      ),
    apply: (endpoint, id, event) => write("apply", store.apply(endpoint, id, event)),
    append: (endpoint, id, event, body) => write("append", store.append(endpoint, id, event, body)),
    claim: (endpoint, limit, event) => write("claim", store.claim(endpoint, limit, event)),
    tick: (event, limit) => write("tick", store.tick(event, limit)),
    applyRunning: (filter, event) => write("applyRunning", store.applyRunning(filter, event)),
    applyWaiting: (endpoint, event, limit) => write("applyWaiting", store.applyWaiting(endpoint, event, limit)),
    drain: (endpoint, id, limit) => write("drain", store.drain(endpoint, id, limit)),
    get: (endpoint, id) => slow(store.get(endpoint, id)),
    traceOf: (endpoint, id) => slow(store.traceOf(endpoint, id)),
    input: (endpoint, id) => slow(store.input(endpoint, id)),
    peek: (endpoint, id, after, limit) => slow(store.peek(endpoint, id, after, limit)),
    list: (endpoint, query) => slow(store.list(endpoint, query)),
    texts: (endpoint, ids) => slow(store.texts(endpoint, ids)),
    keyUsage: (endpoint, id, limit) => slow(store.keyUsage(endpoint, id, limit)),
    ahead: (endpoint, id, limit) => slow(store.ahead(endpoint, id, limit)),
    depth: (endpoint) =>
      Effect.suspend(() => faults.broken === undefined ? slow(store.depth(endpoint)) : failBroken("depth", faults.broken))
  }
}

/** A store with fault injection. */
export const layer = <E, R>(store: Layer.Layer<JobStore, E, R>): Layer.Layer<JobStore | StoreFaults, E, R> =>
  Layer.effectContext(Effect.gen(function*() {
    const faults: Faults = { failures: 0, lostAnswers: 0, chance: undefined, frozen: undefined, full: false, broken: undefined }
    return Context.make(JobStore, faulty(yield* JobStore, faults)).pipe(
      Context.add(
        StoreFaults,
        StoreFaults.of({
          failNextWrites: (count) =>
            Effect.sync(() => {
              faults.failures = count
            }),
          dropNextAnswers: (count) =>
            Effect.sync(() => {
              faults.lostAnswers = count
            }),
          failRandomly: ({ failed, lost }, random) =>
            Effect.sync(() => {
              faults.chance = failed + lost === 0 ? undefined : () => {
                const dice = random()
                return dice < failed ? "failed" : dice < failed + lost ? "lost" : undefined
              }
            }),
          freeze: Effect.sync(() => {
            faults.frozen ??= Deferred.makeUnsafe()
          }),
          thaw: Effect.suspend(() => {
            const { frozen } = faults
            faults.frozen = undefined
            return frozen === undefined ? Effect.void : Deferred.succeed(frozen, undefined)
          }),
          fillUp: Effect.sync(() => {
            faults.full = true
          }),
          breakFile: (problem) =>
            Effect.sync(() => {
              faults.broken = problem
            }),
          repair: Effect.sync(() => {
            faults.full = false
            faults.broken = undefined
          })
        })
      )
    )
  })).pipe(Layer.provide(store))
