import { assert, describe, it } from "@effect/vitest"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { jsonNull } from "@stint/contract/Json"
import { type Schedule, ScheduleName, ScheduleSpec } from "@stint/contract/Schedule"
import * as JobQueue from "@stint/queue/JobQueue"
import * as ScheduleRunner from "@stint/queue/ScheduleRunner"
import * as Schedules from "@stint/queue/Schedules"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import { ScheduleStore } from "@stint/store/ScheduleStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"

const nightly = ScheduleName.make("nightly")
const endpoint = Scenario.endpoint({ ttlMs: 600_000_000, retentionMs: 600_000_000 })
const key = { endpoint: endpoint.id, name: nightly }

const queue = JobQueue.layer.pipe(
  Layer.provideMerge(Layer.merge(MemoryJobStore.layerWithEndpoints, WorkerRegistry.layer))
)
const world = Schedules.layer.pipe(Layer.provideMerge(queue), Layer.provideMerge(Logger.layer([])))

type Settings = Partial<typeof ScheduleSpec.Encoded>

/** Creates the endpoint and a schedule at a time. */
const start = Effect.fnUntraced(function*(time: string, settings: Settings = {}) {
  const schedules = yield* Schedules.Schedules
  const { cancel, get, list } = yield* JobQueue.JobQueue
  yield* TestClock.setTime(Date.parse(time))
  yield* (yield* EndpointStore).put(endpoint)
  const set = (settings: Settings) =>
    schedules.put(
      key,
      Schema.decodeUnknownSync(ScheduleSpec)(settings.at === undefined ? { cron: "0 * * * *", ...settings } : settings),
      "a test"
    )
  yield* set(settings)
  /** The jobs, oldest first. */
  const jobs = Effect.map(list(endpoint.id, { limit: 1_000 }), ({ jobs }) => jobs.toReversed())
  return {
    schedules,
    set,
    jobs,
    show: schedules.get(endpoint.id, nightly),
    count: Effect.map(jobs, ({ length }) => length),
    end: (id: JobId) => cancel(endpoint.id, id),
    status: (id: JobId) => Effect.map(get(endpoint.id, id), ({ status }) => status),
    /** Ticks at a time. */
    tickAt: (time: string) => Effect.andThen(TestClock.setTime(Date.parse(time)), schedules.tick)
  }
})

const iso = (time: number | undefined) => time === undefined ? undefined : new Date(time).toISOString().slice(0, 16)
const lastOf = ({ last }: Schedule) => last === null ? undefined : [iso(last.scheduledFor), last.outcome]

