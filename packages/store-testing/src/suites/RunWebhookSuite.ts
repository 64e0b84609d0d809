/**
 * The webhooks of a pipeline's run: its attempts continue each other, so they are one start.
 */
import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { JobStore } from "@stint/store/JobStore"
import { type JournalWrite, RunStore } from "@stint/store/RunStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Scenario from "../Scenario.ts"

const ENDPOINT = Scenario.endpoint().id
const DEFINITION = "a".repeat(64)

/** Registers the rule. The layer is built for the test. */
export const runWebhookSuite = <E>(name: string, stores: Layer.Layer<JobStore | RunStore | WebhookStore, E>): void => {
  describe(`webhooks of runs: ${name}`, () => {
    it.effect("delivers one start of a run, although a worker takes it again after each park, and its end", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const [jobs, runs] = [yield* JobStore, yield* RunStore]
        yield* runs.define(ENDPOINT, DEFINITION, toJsonText({ name: "letters", nodes: [] }), 0)
        const webhook = { url: "http://127.0.0.1:9/hook", events: ["start", "completed"], errorTraceback: "full" } as const
        yield* jobs.insert(Scenario.record({ webhook }))
        const activate = Effect.fnUntraced(function*(write: Partial<JournalWrite>) {
          const { jobs: [job = assert.fail("the run does not wait for a worker")] } = yield* jobs.claim(ENDPOINT, 1, {
            _tag: "Claim",
            now: 0,
            worker: "ann"
          })
          const start = { definition: DEFINITION, ttlMs: 1_000_000, undo: false }
          const common = { run: job.id, attempt: job.attempt, start, records: [], isHeld: false }
          yield* runs.journal(ENDPOINT, "ann", [{ ...common, ...write }], 0)
        })
        for (const number of [1, 2, 3]) {
          yield* activate({
            records: [{ kind: "wait", path: `approval${number}`, name: "approval", key: "", until: null }],
            park: { seen: 2 * number - 1, wakeAfter: 1, until: null }
          })
          yield* runs.send(ENDPOINT, { name: "approval", key: "", body: toJsonText(true), id: null, expiresAt: 9_000 }, 0)
        }
        yield* activate({ finish: { output: toJsonText("sent"), error: null, cancelled: false } })
        const due = yield* outbox.claimDue(0, 100, 30_000)
        assert.deepStrictEqual(due.map((one) => one.event), ["start", "completed"])
      }).pipe(Effect.provide(stores)))
  })
}
