/**
 * The conformance suite for log lines: how they are stored, and how they pass from a worker to a follower.
 */
import { assert, describe, it } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { MAX_LOG_MESSAGE } from "@stint/contract/LogMessage"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { defaultLogQuotas, JobLogStore, type LogEntry, LogLimits, type LogQuotas } from "@stint/store/JobLogStore"
import type { JobStore } from "@stint/store/JobStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { logEventRules } from "../rules/LogEventRules.ts"
import type { LogRule } from "../rules/LogRule.ts"
import * as Scenario from "../Scenario.ts"
import { counting, countingLogs } from "../StoreActivity.ts"

const entry = (message: string, changes: Partial<LogEntry> = {}): LogEntry => ({
  time: 5,
  level: "INFO",
  source: "log",
  attempt: 1,
  worker: "ann",
  message,
  ...changes
})

const entries = (from: number, to: number): ReadonlyArray<LogEntry> =>
  Array.from({ length: to - from + 1 }, (_, index) => entry(`line ${from + index}`))

/** The endpoint of every scenario in this file. */
const ENDPOINT = Scenario.endpoint().id

const storeRules = (rule: LogRule): void => {
  rule("returns lines unchanged and in order, numbered from 1 across all writes", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      assert.deepStrictEqual(yield* store.read(ENDPOINT, id, 0, 10), { lines: [], more: false, last: 0 })
      const first = entry("näive ✓ \u0000 \"quoted\"\n{}", {
        level: "ERROR",
        source: "stderr",
        worker: null,
        release: 12,
        time: 1_790_000_000_000
      })
      const error = "KeyError: no user \u0000"
      const end = entry("gone", { ended: { outcome: "lost", startedAt: 3 } })
      const failed = entry("failed", { release: 4, ended: { outcome: "failed", startedAt: 3, error } })
      const three = entry("three", { attempt: 2, step: "thumbnail[3]" })
      const four = entry("four", { step: "page", release: 13 })
      yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: [first, entry("two"), end, failed] }])
      yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: [three, four] }])
      assert.deepStrictEqual(yield* store.read(ENDPOINT, id, 0, 10), {
        lines: [
          { ...first, number: 1, chunk: 0 },
          { ...entry("two"), number: 2, chunk: 0 },
          { ...end, number: 3, chunk: 0 },
          { ...failed, number: 4, chunk: 0 },
          { ...three, number: 5, chunk: 0 },
          { ...four, number: 6, chunk: 0 }
        ],
        more: false,
        last: 6
      })
    }))

  rule(
    "counts log lines toward the stored bytes of their endpoint and key, and frees them with the job",
    () =>
      Effect.gen(function*() {
        const store = yield* JobLogStore
        const { finish, queue, submit, takeOne } = yield* Scenario.make({ limits: { storedBytes: 10_000 } })
        const used = Effect.map(
          Effect.flip(submit({ owner: "ann", keyQuota: { storedBytes: 10_000 }, input: Scenario.text("x".repeat(20_000)) })),
          (error) => error._tag === "QuotaExceeded" ? error.used : NaN
        )
        yield* submit({ owner: "ann", input: Scenario.text(1) })
        assert.strictEqual(yield* used, 1)
        const job = yield* takeOne("ann")
        yield* store.append([{ endpoint: ENDPOINT, job: job.id, missed: 0, lines: entries(1, 10) }])
        const afterTen = yield* used
        assert.isAbove(afterTen, 1)
        yield* store.append([{ endpoint: ENDPOINT, job: job.id, missed: 0, lines: entries(1, 10) }])
        assert.strictEqual(yield* used, 2 * afterTen - 1)
        yield* finish(job, 1)
        yield* Scenario.pass(600_000)
        while (yield* queue.tick);
        assert.strictEqual(yield* used, 0)
      })
  )

  rule("continues reading after any line number, and reports whether more lines follow", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: entries(1, 700) }])
      const seen: Array<string> = []
      let after = 0
      for (let more = true; more;) {
        const page = yield* store.read(ENDPOINT, id, after, 33)
        assert.isAtMost(page.lines.length, 33)
        seen.push(...page.lines.map((line) => line.message))
        after = page.lines.at(-1)?.number ?? after
        more = page.more
      }
      assert.deepStrictEqual(seen, entries(1, 700).map((line) => line.message))
      // A single read returns only a few long lines.
      yield* store.append([{
        endpoint: ENDPOINT,
        job: id,
        missed: 0,
        lines: Array.from({ length: 100 }, () => entry("x".repeat(4_096)))
      }])
      const long = yield* store.read(ENDPOINT, id, 700, 1_000)
      assert.isTrue(long.more)
      assert.isBelow(long.lines.length, 80)
    }))

  rule("records with each line the number of chunks that preceded it in its attempt", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* store.append([{ endpoint: ENDPOINT, job: job.id, missed: 0, lines: [entry("a")] }])
      for (const n of [1, 2]) yield* queue.append(Scenario.holderOf(job), toJsonText(n))
      yield* store.append([{ endpoint: ENDPOINT, job: job.id, missed: 0, lines: [entry("b"), entry("late", { attempt: 0 })] }])
      assert.deepStrictEqual((yield* store.read(ENDPOINT, job.id, 0, 9)).lines.map((line) => line.chunk), [0, 2, 0])
    }))

  rule(
    "drops a job's oldest lines beyond the line quota, and keeps the numbers of the remaining lines",
    () =>
      Effect.gen(function*() {
        const store = yield* JobLogStore
        const { started } = yield* Scenario.make()
        const { id } = yield* started("ann")
        for (let n = 0; n < 30; n++) {
          yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: entries(n * 10 + 1, n * 10 + 10) }])
        }
        const { last, lines } = yield* store.read(ENDPOINT, id, 0, 1_000)
        assert.strictEqual(last, 300)
        assert.isAtMost(lines.length, 100)
        assert.isAtLeast(lines.length, 80)
        assert.deepStrictEqual(
          lines.map((line) => line.message),
          lines.map((line) => `line ${line.number}`)
        )
        assert.strictEqual(lines.at(-1)?.number, 300)
      }),
    { lines: 100 }
  )

  rule("drops a job's oldest lines beyond the byte quota", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      for (let n = 1; n <= 40; n++) {
        yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: [entry(`${n} ${"x".repeat(4_000)}`)] }])
      }
      const { last, lines } = yield* store.read(ENDPOINT, id, 0, 1_000)
      assert.strictEqual(last, 40)
      assert.isAtMost(lines.length * 4_064, 64 * 1024)
      assert.strictEqual(lines.at(-1)?.number, 40)
      assert.isAtLeast(lines.length, 10)
    }), { bytes: 64 * 1024 })

  rule("drops the oldest lines of all jobs beyond the total quota, and continues the numbering", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { started } = yield* Scenario.make()
      const quiet = yield* started("ann")
      yield* store.append([{ endpoint: ENDPOINT, job: quiet.id, missed: 0, lines: entries(1, 3) }])
      const loud: Array<JobId> = []
      for (let n = 0; n < 20; n++) {
        const { id } = yield* started("ann")
        loud.push(id)
        for (let part = 0; part < 4; part++) {
          yield* store.append([{
            endpoint: ENDPOINT,
            job: id,
            missed: 0,
            lines: Array.from({ length: 4 }, () => entry("x".repeat(2_000)))
          }])
        }
      }
      assert.deepStrictEqual(yield* store.read(ENDPOINT, quiet.id, 0, 9), { lines: [], more: false, last: 3 })
      let bytes = 0
      for (const id of loud) bytes += (yield* store.read(ENDPOINT, id, 0, 100)).lines.length * 2_064
      assert.isAtMost(bytes, 100_000)
      assert.isAtLeast(bytes, 50_000)
      yield* store.append([{ endpoint: ENDPOINT, job: quiet.id, missed: 0, lines: [entry("again")] }])
      assert.deepStrictEqual((yield* store.read(ENDPOINT, quiet.id, 0, 9)).lines.map((line) => line.number), [4])
    }), { totalBytes: 100_000 })

  rule("does not reuse the numbers of lines that could not be stored", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: [entry("a")] }])
      yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 7, lines: [entry("b")] }])
      yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 2, lines: [] }])
      const { last, lines } = yield* store.read(ENDPOINT, id, 0, 9)
      assert.deepStrictEqual([last, ...lines.map((line) => line.number)], [11, 1, 9])
    }))

  rule("removes lines with their job, and ignores lines of an unknown job", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { finish, queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const other = yield* started("ann")
      yield* store.append([
        { endpoint: ENDPOINT, job: job.id, missed: 0, lines: entries(1, 5) },
        { endpoint: ENDPOINT, job: Scenario.jobId(), missed: 0, lines: entries(1, 5) },
        { endpoint: ENDPOINT, job: other.id, missed: 0, lines: entries(1, 2) }
      ])
      yield* finish(job)
      assert.strictEqual((yield* store.read(ENDPOINT, job.id, 0, 9)).lines.length, 5)
      yield* TestClock.adjust(600_000)
      yield* queue.tick
      yield* store.append([{ endpoint: ENDPOINT, job: job.id, missed: 0, lines: entries(6, 6) }])
      assert.deepStrictEqual(yield* store.read(ENDPOINT, job.id, 0, 9), { lines: [], more: false, last: 0 })
      assert.strictEqual((yield* store.read(ENDPOINT, other.id, 0, 9)).lines.length, 2)
    }))
}