describe("firing", () => {
  it.effect("submits one job with the schedule's settings at each of its times", () =>
    Effect.gen(function*() {
      const { jobs, schedules, show } = yield* start("2026-11-22T12:30:00Z", {
        overlap: "allow",
        input: { report: "daily" },
        priority: 7,
        tags: ["report"],
        webhook: "https://example.com/hook",
        policy: { ttl: 60_000 }
      })
      yield* Layer.build(ScheduleRunner.layer({ interval: "10 seconds" }))
      yield* TestClock.adjust("29 minutes")
      assert.deepStrictEqual(yield* jobs, [])
      assert.deepStrictEqual((yield* show).next.map(iso), [
        "2026-11-22T13:00",
        "2026-11-22T14:00",
        "2026-11-22T15:00",
        "2026-11-22T16:00",
        "2026-11-22T17:00"
      ])
      yield* TestClock.adjust("2 minutes")
      const [first] = yield* jobs
      assert.deepInclude(first, { priority: 7, tags: ["report", "schedule:nightly"], ttlMs: 60_000 })
      assert.deepInclude(first?.webhook, { url: "https://example.com/hook", events: ["completed"] })
      const { input } = yield* JobQueue.JobQueue
      assert.strictEqual(yield* input(endpoint.id, first?.id ?? ""), `{"report":"daily"}`)
      yield* TestClock.adjust("3 hours")
      assert.strictEqual((yield* jobs).length, 4)
      assert.deepStrictEqual(lastOf(yield* show), ["2026-11-22T16:00", "submitted"])
      assert.isFalse(yield* schedules.tick)
    }).pipe(Effect.scoped, Effect.provide(world)))

  it.effect.each([
    {
      cron: "30 2 * * *",
      timeZone: "Europe/Berlin",
      from: "2026-10-23T12:00Z",
      times: ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]
    },
    {
      cron: "30 2 * * *",
      timeZone: "Europe/Berlin",
      from: "2026-03-27T12:00Z",
      times: ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]
    },
    {
      cron: "30 1 * * *",
      timeZone: "America/New_York",
      from: "2026-11-01T00:00Z",
      times: ["2026-11-01T05:30", "2026-11-02T06:30"]
    },
    {
      cron: "0 * * * *",
      timeZone: "America/New_York",
      from: "2026-11-01T04:30Z",
      times: ["2026-11-01T05:00", "2026-11-01T06:00", "2026-11-01T07:00", "2026-11-01T08:00"]
    },
    {
      cron: "0 * * * *",
      timeZone: "America/New_York",
      from: "2026-03-08T05:30Z",
      times: ["2026-03-08T06:00", "2026-03-08T07:00", "2026-03-08T08:00"]
    }
  ])(
    "fires $cron in $timeZone after $from when daylight saving time begins or ends",
    ({ cron, from, timeZone, times }) =>
      Effect.gen(function*() {
        const { count, schedules, show } = yield* start(from, { cron, timeZone, overlap: "allow" })
        const fired: Array<string | undefined> = []
        while (fired.length < times.length) {
          yield* TestClock.adjust("30 minutes")
          yield* schedules.tick
          if ((yield* count) > fired.length) fired.push(iso((yield* show).last?.scheduledFor))
          assert.strictEqual(yield* count, fired.length)
        }
        assert.deepStrictEqual(fired, times)
      }).pipe(Effect.provide(world))
  )

  it.effect("fires once at a given time, and never for a time that had passed", () =>
    Effect.gen(function*() {
      const { count, set, show, tickAt } = yield* start("2026-11-22T12:00:00Z", { at: "2026-11-22T18:00:00Z" })
      yield* tickAt("2026-11-22T17:59:59Z")
      assert.strictEqual(yield* count, 0)
      yield* tickAt("2026-11-22T18:00:00Z")
      yield* tickAt("2026-11-25T18:00:00Z")
      assert.strictEqual(yield* count, 1)
      assert.deepStrictEqual((yield* show).next, [])
      yield* set({ at: "2026-11-22T18:00:00Z", input: 2 })
      yield* set({ at: "2026-11-22T19:00:00Z" })
      yield* tickAt("2026-11-26T18:00:00Z")
      assert.strictEqual(yield* count, 1)
    }).pipe(Effect.provide(world)))

  it.effect("delays each firing by its own jitter, on which all servers agree", () =>
    Effect.gen(function*() {
      const { count, show, tickAt } = yield* start("2026-11-22T12:00:30Z", { jitterMs: 600_000, overlap: "allow" })
      const delays = new Set<number>()
      for (let hour = 13; hour < 20; hour++) {
        const before = yield* count
        yield* tickAt(`2026-11-22T${hour}:00:00Z`)
        for (let minute = 0; (yield* count) === before && minute < 10; minute++) {
          for (let second = 0; second < 60; second++) {
            const text = (part: number) => String(part).padStart(2, "0")
            yield* tickAt(`2026-11-22T${hour}:${text(minute)}:${text(second)}Z`)
          }
        }
        const { last } = yield* show
        assert.strictEqual(iso(last?.scheduledFor), `2026-11-22T${hour}:00`)
        const delay = (last?.at ?? 0) - (last?.scheduledFor ?? 0)
        assert.isBelow(delay, 600_000)
        delays.add(delay)
      }
      assert.isAbove(delays.size, 3)
    }).pipe(Effect.provide(world)))

  it.effect.each([1_000, 60_000])(
    "fires each of 60 times when the jitter is longer than the time between them and the platform looks every %i ms",
    (interval) =>
      Effect.gen(function*() {
        const { jobs, schedules } = yield* start("2026-11-22T12:00:30Z", {
          cron: "* * * * *",
          jitterMs: 300_000,
          overlap: "allow",
          catchUp: "none"
        })
        const end = Date.parse("2026-11-22T13:00:59.999Z")
        for (let time = Date.parse("2026-11-22T12:00:30Z"); time < end;) {
          time = Math.min(end, time + interval)
          yield* TestClock.setTime(time)
          yield* schedules.tick
        }
        assert.strictEqual((yield* jobs).length, 60)
      }).pipe(Effect.provide(world))
  )
})

