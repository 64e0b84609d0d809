/**
 * Park against wake: 10,000 runs that park while the event that they wait for arrives. None of them waits for longer than a second.
 */
import { EndpointId, type JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Sqlite from "@stint/store-sqlite"
import { Scenario, SeededRandom } from "@stint/store-testing"
import * as EndpointStore from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "vitest"

const RACES = 10_000
const AT_ONCE = 50
/** How long a run may wait after its event has been stored. Milliseconds. */
const LONGEST = 1_000

const ENDPOINT = EndpointId.make("letters")
const HASH = "a".repeat(64)

const folder = mkdtempSync(join(tmpdir(), "stint-races-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const runQueue = RunQueue.layer.pipe(Layer.provideMerge(JobQueue.layer), Layer.provideMerge(WorkerRegistry.layer))

const STORES = [
  { name: "memory", world: runQueue.pipe(Layer.provideMerge(Layer.merge(MemoryJobStore.layer, EndpointStore.layerMemory))) },
  { name: "SQLite", world: runQueue.pipe(Layer.provideMerge(Sqlite.layer({ file: join(folder, "stint.db"), durability: "D1" }))) }
]

/** What became of a run: how long it waited after its event. */
const race = Effect.fnUntraced(function*(id: JobId, attempt: number, dice: () => number) {
  const runs = yield* RunQueue.RunQueue
  const store = yield* JobStore
  const wait = { kind: "wait" as const, path: "approved", name: "approved", key: id }
  const start = { definition: HASH, ttlMs: 1_000_000_000, undo: false }
  yield* runs.journal(ENDPOINT, "ann", [{ run: id, attempt, start, records: [wait] }], 0)
  // The platform may respond to the worker's call immediately, or hold it for up to a second.
  const hold = dice() < 0.5 ? 0 : LONGEST
  const parking = { run: id, attempt, records: [], park: { seen: 1, wakeAfter: 1, until: null } }
  const early = Math.floor(dice() * 20) - 10
  const turns = (count: number) =>
    Effect.forEach(Array.from({ length: Math.max(0, count) }), () => Effect.yieldNow, { discard: true })
  let sentAt = 0
  const [[answer]] = yield* Effect.all([
    Effect.andThen(turns(-early), runs.journal(ENDPOINT, "ann", [parking], hold)),
    turns(early).pipe(
      Effect.andThen(runs.send(ENDPOINT, { name: "approved", key: id, body: toJsonText(1), id: null, ttlMs: 60_000 })),
      Effect.tap(() =>
        Effect.sync(() => {
          sentAt = performance.now()
        })
      )
    )
  ], { concurrency: "unbounded" })
  const waited = performance.now() - sentAt
  const job = yield* store.get(ENDPOINT, id)
  // Either the worker has the event, or the run is in the queue for the next one.
  const knows = answer?.state === "running" && answer.entries.some(({ kind }) => kind === "event")
  return { state: answer?.state, isLost: !knows && job?.status !== "IN_QUEUE", waited }
})

describe.each(STORES)("10,000 parks against their events in $name", ({ world }) => {
  it("lose no wake, and none waits for more than a second", async () => {
    const next = SeededRandom.seededRandom(SeededRandom.runSeed())
    const program = Effect.gen(function*() {
      const store = yield* JobStore
      const runs = yield* RunQueue.RunQueue
      yield* runs.define(ENDPOINT, [{ hash: HASH, graph: toJsonText({ name: "letters", nodes: [] }) }])
      const found: Array<Effect.Success<ReturnType<typeof race>>> = []
      for (let at = 0; at < RACES; at += AT_ONCE) {
        const now = Date.now()
        const inserted = yield* Effect.forEach(
          Array.from({ length: AT_ONCE }),
          () =>
            store.insert(
              Scenario.record({ endpoint: ENDPOINT, createdAt: now, queuedAt: now, expiresAt: now + 3_600_000, leaseMs: 600_000 })
            )
        )
        expect(inserted).toHaveLength(AT_ONCE)
        const { jobs } = yield* store.claim(ENDPOINT, AT_ONCE, { _tag: "Claim", now, worker: "ann" })
        found.push(...(yield* Effect.forEach(jobs, ({ attempt, id }) => race(id, attempt, next), { concurrency: "unbounded" })))
        // Runs that were woken are not raced again.
        const woken = yield* store.claim(ENDPOINT, AT_ONCE, { _tag: "Claim", now: Date.now(), worker: "bob" })
        expect(woken.jobs.length).toBe(found.slice(-jobs.length).filter(({ state }) => state === "parked").length)
      }
      return found
    })
    const found = await Effect.runPromise(Effect.scoped(Effect.provide(program, world)))
    expect(found).toHaveLength(RACES)
    expect(found.filter(({ isLost }) => isLost)).toEqual([])
    expect(Math.max(...found.map(({ waited }) => waited))).toBeLessThan(LONGEST)
    // Both sides must win often, or nothing is raced.
    const parked = found.filter(({ state }) => state === "parked").length
    expect(Math.min(parked, RACES - parked)).toBeGreaterThan(RACES / 100)
  }, 600_000)
})
