import { describe, expect, it } from "@effect/vitest"
import { isTerminal } from "@stint/contract/Job"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as fc from "fast-check"
import * as LocalJobQueue from "../src/LocalJobQueue.ts"

const make = Effect.gen(function*() {
  const ended: Array<string> = []
  const jobs = yield* LocalJobQueue.make(({ id, status }) => void ended.push(`${id} ${status}`))
  const submit = (request: LocalJobQueue.Request = { input: 1 }) => jobs.submit(request)?.id ?? ""
  const running = Effect.fnUntraced(function*(request?: LocalJobQueue.Request) {
    const id = submit(request)
    yield* jobs.take(1)
    return id
  })
  return { jobs, ended, submit, running }
})

const text = (job: LocalJobQueue.LocalJob | undefined): unknown =>
  job === undefined ? undefined : JSON.parse(`{${LocalJobQueue.jobJsonMembers(job, "w1")}}`)

describe("the jobs of the local API", () => {
  // docs/spec/jobs-api.md#job-ids
  it.effect("ids begin with test-", () =>
    Effect.gen(function*() {
      const { submit } = yield* make
      expect(submit()).toMatch(/^test-[0-9a-f-]{36}$/)
    }))

  // docs/spec/jobs-api.md#job-object
  it.effect("a job has the fields and times of the deployed endpoint", () =>
    Effect.gen(function*() {
      const { jobs, submit } = yield* make
      const id = submit({ input: { name: "Ada" }, s3Config: s3 })
      expect(text(jobs.find(id))).toEqual({ id, status: "IN_QUEUE" })
      yield* TestClock.adjust(30)
      expect(yield* jobs.take(1)).toEqual([{ id, input: { name: "Ada" }, delayTime: 30, attempt: 1, s3Config: s3 }])
      expect(text(jobs.find(id))).toEqual({ id, status: "IN_PROGRESS", delayTime: 30, workerId: "w1" })
      jobs.progress(id, { step: 2 })
      expect(text(jobs.find(id))).toMatchObject({ status: "IN_PROGRESS", output: { step: 2 } })
      yield* TestClock.adjust(12)
      jobs.done(id, `{"output":{"n":1e300,"text":"Grüße"}}`)
      const ended = { id, status: "COMPLETED", delayTime: 30, executionTime: 12, workerId: "w1" }
      expect(text(jobs.find(id))).toEqual({ ...ended, output: { n: 1e300, text: "Grüße" } })
      jobs.progress(id, "late")
      expect(text(jobs.find(id))).toMatchObject({ status: "COMPLETED", output: { n: 1e300 } })
    }))

  // docs/spec/handler.md#returned-values
  it.effect("a result without output has none, not even the last progress", () =>
    Effect.gen(function*() {
      const { jobs, running } = yield* make
      const id = yield* running()
      jobs.progress(id, "half way")
      jobs.done(id, "{}")
      expect(text(jobs.find(id))).toEqual({ id, status: "COMPLETED", delayTime: 0, executionTime: 0, workerId: "w1" })
    }))

  it.effect("waiting for the end ends with the job, or with the wait", () =>
    Effect.gen(function*() {
      const { jobs, running } = yield* make
      const id = yield* running()
      const short = yield* Effect.forkChild(jobs.awaitCompletion(id, 90_000), { startImmediately: true })
      yield* TestClock.adjust(89_999)
      expect(short.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust(1)
      expect((yield* Fiber.join(short))?.status).toBe("IN_PROGRESS")
      const long = yield* Effect.forkChild(jobs.awaitCompletion(id, 90_000), { startImmediately: true })
      jobs.done(id, `{"error":"no"}`)
      expect((yield* Fiber.join(long))?.status).toBe("FAILED")
      expect(yield* jobs.awaitCompletion("test-unknown", 90_000)).toBeUndefined()
    }))

  // docs/spec/streaming.md#draining-chunks, docs/spec/streaming.md#end-of-a-stream
  it.effect("chunks go out once, in order, and the end not before the last of them", () =>
    Effect.gen(function*() {
      const { jobs, running } = yield* make
      const id = yield* running()
      const first = yield* Effect.forkChild(jobs.readStream(id, 10_000), { startImmediately: true })
      jobs.chunk(id, `{"output":{"n":1}}`)
      expect((yield* Fiber.join(first))?.chunks).toEqual([`{"n":1}`])
      jobs.chunk(id, `{"output":2}`)
      jobs.chunk(id, `{"output":null}`)
      jobs.done(id, `{"output":[]}`)
      const last = yield* jobs.readStream(id, 10_000)
      expect(last).toMatchObject({ chunks: ["2", "null"], more: false, job: { status: "COMPLETED" } })
      expect(yield* jobs.readStream(id, 10_000)).toMatchObject({ chunks: [], job: { status: "COMPLETED" } })
      expect(jobs.chunk(id, `{"output":3}`)).toBe("ended")
      const empty = yield* Effect.forkChild(Effect.flatMap(running(), (other) => jobs.readStream(other, 10_000)), {
        startImmediately: true
      })
      yield* TestClock.adjust(10_000)
      expect(yield* Fiber.join(empty)).toMatchObject({ chunks: [], job: { status: "IN_PROGRESS" } })
    }))

  it.effect("more chunks than fit into one answer come in several", () =>
    Effect.gen(function*() {
      const { jobs, running } = yield* make
      const id = yield* running()
      const large = "x".repeat(LocalJobQueue.PAGE_BYTES / 2)
      for (const name of ["a", "b", "c"]) jobs.chunk(id, JSON.stringify({ output: name + large }))
      jobs.done(id, "{}")
      const pages = [yield* jobs.readStream(id, 0), yield* jobs.readStream(id, 0), yield* jobs.readStream(id, 0)]
      expect(pages.map((page) => page?.chunks.map((chunk) => chunk[1]))).toEqual([["a"], ["b"], ["c"]])
      expect(pages.map((page) => page?.more)).toEqual([true, true, false])
    }))

  it.effect("cancelling drops a job that waits, and tells the worker of one that runs", () =>
    Effect.gen(function*() {
      const { ended, jobs, running, submit } = yield* make
      const taken = yield* running()
      const waiting = submit()
      expect(jobs.cancel(waiting)?.status).toBe("CANCELLED")
      expect(jobs.cancel(taken)?.status).toBe("CANCELLED")
      expect(yield* jobs.stops).toEqual([taken])
      expect(jobs.cancel(taken)?.status).toBe("CANCELLED")
      jobs.done(taken, `{"output":"late"}`)
      expect(text(jobs.find(taken))).toMatchObject({ status: "CANCELLED" })
      expect(text(jobs.find(taken))).not.toHaveProperty("output")
      expect(ended).toEqual([`${waiting} CANCELLED`, `${taken} CANCELLED`])
      expect(jobs.cancel("test-unknown")).toBeUndefined()
      const next = submit()
      expect((yield* jobs.take(5)).map(({ id }) => id)).toEqual([next])
    }))

  // docs/spec/jobs-api.md#request-body
  it.effect("policy.executionTimeout ends an attempt as TIMED_OUT and stops it", () =>
    Effect.gen(function*() {
      const { jobs, running } = yield* make
      const slow = yield* running({ input: 1, policy: { executionTimeout: 5_000 } })
      const quick = yield* running({ input: 1, policy: { executionTimeout: 5_000 } })
      jobs.done(quick, `{"output":1}`)
      yield* TestClock.adjust(5_000)
      expect(text(jobs.find(slow))).toMatchObject({ status: "TIMED_OUT", executionTime: 5_000 })
      expect(jobs.find(slow)?.error).toMatch(/execution timeout \(5 s\)/)
      expect(yield* jobs.stops).toEqual([slow])
      expect(jobs.find(quick)?.status).toBe("COMPLETED")
    }))

  it.effect("the newest ended jobs stay readable, running ones always", () =>
    Effect.gen(function*() {
      const { jobs, running } = yield* make
      const held = yield* running()
      const first = yield* running()
      jobs.done(first, `{"output":1}`)
      for (let n = 1; n < LocalJobQueue.MAX_FINISHED_JOBS; n++) jobs.done(yield* running(), `{"output":1}`)
      expect(jobs.find(first)).toBeDefined()
      const last = yield* running()
      jobs.done(last, `{"output":1}`)
      expect(jobs.find(first)).toBeUndefined()
      expect(jobs.find(last)?.status).toBe("COMPLETED")
      expect(jobs.find(held)?.status).toBe("IN_PROGRESS")
      expect(jobs.counts()).toMatchObject({ COMPLETED: LocalJobQueue.MAX_FINISHED_JOBS, IN_PROGRESS: 1 })
    }))

  it.effect("the queue takes no more than its limit", () =>
    Effect.gen(function*() {
      const { jobs, submit } = yield* make
      for (let n = 0; n < LocalJobQueue.MAX_QUEUED_JOBS; n++) submit()
      expect(jobs.submit({ input: 1 })).toBeUndefined()
      yield* jobs.take(1)
      expect(jobs.submit({ input: 1 })).toBeDefined()
    }))

  it.effect("closing ends what waits, or everything, as FAILED with the reason", () =>
    Effect.gen(function*() {
      const { jobs, running, submit } = yield* make
      const taken = yield* running()
      const waiting = submit()
      expect(jobs.close("waiting", "stopped")).toBe(1)
      expect(jobs.find(waiting)).toMatchObject({ status: "FAILED", error: "stopped" })
      expect(jobs.find(taken)?.status).toBe("IN_PROGRESS")
      expect(jobs.close("all", "ended")).toBe(1)
      expect(jobs.find(taken)).toMatchObject({ status: "FAILED", error: "ended" })
    }))

  const command = fc.constantFrom(
    "submit",
    "submit",
    "take",
    "take",
    "chunk",
    "chunk",
    "progress",
    "done",
    "fail",
    "cancel",
    "drain"
  )

  const follow = Effect.fnUntraced(function*(commands: ReadonlyArray<readonly [string, number]>) {
    const { ended, jobs, submit } = yield* make
    const ids: Array<string> = []
    const first = new Map<string, string>()
    const sent = new Map<string, Array<number>>()
    const read = new Map<string, Array<number>>()
    let n = 0
    const readStream = Effect.fnUntraced(function*(id: string) {
      const drained = yield* jobs.readStream(id, 0)
      read.set(id, [...read.get(id) ?? [], ...(drained?.chunks ?? []).map(Number)])
    })
    for (const [name, which] of commands) {
      const id = ids[which % Math.max(ids.length, 1)]
      if (name === "submit") ids.push(submit())
      else if (name === "take") {
        if (jobs.counts().IN_QUEUE > 0) yield* jobs.take(1 + which)
      } else if (id !== undefined) {
        const before = jobs.find(id)?.status
        if (name === "chunk" && jobs.chunk(id, `{"output":${++n}}`) === "kept") sent.set(id, [...sent.get(id) ?? [], n])
        if (name === "progress") jobs.progress(id, n)
        if (name === "done" && before !== "IN_QUEUE") jobs.done(id, `{"output":${n}}`)
        if (name === "fail" && before !== "IN_QUEUE") jobs.done(id, `{"error":"${n}"}`)
        if (name === "cancel") jobs.cancel(id)
        if (name === "drain") yield* readStream(id)
      }
      for (const one of ids) {
        const status = jobs.find(one)?.status ?? "IN_QUEUE"
        if (first.has(one)) expect(status).toBe(first.get(one))
        else if (isTerminal(status)) first.set(one, status)
      }
    }
    for (const id of ids) yield* readStream(id)
    for (const id of ids) expect(read.get(id) ?? []).toEqual(sent.get(id) ?? [])
    expect(ended).toEqual([...new Set(ended)])
    expect(ended).toHaveLength(first.size)
  })

  it("whatever happens in whatever order: the first end counts, and no chunk is lost, repeated or out of order", async () => {
    const commands = fc.array(fc.tuple(command, fc.nat(5)), { maxLength: 60 })
    await fc.assert(fc.asyncProperty(commands, (list) => Effect.runPromise(Effect.scoped(follow(list)))))
  })
})

const s3 = { accessId: "a", accessSecret: "s", bucketName: "b", endpointUrl: "http://s3" }