describe("after the platform was down", () => {
  it.effect.each<{ readonly settings: Settings; readonly jobs: number; readonly last: string; readonly outcome: string }>([
    { settings: { catchUp: "none" }, jobs: 0, last: "2026-11-22T15:00", outcome: "missed" },
    { settings: { catchUp: "last" }, jobs: 1, last: "2026-11-22T15:00", outcome: "submitted" },
    { settings: { catchUp: "all" }, jobs: 3, last: "2026-11-22T15:00", outcome: "submitted" },
    { settings: { catchUp: "all", catchUpLimit: 2 }, jobs: 2, last: "2026-11-22T15:00", outcome: "submitted" },
    { settings: { catchUp: "none", at: "2026-11-22T14:00:00Z" }, jobs: 0, last: "2026-11-22T14:00", outcome: "missed" },
    { settings: { at: "2026-11-22T14:00:00Z" }, jobs: 1, last: "2026-11-22T14:00", outcome: "submitted" }
  ])(
    "makes up for $jobs of three missed times with $settings",
    ({ jobs: expected, last, outcome, settings }) =>
      Effect.gen(function*() {
        const { jobs, show, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "allow", ...settings })
        yield* tickAt("2026-11-22T15:30:00Z")
        assert.strictEqual((yield* jobs).length, expected)
        assert.deepStrictEqual(lastOf(yield* show), [last, outcome])
        yield* tickAt("2026-11-22T15:59:59Z")
        assert.strictEqual((yield* jobs).length, expected)
        yield* tickAt("2026-11-22T16:00:00Z")
        assert.strictEqual((yield* jobs).length, settings.at === undefined ? expected + 1 : expected)
      }).pipe(Effect.provide(world))
  )

  it.effect("fires a time that the platform reaches within a minute under every policy", () =>
    Effect.gen(function*() {
      const { count, tickAt } = yield* start("2026-11-22T12:30:00Z", { catchUp: "none" })
      yield* tickAt("2026-11-22T15:00:59Z")
      assert.strictEqual(yield* count, 1)
    }).pipe(Effect.provide(world)))

  it.effect("continues where it was killed between two firings", () =>
    Effect.gen(function*() {
      const { jobs, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "allow", catchUp: "all" })
      const inner = yield* JobQueue.JobQueue
      let left = 2
      const dying = JobQueue.JobQueue.of({
        ...inner,
        fire: (submission, schedule) =>
          left-- > 0
            ? inner.fire(submission, schedule)
            : Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation: "insert", cause: "killed" }) }))
      })
      const killed = Layer.fresh(Schedules.layer).pipe(Layer.provide(Layer.succeed(JobQueue.JobQueue, dying)))
      yield* TestClock.setTime(Date.parse("2026-11-22T17:30:00Z"))
      const error = yield* Effect.flip(Effect.provide(Effect.flatMap(Schedules.Schedules, ({ tick }) => tick), killed))
      assert.include(error.message, "insert")
      assert.strictEqual((yield* jobs).length, 2)
      yield* tickAt("2026-11-22T17:31:00Z")
      assert.strictEqual((yield* jobs).length, 5)
    }).pipe(Effect.provide(world)))

  it.effect("fires no time again after the clock was set back by an hour, and follows a clock that was a year ahead", () =>
    Effect.gen(function*() {
      const { count, show, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "allow" })
      yield* tickAt("2026-11-22T13:00:00Z")
      yield* tickAt("2026-11-22T12:05:00Z")
      yield* tickAt("2026-11-22T13:00:00Z")
      assert.strictEqual(yield* count, 1)
      yield* tickAt("2027-11-22T12:30:00Z")
      assert.strictEqual(yield* count, 2)
      yield* tickAt("2026-11-22T13:10:00Z")
      assert.strictEqual(iso((yield* show).next[0]), "2026-11-22T14:00")
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.strictEqual(yield* count, 3)
    }).pipe(Effect.provide(world)))
})