const write = Effect.fnUntraced(function*(worker: string, message: string, job?: string, endpoint = Scenario.endpoint().id) {
  const logs = yield* JobLogs.JobLogs
  return yield* logs.write({ endpoint, worker, job, level: "INFO", source: "log", message })
})

const messages = Effect.fnUntraced(function*(job: JobId, options: JobLogs.ReadOptions = {}) {
  return (yield* (yield* JobLogs.JobLogs).read(ENDPOINT, job, options)).lines.map((line) => line.message)
})

const writtenRules = (rule: LogRule): void => {
  rule(
    "attributes a line to the job it names, and refuses jobs of other workers and endpoints",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs.JobLogs
        const { started } = yield* Scenario.make()
        const anns = yield* started("ann")
        const bobs = yield* started("bob")
        assert.isTrue(yield* write("ann", "mine", anns.id))
        assert.isFalse(yield* write("ann", "not mine", bobs.id))
        assert.isFalse(yield* write("ann", "from afar", anns.id, Scenario.elsewhere))
        assert.isFalse(yield* write("ann", "no such job", "nope"))
        yield* logs.flush
        assert.deepStrictEqual(yield* messages(anns.id), ["mine"])
        assert.deepStrictEqual(yield* messages(bobs.id), [])
      })
  )

  rule(
    "attributes a line that names no job to the worker's job when the worker runs exactly one job",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs.JobLogs
        const { finish, started } = yield* Scenario.make()
        assert.isFalse(yield* write("ann", "loading"))
        const first = yield* started("ann")
        assert.isTrue(yield* write("ann", "one"))
        const second = yield* started("ann")
        assert.isFalse(yield* write("ann", "whose?"))
        yield* finish(first)
        assert.isTrue(yield* write("ann", "two"))
        yield* finish(second)
        yield* TestClock.adjust(1_000)
        assert.isTrue(yield* write("ann", "two's last word"))
        yield* TestClock.adjust(1)
        assert.isFalse(yield* write("ann", "idle"))
        yield* logs.flush
        assert.deepStrictEqual(yield* messages(first.id), ["one"])
        assert.deepStrictEqual(yield* messages(second.id), ["two", "two's last word"])
      })
  )

  rule(
    "records a late line with its lost attempt, even while the job runs on another worker",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs.JobLogs
        const { endpoint, queue, started, takeOne } = yield* Scenario.make({ maxAttempts: 3 })
        const job = yield* started("ann")
        yield* TestClock.adjust(10_000)
        yield* queue.tick
        const again = yield* takeOne("bob")
        assert.strictEqual(again.id, job.id)
        yield* write("ann", "still here", job.id)
        yield* write("bob", "taking over", job.id)
        yield* queue.workerGone(endpoint.id, "ann", "killed")
        // The registry no longer remembers the worker's jobs.
        assert.isFalse(yield* write("ann", "after its exit", job.id))
        yield* logs.flush
        const { lines } = yield* logs.read(job.endpoint, job.id)
        const written = lines.filter(({ source }) => source !== "platform")
        assert.deepStrictEqual(written.map(({ attempt, message, worker }) => [attempt, worker, message]), [
          [1, "ann", "still here"],
          [2, "bob", "taking over"]
        ])
      })
  )

  rule("accepts a line for a job that the worker took before a restart", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs.JobLogs
      const registry = yield* WorkerRegistry.WorkerRegistry
      const { endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* registry.removed(endpoint.id, "ann")
      assert.isTrue(yield* write("ann", "still mine", job.id))
      yield* logs.flush
      assert.deepStrictEqual(yield* messages(job.id), ["still mine"])
    }))

  rule("writes lines after 100 ms, or at once when many are pending", () =>
    Effect.gen(function*() {
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      yield* write("ann", "a", id)
      yield* Scenario.pass(JobLogs.BATCH_MILLIS - 1)
      assert.deepStrictEqual(yield* messages(id), [])
      yield* Scenario.pass(1)
      assert.deepStrictEqual(yield* messages(id), ["a"])
      for (let n = 0; n < JobLogs.BATCH_LINES; n++) yield* write("ann", `${n}`, id)
      yield* Scenario.settle
      assert.strictEqual((yield* messages(id, { limit: 1_000 })).length, 1 + JobLogs.BATCH_LINES)
    }))

  rule("truncates a long message in its middle", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs.JobLogs
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      yield* write("ann", `begin${"x".repeat(100_000)}end`, id)
      yield* logs.flush
      const [message = ""] = yield* messages(id)
      assert.strictEqual(message.length, MAX_LOG_MESSAGE)
      assert.match(message, /^begin.*100008 characters, cut here.*end$/)
    }))

  rule("inserts a line that counts the dropped lines at each gap", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs.JobLogs
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      for (let n = 1; n <= 300; n++) {
        yield* write("ann", `line ${n}`, id)
        if (n % 10 === 0) yield* logs.flush
      }
      const all = yield* logs.read(ENDPOINT, id, { limit: 1_000 })
      const [gap, ...rest] = all.lines
      assert.deepInclude(gap, { number: 300 - rest.length, level: "WARN", source: "platform", worker: null, attempt: 1 })
      assert.match(
        gap?.message ?? "",
        new RegExp(`^${300 - rest.length} lines dropped here: a job keeps its newest 100 lines and 1 MiB of them`)
      )
      assert.deepStrictEqual(rest.map((line) => line.message), rest.map((line) => `line ${line.number}`))
      assert.deepStrictEqual([all.cursor, all.more], [300, false])
      // A reader that received some of the dropped lines receives the number of lines that it missed.
      const later = yield* logs.read(ENDPOINT, id, { after: 50, limit: 1 })
      assert.match(later.lines[0]?.message ?? "", new RegExp(`^${300 - rest.length - 50} lines dropped`))
    }), { lines: 100 })

  rule(
    "omits lines below the requested level, and continues each page where the previous one ended",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs.JobLogs
        const { endpoint, started } = yield* Scenario.make()
        const { id } = yield* started("ann")
        for (let n = 1; n <= 3_000; n++) {
          const level = n % 1_000 === 0 ? "ERROR" : n % 2 === 0 ? "WARN" : "DEBUG"
          yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: id, level, source: "log", message: `${n}` })
        }
        yield* logs.flush
        const seen: Array<string> = []
        let after = 0
        for (let more = true; more;) {
          const page = yield* logs.read(ENDPOINT, id, { after, level: "ERROR", limit: 2 })
          seen.push(...page.lines.map((line) => line.message))
          more = page.more
          after = page.cursor
        }
        assert.deepStrictEqual([...seen, after], ["1000", "2000", "3000", 3_000])
        assert.deepStrictEqual(yield* messages(id, { after: 2_996, level: "WARN" }), ["2998", "3000"])
      })
  )
}

