/**
 * Effect's `PersistedQueue` over SQLite, embedded. `PersistedQueue` stores no results.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as PersistedQueue from "effect/persistence/PersistedQueue"
import * as Schema from "effect/Schema"
import process from "node:process"
import { INPUT, type Load, serveSubject } from "../SubjectProcess.ts"
import { openSqlite } from "./SqliteClient.ts"

const { client, end, statement } = openSqlite("persisted-queue", process.argv[2] === "D1" ? "D1" : "D2")

const runtime = ManagedRuntime.make(
  PersistedQueue.layer.pipe(
    Layer.provideMerge(PersistedQueue.layerStoreSql()),
    Layer.provide(client)
  )
)

const queue = await runtime.runPromise(
  PersistedQueue.make({ name: "bench", schema: Schema.Struct({ text: Schema.String }) })
)

const completed = () => Number(statement("SELECT count(*) AS n FROM effect_queue WHERE state = 'completed'").get()?.["n"])

const run = Effect.fnUntraced(function*({ jobs, lanes }: Load) {
  const before = completed()
  let sent = 0
  let done = 0
  const caller = Effect.whileLoop({
    while: () => sent < jobs,
    body: () => {
      sent += 1
      return queue.offer(INPUT)
    },
    step: () => {}
  })
  let claimed = 0
  const worker = Effect.whileLoop({
    while: () => claimed < jobs,
    body: () => {
      claimed += 1
      return queue.take(() => Effect.void)
    },
    step: () => {
      done += 1
    }
  })
  const lane = <E>(one: Effect.Effect<void, E>) =>
    Effect.all(Array.from({ length: lanes }, () => one), { concurrency: lanes, discard: true })
  const started = performance.now()
  yield* Effect.all([lane(caller), lane(worker)], { concurrency: 2, discard: true })
  const millis = performance.now() - started
  const stored = completed() - before
  if (stored !== jobs || done !== jobs) throw new Error(`${stored} of ${jobs} jobs are stored as completed`)
  return millis
})

serveSubject((load) => runtime.runPromise(run(load)), async () => {
  await runtime.dispose()
  await end()
})