describe("while the previous job has not ended", () => {
  it.effect("skip submits no job, and submits the next one after the previous job has ended", () =>
    Effect.gen(function*() {
      const { count, end, jobs, show, tickAt } = yield* start("2026-11-22T12:30:00Z")
      yield* tickAt("2026-11-22T13:00:00Z")
      yield* tickAt("2026-11-22T14:00:00Z")
      const [first] = yield* jobs
      assert.deepInclude((yield* show).last, { outcome: "skipped", reason: `The previous job, ${first?.id}, has not ended.` })
      assert.strictEqual(yield* count, 1)
      if (first !== undefined) yield* end(first.id)
      yield* tickAt("2026-11-22T15:00:00Z")
      assert.strictEqual(yield* count, 2)
    }).pipe(Effect.provide(world)))

  it.effect("queue submits one job after the other, each when the previous one has ended", () =>
    Effect.gen(function*() {
      const { count, end, jobs, schedules, show, tickAt } = yield* start("2026-11-22T12:30:00Z", {
        overlap: "queue",
        catchUp: "none"
      })
      yield* tickAt("2026-11-22T13:00:00Z")
      yield* tickAt("2026-11-22T14:00:00Z")
      yield* tickAt("2026-11-22T15:00:00Z")
      yield* tickAt("2026-11-22T15:40:00Z")
      assert.strictEqual(yield* count, 1)
      assert.deepStrictEqual((yield* show).waiting.map(iso), ["2026-11-22T14:00", "2026-11-22T15:00"])
      for (const total of [2, 3, 3]) {
        const last = (yield* jobs).at(-1)
        if (last !== undefined) yield* end(last.id)
        yield* schedules.tick
        assert.strictEqual(yield* count, total)
      }
      assert.deepStrictEqual((yield* show).waiting, [])
    }).pipe(Effect.provide(world)))

  it.effect("replace cancels the previous job", () =>
    Effect.gen(function*() {
      const { jobs, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "replace" })
      yield* tickAt("2026-11-22T13:00:00Z")
      const { take } = yield* JobQueue.JobQueue
      yield* take({ endpoint: endpoint.id, worker: "ann", limit: 1, waitMs: 0, holding: false })
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.deepStrictEqual((yield* jobs).map(({ status }) => status), ["CANCELLED", "IN_QUEUE"])
    }).pipe(Effect.provide(world)))

  const replacing = Effect.fnUntraced(function*() {
    const world = yield* start("2026-11-22T12:30:00Z", { overlap: "replace" })
    yield* world.tickAt("2026-11-22T13:00:00Z")
    const { submit, take } = yield* JobQueue.JobQueue
    return {
      ...world,
      take: take({ endpoint: endpoint.id, worker: "ann", limit: 1, waitMs: 0, holding: false }),
      submitOther: submit({ endpoint, id: JobId.make(uuidV7At(Date.parse("2026-11-22T13:30:00Z"), 0)), input: jsonNull }),
      set: (settings: Partial<typeof Endpoint.Encoded>) =>
        Effect.flatMap(EndpointStore, ({ put }) => put(Scenario.endpoint(settings))),
      statuses: Effect.map(world.jobs, (jobs) => jobs.map(({ status }) => status))
    }
  })

  it.effect("replace leaves the previous job when the endpoint is paused", () =>
    Effect.gen(function*() {
      const { set, show, statuses, take, tickAt } = yield* replacing()
      yield* take
      yield* set({ source: { type: "command", command: ["true"] }, workers: { max: 0 } })
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.deepStrictEqual(yield* statuses, ["IN_PROGRESS"])
      assert.deepInclude((yield* show).last, { outcome: "failed" })
    }).pipe(Effect.provide(world)))

  it.effect("replace leaves the previous job, even a waiting one, when other jobs fill the queue", () =>
    Effect.gen(function*() {
      const { set, show, statuses, submitOther, take, tickAt } = yield* replacing()
      yield* submitOther
      yield* set({ limits: { waitingJobs: 1 } })
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.deepStrictEqual(yield* statuses, ["IN_QUEUE", "IN_QUEUE"])
      yield* take
      yield* tickAt("2026-11-22T15:00:00Z")
      assert.deepStrictEqual(yield* statuses, ["IN_PROGRESS", "IN_QUEUE"])
      assert.deepInclude((yield* show).last, { outcome: "failed" })
    }).pipe(Effect.provide(world)))

  it.effect("replace takes the place of a waiting job in a full queue", () =>
    Effect.gen(function*() {
      const { set, statuses, tickAt } = yield* replacing()
      yield* set({ limits: { waitingJobs: 1 } })
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.deepStrictEqual(yield* statuses, ["CANCELLED", "IN_QUEUE"])
    }).pipe(Effect.provide(world)))

  it.effect("replace cancels the previous job after a kill between the new job and the cancellation", () =>
    Effect.gen(function*() {
      const { show, statuses, tickAt } = yield* replacing()
      const inner = yield* JobQueue.JobQueue
      const dying = JobQueue.JobQueue.of({
        ...inner,
        cancel: () => Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation: "cancel", cause: "killed" }) }))
      })
      const killed = Layer.fresh(Schedules.layer).pipe(Layer.provide(Layer.succeed(JobQueue.JobQueue, dying)))
      yield* TestClock.setTime(Date.parse("2026-11-22T14:00:00Z"))
      yield* Effect.flip(Effect.provide(Effect.flatMap(Schedules.Schedules, ({ tick }) => tick), killed))
      assert.deepStrictEqual(yield* statuses, ["IN_QUEUE", "IN_QUEUE"])
      yield* tickAt("2026-11-22T14:00:01Z")
      assert.deepStrictEqual(yield* statuses, ["CANCELLED", "IN_QUEUE"])
      assert.deepStrictEqual(lastOf(yield* show), ["2026-11-22T14:00", "submitted"])
      assert.deepStrictEqual((yield* show).waiting, [])
    }).pipe(Effect.provide(world)))

  it.effect("allow submits the job anyway", () =>
    Effect.gen(function*() {
      const { count, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "allow" })
      yield* tickAt("2026-11-22T13:00:00Z")
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.strictEqual(yield* count, 2)
    }).pipe(Effect.provide(world)))
})

