/**
 * Properties: progress stays in order, and no progress arrives after the result.
 */
import { describe, expect, it } from "@effect/vitest"
import { Handler, RunningJob } from "@stint/worker"
import { JobSourceMemory, PlatformStub } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as fc from "fast-check"
import { setImmediate } from "node:timers/promises"
import { Progress } from "../src/index.ts"
import { inMemory, overHttp } from "./ProgressWorker.ts"

const decodeBody = Schema.decodeUnknownSync(
  Schema.Struct({ status: Schema.optionalKey(Schema.String), output: Schema.optionalKey(Schema.Json) })
)

const INTERVAL = 100
const FLUSH_TIMEOUT = 1_000

describe("in any interleaving, in virtual time", () => {
  const answer = fc.record({
    after: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 400 }), fc.constant(5_000)),
    how: fc.oneof(
      { weight: 6, arbitrary: fc.constant(200) },
      { weight: 3, arbitrary: fc.constantFrom<number | "unreachable">(500, 503, 429, "unreachable") },
      { weight: 1, arbitrary: fc.constantFrom(400, 413, 409, 404) }
    )
  })
  const step = fc.oneof(fc.constant("update" as const), fc.integer({ min: 0, max: 300 }))
  const script = fc.record({
    steps: fc.array(step, { maxLength: 40 }),
    answers: fc.array(answer, { maxLength: 12 }),
    end: fc.constantFrom("return", "fail", "stop")
  })

  type Script = typeof script extends fc.Arbitrary<infer A> ? A : never

  const check = ({ answers, end, steps }: Script) => {
    let reported = 0
    const handler = Handler.make("scripted", {
      input: Schema.Unknown,
      output: Schema.Unknown,
      run: () =>
        Effect.gen(function*() {
          for (const one of steps) {
            if (one === "update") yield* Progress.update(++reported)
            else yield* Effect.sleep(one)
          }
          if (end === "stop") return yield* Effect.never
          if (end === "fail") return yield* Effect.die(new Error("broken"))
          return "done"
        })
    })
    const { layer, log, seen } = inMemory(handler, { answers })
    return Effect.gen(function*() {
      const memory = yield* JobSourceMemory.Memory
      yield* memory.submit({ id: "j1", input: null })
      if (end === "stop") {
        yield* TestClock.adjust(700)
        yield* memory.stop("j1")
      }
      yield* TestClock.adjust("5 minutes")

      const progress = seen.filter(({ kind }) => kind === "progress")
      const done = seen.filter(({ kind }) => kind === "done")
      // The job's outcome is the same as without progress.
      expect(done.map(({ value }) => value)).toEqual(
        end === "stop" ? [] : [end === "fail" ? { error: expect.any(String) } : { output: "done" }]
      )
      // Nothing is sent after the result, and no value is in flight when it is sent.
      if (done.length > 0) expect(seen.at(-1)).toBe(done[0])
      for (const { answered, at } of progress) {
        const result = done[0]?.at ?? 700
        if (answered === undefined) expect(end === "stop" ? result : at + FLUSH_TIMEOUT).toBeLessThanOrEqual(result)
        else expect(answered).toBeLessThanOrEqual(result)
      }
      // In order; a failed value may be sent again.
      const values = progress.map(({ value }) => Number(value))
      expect(values).toEqual(values.toSorted((a, b) => a - b))
      for (const value of values) expect(values.filter((other) => other === value).length).toBeLessThanOrEqual(4)
      // One at a time, at least one interval apart.
      for (const [index, { at }] of progress.entries()) {
        const before = progress[index - 1]
        if (before === undefined) continue
        expect(at - before.at).toBeGreaterThanOrEqual(INTERVAL)
        expect(before.answered).toBeLessThanOrEqual(at)
      }
      // Every value that stayed the newest for long enough was sent.
      const hindered = answers.slice(0, progress.length).some(({ after, how }) => how !== 200 || after > 0)
      const idle = typeof steps.at(-1) === "number" && Number(steps.at(-1)) >= INTERVAL
      if (!hindered && idle && end !== "stop" && reported > 0) expect(values.at(-1)).toBe(reported)
      expect(log.filter(({ level }) => level === "WARN").length).toBeLessThanOrEqual(1)
    }).pipe(Effect.provide(Layer.provideMerge(layer, TestClock.layer())), Effect.runPromise)
  }

  it("progress stays in order and at the interval, and none is sent or in flight when the result is sent", () =>
    fc.assert(fc.asyncProperty(script, check), { numRuns: 200 }))
})

describe("over HTTP", () => {
  const JOBS = 200

  const turns = async (count: number) => {
    for (let turn = 0; turn < count; turn++) await setImmediate()
  }

  it.live("no progress arrives after the result of any of 200 jobs, for any behaviour of the platform", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      // The number of event loop turns between two updates, and the platform's behaviour at that time.
      const fault = fc.constantFrom("none", "none", "none", "500", "429", "drop", "hold")
      const scripts = fc.sample(
        fc.array(fc.record({ turns: fc.integer({ min: 0, max: 8 }), updates: fc.integer({ min: 0, max: 5 }), fault }), {
          maxLength: 8
        }),
        { numRuns: JOBS, seed: 20_260_611 }
      )
      const releases: Array<() => void> = []
      const misbehave = (what: string) => {
        for (const route of ["job-done", "job-done-batch"] as const) {
          if (what === "500") stub.failNext(route, 1, 500)
          if (what === "429") stub.failNext(route, 1, 429)
          if (what === "drop") stub.dropNext(route, 1)
        }
        if (what === "hold") {
          releases.push(stub.holdNext("job-done", 1))
          if (releases.length > 3) releases.shift()?.()
        }
      }
      let reported = 0
      let ended = 0
      yield* overHttp(
        stub.environment(),
        Handler.fromFunction<number>(async (job) => {
          const progress = RunningJob.service(Progress.Progress)
          let n = 0
          for (const { fault, turns: count, updates } of scripts[job.input] ?? []) {
            await turns(count)
            misbehave(fault)
            for (let update = 0; update < updates; update++) {
              progress?.update(job, ++n)
              reported++
            }
          }
          ended++
          if (job.input % 5 === 0) throw new Error("broken")
          return n
        }),
        { concurrency: 8, progress: { interval: 0, flushTimeout: 50 } }
      )
      const ids = Array.from({ length: JOBS }, (_, n) => stub.submit(n, { id: `j${n}` }))
      yield* Effect.promise(() =>
        stub.until(() => {
          // The platform may also hold results; without new holds, all of them are released.
          if (ended === JOBS) { for (const release of releases.splice(0)) release() }
          return ids.every((id) => stub.result(id) !== undefined)
        }, 25_000)
      )

      let shown = 0
      for (const id of ids) {
        const posts = stub.deliveries(id).map(({ body, status }) => ({ status, body: decodeBody(body) }))
        const isProgress = posts.map(({ body }) => body.status === "IN_PROGRESS")
        const first = isProgress.indexOf(false)
        expect(isProgress.slice(first)).not.toContain(true)
        expect(posts.at(-1)).toMatchObject({ status: 200 })
        const values = posts.slice(0, first).map(({ body }) => Number(body.output))
        expect(values).toEqual(values.toSorted((a, b) => a - b))
        shown += values.length
      }
      // The race took place: many values were sent, and many were replaced before they were sent.
      expect(shown).toBeGreaterThan(JOBS / 4)
      expect(reported).toBeGreaterThan(shown)
    }))
})
