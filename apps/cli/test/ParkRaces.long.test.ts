/**
 * Park against wake: many runs that park while the event that they wait for arrives. None of them waits for longer than a second. In PostgreSQL, the
 * worker calls one node and the sender the other.
 */
import { EndpointId, type JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Postgres from "@stint/store-postgres"
import { missing } from "@stint/store-postgres/testing"
import * as Sqlite from "@stint/store-sqlite"
import { Scenario, SeededRandom } from "@stint/store-testing"
import * as EndpointStore from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { afterAll, describe, expect, it } from "vitest"
import { startDatabase } from "./SharedDatabase.ts"

const RACES = 10_000
const AT_ONCE = 50
/** How long a run may wait after its event has been stored. Milliseconds. */
const LONGEST = 1_000

const ENDPOINT = EndpointId.make("letters")
const HASH = "a".repeat(64)

const folder = mkdtempSync(join(tmpdir(), "stint-races-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const runQueue = RunQueue.layer.pipe(Layer.provideMerge(JobQueue.layer), Layer.provideMerge(WorkerRegistry.layer))

const memory = Layer.merge(MemoryJobStore.layer, EndpointStore.layerMemory)

/** The nodes of a test. */
interface Nodes {
  /** The node that the worker calls. */
  readonly worker: Context.Context<RunQueue.RunQueue | JobStore>
  /** The node that receives the events. */
  readonly sender: Context.Context<RunQueue.RunQueue>
}

/** One node for both. */
const alone = (worker: Nodes["worker"]): Nodes => ({ worker, sender: worker })

/** The stores of a new database. */
const postgres = Effect.acquireRelease(
  Effect.promise(() => startDatabase()),
  (database) => Effect.promise(() => database[Symbol.asyncDispose]())
).pipe(Effect.map(({ url }) => Postgres.layer({ url: Redacted.make(url) })))

const sqlite = Sqlite.layer({ file: join(folder, "stint.db"), durability: "D1" })

const STORES: ReadonlyArray<{
  readonly name: string
  readonly skipped: string | undefined
  readonly open: Effect.Effect<Nodes, never, Scope.Scope>
}> = [
  {
    name: "memory",
    skipped: undefined,
    open: Effect.map(Effect.orDie(Layer.build(runQueue.pipe(Layer.provideMerge(memory)))), alone)
  },
  {
    name: "SQLite",
    skipped: undefined,
    open: Effect.map(Effect.orDie(Layer.build(runQueue.pipe(Layer.provideMerge(sqlite)))), alone)
  },
  {
    name: "PostgreSQL, at two nodes",
    skipped: missing,
    open: Effect.orDie(Effect.flatMap(postgres, (stores) => {
      const node = Layer.build(runQueue.pipe(Layer.provideMerge(stores)))
      return Effect.all({ worker: node, sender: node })
    }))
  }
]

/** What became of a run: how long it waited after its event. */
const race = Effect.fnUntraced(function*(
  id: JobId,
  attempt: number,
  dice: () => number,
  sender: RunQueue.RunQueue["Service"]
) {
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
      Effect.andThen(sender.send(ENDPOINT, { name: "approved", key: id, body: toJsonText(1), id: null, ttlMs: 60_000 })),
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

describe.each(STORES)("10,000 parks against their events in $name", ({ name, open, skipped }) => {
  it("lose no wake, and none waits for more than a second", async (context) => {
    if (skipped !== undefined) context.skip(skipped)
    const next = SeededRandom.seededRandom(SeededRandom.runSeed())
    const raced = Effect.fnUntraced(function*(sender: RunQueue.RunQueue["Service"]) {
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
            ),
          { concurrency: "unbounded" }
        )
        expect(inserted).toHaveLength(AT_ONCE)
        const { jobs } = yield* store.claim(ENDPOINT, AT_ONCE, { _tag: "Claim", now, worker: "ann" })
        found.push(
          ...(yield* Effect.forEach(jobs, ({ attempt, id }) => race(id, attempt, next, sender), { concurrency: "unbounded" }))
        )
        // Runs that were woken are not raced again.
        const woken = yield* store.claim(ENDPOINT, AT_ONCE, { _tag: "Claim", now: Date.now(), worker: "bob" })
        expect(woken.jobs.length).toBe(found.slice(-jobs.length).filter(({ state }) => state === "parked").length)
      }
      return found
    })
    const program = Effect.flatMap(
      open,
      ({ sender, worker }) => Effect.provideContext(raced(Context.get(sender, RunQueue.RunQueue)), worker)
    )
    const found = await Effect.runPromise(Effect.scoped(program))
    expect(found).toHaveLength(RACES)
    expect(found.filter(({ isLost }) => isLost)).toEqual([])
    expect(Math.max(...found.map(({ waited }) => waited))).toBeLessThan(LONGEST)
    // Both sides must win often, or nothing is raced.
    const parked = found.filter(({ state }) => state === "parked").length
    expect(Math.min(parked, RACES - parked)).toBeGreaterThan(RACES / 100)
    const slowest = Math.max(...found.map(({ waited }) => waited)).toFixed(0)
    process.stdout.write(`${RACES} races in ${name}: ${parked} parked, ${RACES - parked} continued, slowest ${slowest} ms\n`)
  }, 600_000)
})
