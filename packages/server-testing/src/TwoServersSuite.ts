/**
 * Two servers share one store that loses responses, and clients call them over connections that are cut. An idempotency key must identify
 * one job on both servers (R3, docs/spec/figures.md#reliability).
 */
import { describe, expect, it } from "@effect/vitest"
import { JobReceipt } from "@stint/contract/Job"
import { History, SeededRandom, StoreFaults } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ServerTest from "./ServerTest.ts"
import { type Answer, expectJson } from "./WireClient.ts"

/** The number of keys, and the number of concurrent submissions per key. */
const KEYS = 500
const CALLERS = 3

/** The fraction of calls that disconnect before the response has arrived, and the delay of the disconnect in milliseconds. */
const CUT = { share: 0.1, within: 4 }

/** The fractions of all writes that fail, and whose responses are lost. */
const SHARES = { failed: 0.01, lost: 0.01 }

const receiptOf = expectJson(200, JobReceipt)

const servers = Effect.fnUntraced(function*<E>(stores: Layer.Layer<ServerTest.Stores, E>) {
  const shared = yield* Layer.build(stores)
  const faulty = yield* Layer.build(StoreFaults.layer(Layer.succeed(JobStore, Context.get(shared, JobStore))))
  const kept = Layer.succeedContext(Context.merge(shared, Context.pick(JobStore)(faulty)))
  const scope = yield* Effect.scope
  const server = Effect.suspend(() =>
    Layer.buildWithMemoMap(ServerTest.layer({ stores: kept }), Layer.makeMemoMapUnsafe(), scope)
  )
  return {
    faults: Context.get(faulty, StoreFaults.StoreFaults),
    all: [Context.get(yield* server, ServerTest.ServerTest), Context.get(yield* server, ServerTest.ServerTest)] as const
  }
})

/** Registers the rule. The stores are built once and shared. */
export const twoServersSuite = <E>(name: string, stores: Layer.Layer<ServerTest.Stores, E>): void => {
  describe(`two servers over ${name}`, () => {
    it.live(
      "R3: creates one job per key when keys are submitted to two servers at once over connections that are cut",
      () =>
        Effect.scoped(Effect.gen(function*() {
          const { all, faults } = yield* servers(stores)
          const seed = SeededRandom.runSeed()
          const random = SeededRandom.seededRandom(seed)
          const history = History.make()
          const endpoint = yield* all[0].endpoint()
          let clock = 0
          const seen = { cut: 0, refused: 0 }
          yield* faults.failRandomly(SHARES, random)

          const submit = Effect.fnUntraced(function*(n: number) {
            const key = `order ${Math.floor(n / CALLERS)}`
            const { call } = all[n % 2 === 0 ? 0 : 1]
            const once = call(endpoint.path("run"), { json: { input: { key } }, headers: { "idempotency-key": key } })
            while (true) {
              const answer: Option.Option<Answer> = random() < CUT.share
                ? yield* Effect.timeoutOption(once, random() * CUT.within)
                : Option.some(yield* once)
              if (Option.isNone(answer)) seen.cut++
              else if (answer.value.status === 503) seen.refused++
              else {
                const { id } = yield* receiptOf(answer.value)
                return history.record({ _tag: "Submitted", at: clock++, job: id, key })
              }
            }
          })
          const numbers = Array.from({ length: KEYS * CALLERS }, (_, n) => n)
          yield* Effect.forEach(numbers, submit, { concurrency: 24, discard: true })

          expect(history.check({ ended: false }).filter(({ rule }) => rule === "R3"), `seed ${seed}`).toEqual([])
          expect((yield* endpoint.health).jobs.inQueue, `seed ${seed}: jobs and keys`).toBe(KEYS)
          // Check that the faults did occur.
          expect(seen.cut).toBeGreaterThan(0)
          expect(seen.refused).toBeGreaterThan(0)
        })),
      120_000
    )
  })
}
