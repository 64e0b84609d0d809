/**
 * The conformance suite for log lines: how they are stored, and how they pass from a worker to a follower.
 */
import { assert, describe, it } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { MAX_LOG_MESSAGE } from "@stint/contract/LogMessage"
import { LOG_SEARCH_LINES } from "@stint/contract/LogsApi"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import {
  defaultLogQuotas,
  JobLogStore,
  type LogEntry,
  LogLimits,
  type LogQuotas,
  type LogScan,
  SCAN_PIECES
} from "@stint/store/JobLogStore"
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

  rule(
    "finds the lines of all jobs of an endpoint, the latest first, without those of other endpoints",
    () =>
      Effect.gen(function*() {
        const store = yield* JobLogStore
        const { started } = yield* Scenario.make()
        const others = yield* Scenario.make({ id: Scenario.elsewhere })
        assert.deepStrictEqual(yield* store.scan(ENDPOINT, undefined), { pieces: [], next: null })
        const jobs = [yield* started("ann"), yield* started("ann")] as const
        const other = yield* others.started("bob")
        const rounds = SCAN_PIECES + 4
        for (let n = 1; n <= rounds; n++) {
          yield* store.append([
            {
              endpoint: ENDPOINT,
              job: jobs[n % 2 === 0 ? 0 : 1].id,
              missed: 0,
              lines: [entry(`${n} a`), entry(`${n} b`, { step: "charge" })]
            },
            { endpoint: Scenario.elsewhere, job: other.id, missed: 0, lines: [entry(`elsewhere ${n}`)] }
          ])
        }
        const found: Array<LogScan["pieces"][number]> = []
        let scans = 0
        for (let before: number | null | undefined; before !== null; scans++) {
          const { next, pieces }: LogScan = yield* store.scan(ENDPOINT, before)
          assert.isAtMost(pieces.length, SCAN_PIECES)
          found.push(...pieces)
          before = next
        }
        assert.isAbove(scans, 1)
        const expected = Array.from({ length: rounds }, (_, index) => rounds - index)
        assert.deepStrictEqual(found.map(({ job, lines }) => [job, ...lines.map(({ message }) => message)]), [
          ...expected.map((n) => [jobs[n % 2 === 0 ? 0 : 1].id, `${n} a`, `${n} b`])
        ])
        assert.deepStrictEqual(
          found[0]?.lines,
          (yield* store.read(ENDPOINT, jobs[rounds % 2 === 0 ? 0 : 1].id, rounds - 2, 9)).lines
        )
        const own = yield* store.scan(Scenario.elsewhere, undefined)
        assert.deepStrictEqual(own.pieces.map(({ job }) => job), Array.from({ length: SCAN_PIECES }, () => other.id))
      })
  )

  rule(
    "passes over a limited number of other endpoints' lines in one scan, and continues after them",
    () =>
      Effect.gen(function*() {
        const store = yield* JobLogStore
        const { started } = yield* Scenario.make()
        const others = yield* Scenario.make({ id: Scenario.elsewhere })
        const { id } = yield* started("ann")
        const other = yield* others.started("bob")
        yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: [entry("rare")] }])
        // One line of 32 KiB is a piece.
        const lines = Array.from({ length: 2_000 }, () => entry("x".repeat(33_000)))
        yield* store.append([{ endpoint: Scenario.elsewhere, job: other.id, missed: 0, lines }])
        const messages: Array<string> = []
        let scans = 0
        for (let before: number | null | undefined; before !== null; scans++) {
          const { next, pieces }: LogScan = yield* store.scan(ENDPOINT, before)
          messages.push(...pieces.flatMap(({ lines }) => lines.map(({ message }) => message)))
          before = next
        }
        assert.deepStrictEqual(messages, ["rare"])
        assert.isAtLeast(scans, 2)
      }),
    { bytes: 128 * 1024 * 1024 }
  )

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
      assert.deepStrictEqual((yield* store.scan(ENDPOINT, undefined)).pieces.map((piece) => piece.job), [other.id])
    }))
}