/** A store whose next writes fail. */
const faulty = <E>(store: Layer.Layer<JobStore | JobLogStore, E>, failures: { left: number }) =>
  Layer.effect(
    JobLogStore,
    Effect.map(JobLogStore, (inner) => ({
      ...inner,
      append: (batches) =>
        Effect.suspend(() => {
          if (failures.left === 0) return inner.append(batches)
          failures.left -= 1
          return Effect.fail(
            new StoreError({ reason: new StoreUnavailable({ operation: "append", cause: new Error("the disk is full") }) })
          )
        })
    }))
  ).pipe(Layer.provideMerge(store))

/** Registers the rules for log lines. The layer is built for every test. */
export const jobLogStoreSuite = <E>(name: string, tested: Layer.Layer<JobStore | JobLogStore, E>): void => {
  const store = countingLogs(counting(tested))
  const worldOver = (stores: Layer.Layer<JobStore | JobLogStore, E>, quotas: Partial<LogQuotas> = {}) =>
    JobQueue.layer.pipe(
      Layer.provideMerge(JobLogs.layer),
      Layer.provideMerge(Layer.merge(stores, WorkerRegistry.layer)),
      Layer.provide(Layer.succeed(LogLimits, { ...defaultLogQuotas, ...quotas }))
    )
  const rule: LogRule = (title, body, quotas) =>
    it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(worldOver(store, quotas))))

  describe(`log lines: ${name}`, () => {
    describe("store", () => storeRules(rule))
    describe("written", () => writtenRules(rule))
    describe("followed", () => logEventRules(rule))

    it.effect("counts lines that cannot be stored as dropped, and lets the job continue", () => {
      const failures = { left: 0 }
      return Effect.gen(function*() {
        const logs = yield* JobLogs.JobLogs
        const { finish, started } = yield* Scenario.make()
        const job = yield* started("ann")
        yield* write("ann", "one", job.id)
        yield* logs.flush
        failures.left = 2
        for (const message of ["two", "three"]) {
          yield* write("ann", message, job.id)
          yield* logs.flush
        }
        yield* write("ann", "four", job.id)
        yield* logs.flush
        assert.strictEqual(yield* finish(job), "accepted")
        const [one, gap, four] = yield* messages(job.id)
        assert.deepStrictEqual([one, four], ["one", "four"])
        assert.match(gap ?? "", /^2 lines dropped here/)
      }).pipe(Effect.provide(worldOver(faulty(store, failures))))
    })

    it.effect("writes pending lines when the platform shuts down", () =>
      Effect.gen(function*() {
        const store = yield* JobLogStore
        const { started } = yield* Scenario.make()
        const job = yield* started("ann")
        yield* write("ann", "last line", job.id).pipe(
          Effect.provide(Layer.fresh(JobLogs.layer))
        )
        assert.deepStrictEqual((yield* store.read(ENDPOINT, job.id, 0, 9)).lines.map((line) => line.message), ["last line"])
      }).pipe(Effect.provide(worldOver(store))))
  })
}