describe("changes to a schedule", () => {
  it.effect("a paused schedule does not fire, and makes up for nothing when it is resumed", () =>
    Effect.gen(function*() {
      const { count, schedules, set, show, tickAt } = yield* start("2026-11-22T12:30:00Z", { catchUp: "all" })
      yield* schedules.pause(endpoint.id, nightly, "ann")
      yield* set({ catchUp: "all", input: 2 })
      yield* tickAt("2026-11-22T15:00:00Z")
      assert.deepInclude(yield* show, { paused: true, next: [] })
      yield* TestClock.setTime(Date.parse("2026-11-22T15:10:00Z"))
      yield* schedules.resume(endpoint.id, nightly, "ann")
      yield* tickAt("2026-11-22T15:59:00Z")
      assert.strictEqual(yield* count, 0)
      yield* tickAt("2026-11-22T16:00:00Z")
      assert.strictEqual(yield* count, 1)
    }).pipe(Effect.provide(world)))

  it.effect("keeps its next time when other settings change, and restarts from now with another cron expression", () =>
    Effect.gen(function*() {
      const { count, set, show, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "allow" })
      yield* TestClock.setTime(Date.parse("2026-11-22T13:00:30Z"))
      yield* set({ overlap: "allow", input: 2 })
      yield* tickAt("2026-11-22T13:00:31Z")
      assert.strictEqual(yield* count, 1)
      yield* TestClock.setTime(Date.parse("2026-11-22T14:00:30Z"))
      yield* set({ overlap: "allow", cron: "15 * * * *" })
      yield* tickAt("2026-11-22T14:00:31Z")
      assert.strictEqual(yield* count, 1)
      assert.strictEqual(iso((yield* show).next[0]), "2026-11-22T14:15")
    }).pipe(Effect.provide(world)))

  it.effect("runs now without changing its times, even while it is paused or its job is running", () =>
    Effect.gen(function*() {
      const { count, schedules, show, status } = yield* start("2026-11-22T12:30:00Z")
      const { next } = yield* show
      const first = yield* schedules.runNow(endpoint, nightly)
      yield* schedules.pause(endpoint.id, nightly, "ann")
      yield* schedules.runNow(endpoint, nightly)
      yield* schedules.resume(endpoint.id, nightly, "ann")
      assert.strictEqual(yield* status(first), "IN_QUEUE")
      assert.strictEqual(yield* count, 2)
      assert.deepInclude(yield* show, { next })
      assert.deepInclude((yield* show).last, { trigger: "manual", outcome: "submitted" })
    }).pipe(Effect.provide(world)))

  it.effect("skips while the job of an earlier firing has not ended, even after jobs that were run by hand", () =>
    Effect.gen(function*() {
      const { count, end, jobs, schedules, show, tickAt } = yield* start("2026-11-22T12:30:00Z")
      yield* tickAt("2026-11-22T13:00:00Z")
      const [first] = yield* jobs
      assert.isDefined(first)
      const second = yield* schedules.runNow(endpoint, nightly)
      const third = yield* schedules.runNow(endpoint, nightly)
      yield* end(third)
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.deepInclude((yield* show).last, { reason: `The previous job, ${first.id}, has not ended.` })
      yield* end(first.id)
      yield* tickAt("2026-11-22T15:00:00Z")
      assert.deepInclude((yield* show).last, { reason: `The previous job, ${second}, has not ended.` })
      yield* end(second)
      yield* tickAt("2026-11-22T16:00:00Z")
      assert.strictEqual(yield* count, 4)
    }).pipe(Effect.provide(world)))

  it.effect("replaces every job that has not ended, including those that were run by hand", () =>
    Effect.gen(function*() {
      const { jobs, schedules, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "replace" })
      yield* tickAt("2026-11-22T13:00:00Z")
      yield* schedules.runNow(endpoint, nightly)
      yield* tickAt("2026-11-22T14:00:00Z")
      assert.deepStrictEqual((yield* jobs).map(({ status }) => status), ["CANCELLED", "CANCELLED", "IN_QUEUE"])
    }).pipe(Effect.provide(world)))

  it.effect("fails for an unknown schedule", () =>
    Effect.gen(function*() {
      const { schedules } = yield* start("2026-11-22T12:30:00Z")
      for (
        const effect of [
          schedules.get("letters", "no such name!"),
          schedules.remove("stamps", nightly),
          schedules.pause("letters", "daily", "ann"),
          Effect.asVoid(schedules.runNow(endpoint, "daily"))
        ]
      ) {
        assert.strictEqual(yield* Scenario.reasonOf(effect), "ScheduleMissing")
      }
      yield* schedules.remove("letters", nightly)
      assert.deepStrictEqual(yield* schedules.list(), [])
    }).pipe(Effect.provide(world)))
})