/** All pages of a search, and the messages on them. */
const searched = Effect.fnUntraced(function*(options: Parameters<JobLogs.JobLogs["Service"]["search"]>[1]) {
  const logs = yield* JobLogs.JobLogs
  const pages = [yield* logs.search(ENDPOINT, options)]
  for (let next = pages[0]?.next ?? null; next !== null;) {
    const page: typeof pages[number] = yield* logs.search(ENDPOINT, { ...options, cursor: next })
    pages.push(page)
    next = page.next
  }
  return { pages, messages: pages.flatMap(({ lines }) => lines.map(({ message }) => message)) }
})

const searchRules = (rule: LogRule): void => {
  rule(
    "searches the lines of all jobs of an endpoint by text, level and time, newest first, page by page",
    () =>
      Effect.gen(function*() {
        const store = yield* JobLogStore
        const { started } = yield* Scenario.make()
        const ids = [(yield* started("ann")).id, (yield* started("ann")).id] as const
        const written: Array<string> = []
        for (let n = 1; n <= 30; n++) {
          const lines = ["a", "b"].map((part) =>
            entry(`${n % 3 === 0 ? "Timeout" : "fine"} ${n}${part}`, { level: n % 2 === 0 ? "ERROR" : "INFO", time: n * 100_000 })
          )
          yield* store.append([{ endpoint: ENDPOINT, job: ids[n % 2 === 0 ? 0 : 1], missed: 0, lines }])
          written.unshift(...lines.map(({ message }) => message).toReversed())
        }
        assert.deepStrictEqual((yield* searched({})).messages, written)
        for (const limit of [1, 3, 20]) {
          const { messages, pages } = yield* searched({ contains: "timeout", limit })
          assert.deepStrictEqual(messages, written.filter((message) => message.startsWith("Timeout")))
          for (const page of pages) {
            assert.isAtMost(page.lines.length, limit)
            assert.notProperty(page, "stopped")
          }
        }
        const [page] = (yield* searched({ contains: "TIMEOUT", level: "ERROR", since: 1_800_000, limit: 2 })).pages
        assert.deepStrictEqual(page?.lines.map(({ job, message, number }) => [job, number, message]), [
          [ids[0], 30, "Timeout 30b"],
          [ids[0], 29, "Timeout 30a"]
        ])
        const rest = yield* searched({ contains: "timeout", level: "ERROR", since: 1_800_000 })
        assert.deepStrictEqual(rest.messages, [
          "Timeout 30b",
          "Timeout 30a",
          "Timeout 24b",
          "Timeout 24a",
          "Timeout 18b",
          "Timeout 18a"
        ])
        assert.isBelow(rest.pages[0]?.searched ?? 0, 60)
      })
  )

  rule("ends a search after the lines that one may read, says so, and continues exactly there", () =>
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const { started } = yield* Scenario.make()
      const { id } = yield* started("ann")
      const count = LOG_SEARCH_LINES + 500
      yield* store.append([{ endpoint: ENDPOINT, job: id, missed: 0, lines: entries(1, count) }])
      const { messages, pages } = yield* searched({ contains: "line 7", limit: 1_000 })
      assert.deepStrictEqual(messages.at(-1), "line 7")
      assert.strictEqual(new Set(messages).size, messages.length)
      assert.strictEqual(pages.reduce((sum, { searched }) => sum + searched, 0), count)
      const [none] = (yield* searched({ contains: "no such text" })).pages
      assert.deepInclude(none, { lines: [], stopped: "lines", searched: LOG_SEARCH_LINES, oldest: 5 })
      assert.deepInclude((yield* searched({ contains: "no such text" })).pages.at(-1), { lines: [], next: null, searched: 500 })
    }), { lines: 100_000, bytes: 64 * 1024 * 1024 })
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
    describe("searched", () => searchRules(rule))
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
