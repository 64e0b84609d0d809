/**
 * Submits thousands of idempotency keys, each one concurrently to two queues on one store that loses responses. Each key must have one job
 * (R3, docs/spec/figures.md#reliability).
 */
import { assert, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobRecord } from "@stint/store/JobRecord"
import type { JobStore } from "@stint/store/JobStore"
import { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { reportChaos } from "../ChaosReport.ts"
import * as History from "../history/History.ts"
import * as Scenario from "../Scenario.ts"
import { chaosMinutes, runSeed, seededRandom } from "../SeededRandom.ts"
import * as StoreFaults from "../StoreFaults.ts"

/** The share of writes that fail, and the share of writes that are stored but reported as failed. */
const SHARES = { failed: 0.01, lost: 0.01 }

/** The number of concurrent submissions per key. */
const CALLERS = 4

/** The number of keys in flight. */
const WIDTH = 32

/** The number of keys in a long run, as specified for R3 (docs/spec/figures.md#reliability). */
const MANY = 100_000

/** Repeats a submission until it receives a response. */
const retryUntilAnswered = <E extends { readonly _tag: string }>(
  submit: Effect.Effect<JobRecord, E | StoreError>
): Effect.Effect<JobRecord, E | StoreError> =>
  Effect.catch(
    submit,
    (error) =>
      error instanceof StoreError && error.reason._tag === "StoreUnavailable" ? retryUntilAnswered(submit) : Effect.fail(error)
  )

/** Submits each key concurrently to two queues. Returns the broken rules and the number of failed writes. */
export const submitKeys = Effect.fnUntraced(function*({ keys, seed }: { readonly keys: number; readonly seed: number }) {
  const queue = JobQueue.layer.pipe(Layer.provide(WorkerRegistry.layer))
  const random = seededRandom(seed)
  const history = History.make()
  const { failRandomly } = yield* StoreFaults.StoreFaults
  const servers = yield* Effect.replicateEffect(Effect.provide(Scenario.make(), Layer.fresh(queue), { local: true }), 2)
  let clock = 0
  let failed = 0
  yield* failRandomly(SHARES, random)
  yield* Effect.forEach(
    Array.from({ length: keys * CALLERS }, (_, n) => n),
    (n) => {
      const key = `order ${Math.floor(n / CALLERS)}`
      const { submit } = servers[n % servers.length] ?? assert.fail("there is no server")
      const once = submit({ idempotencyKey: key, input: toJsonText(key) })
      return retryUntilAnswered(Effect.tapError(once, () => Effect.sync(() => failed++))).pipe(
        Effect.map(({ id }) => history.record({ _tag: "Submitted", at: clock++, job: id, key }))
      )
    },
    { concurrency: WIDTH * CALLERS, discard: true }
  )
  const [one] = servers
  const { waiting } = yield* one?.queue.depth(one.endpoint.id) ?? assert.fail("there is no server")
  const violations = history.check({ ended: false }).filter(({ rule }) => rule === "R3")
  return {
    failed,
    violations: waiting === keys
      ? violations
      : [...violations, { rule: "R3", job: "", text: `${keys} keys have ${waiting} jobs` }]
  }
})

/** Registers the rule. */
export const idempotencyChaosRules = <E>(store: Layer.Layer<JobStore, E>, asked: number): void => {
  const keys = chaosMinutes() === undefined ? asked : MANY
  it.effect(
    `R3: creates one job per key for four concurrent submissions on two servers over a store that loses 1 % of its responses (${keys} keys)`,
    (context) =>
      Effect.gen(function*() {
        const seed = runSeed()
        const { failed, violations } = yield* submitKeys({ keys, seed })
        reportChaos(context, { keys, "failed writes": failed, "duplicate jobs": violations.length })
        assert.deepStrictEqual(violations, [], `seed ${seed}`)
        // Proves that faults were injected.
        assert.isAbove(failed, keys * CALLERS * 0.01)
      }).pipe(Effect.provide(StoreFaults.layer(store))),
    300_000 + (chaosMinutes() === undefined ? 0 : 600_000)
  )
}