describe("a job that cannot be submitted", () => {
  const cases = [
    {
      title: "the endpoint was deleted",
      prepare: Effect.flatMap(EndpointStore, ({ remove }) => Effect.asVoid(remove(endpoint.id))),
      reason: "There is no endpoint \"letters\". Create it again, or remove the schedule: stint schedules remove letters nightly"
    },
    {
      title: "the endpoint is paused",
      prepare: Effect.flatMap(
        EndpointStore,
        ({ put }) => put(Scenario.endpoint({ source: { type: "command", command: ["true"] }, workers: { max: 0 } }))
      ),
      reason: "The endpoint \"letters\" is paused: its workers.max is 0."
    },
    {
      title: "the queue of the endpoint is full",
      prepare: Effect.gen(function*() {
        yield* (yield* EndpointStore).put(Scenario.endpoint({ limits: { waitingJobs: 1 } }))
        yield* (yield* Schedules.Schedules).runNow(endpoint, nightly)
      }),
      reason: "the endpoint letters has 1 waiting jobs; its quota is 1."
    }
  ]

  it.effect.each(cases)(
    "records the reason when $title, and continues with the next time",
    ({ prepare, reason }) =>
      Effect.gen(function*() {
        const { count, show, tickAt } = yield* start("2026-11-22T12:30:00Z", { overlap: "allow" })
        yield* prepare
        const before = yield* count
        yield* tickAt("2026-11-22T13:00:00Z")
        const { last } = yield* show
        assert.deepInclude(last, { outcome: "failed" })
        assert.include(last?.reason, reason)
        assert.strictEqual(iso((yield* show).next[0]), "2026-11-22T14:00")
        yield* (yield* EndpointStore).put(endpoint)
        yield* tickAt("2026-11-22T14:00:00Z")
        assert.strictEqual(yield* count, before + 1)
      }).pipe(Effect.provide(world))
  )
})

describe("two servers over one store", () => {
  it.effect("fire 200 times exactly once each", () =>
    Effect.gen(function*() {
      const { jobs } = yield* start("2026-11-22T12:00:30Z", { cron: "* * * * *", overlap: "allow" })
      const inner = yield* ScheduleStore
      // Both servers read the same version of a schedule before one of them writes.
      const slow = Layer.succeed(
        ScheduleStore,
        ScheduleStore.of({
          ...inner,
          get: (...args) => Effect.tap(inner.get(...args), () => Effect.yieldNow)
        })
      )
      const server = Effect.map(Layer.build(Layer.fresh(Schedules.layer).pipe(Layer.provide(slow))), (context) => context)
      const [one, two] = yield* Effect.all([server, server])
      const tick = Effect.flatMap(Schedules.Schedules, ({ tick }) => tick)
      for (let minute = 0; minute < 200; minute++) {
        yield* TestClock.adjust("1 minute")
        yield* Effect.all([Effect.provide(tick, one), Effect.provide(tick, two)], { concurrency: "unbounded" })
        assert.strictEqual((yield* jobs).length, minute + 1)
      }
      assert.strictEqual(new Set((yield* jobs).map(({ id }) => id)).size, 200)
    }).pipe(Effect.scoped, Effect.provide(world)))
})
