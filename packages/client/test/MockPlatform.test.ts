/**
 * Tests the promise client on a mock platform.
 */
import { describe, expect, it } from "vitest"
import { CallError, createClient, JobCancelledError, JobFailedError } from "../src/index.ts"
import { type MockJob, mockPlatform } from "../src/testing/index.ts"
import { collect } from "./collect.ts"

describe("the promise client on a mock platform", () => {
  it("returns the function's output, and shows the submissions to the test", async () => {
    const platform = mockPlatform({ hello: ({ name }: { name: string }) => ({ greeting: `Hello, ${name}` }) })
    const hello = createClient(platform).endpoint<{ name: string }, { greeting: string }>("hello")
    expect(await hello.runSync({ name: "Ada" }, { tags: ["first"] })).toEqual({ greeting: "Hello, Ada" })
    const job = await hello.run({ name: "Grace" })
    expect(await job.result()).toEqual({ greeting: "Hello, Grace" })
    expect(platform.jobs()).toMatchObject([
      { endpoint: "hello", status: "COMPLETED", input: { name: "Ada" }, request: { tags: ["first"] } },
      { id: job.id, input: { name: "Grace" }, output: { greeting: "Hello, Grace" } }
    ])
    expect(await hello.health()).toMatchObject({ jobs: { completed: 2 } })
    expect(await hello.purgeQueue()).toEqual({ removed: 0, status: "completed" })
  })

  it("returns the chunks, progress and end of a generator to every reader", async () => {
    const platform = mockPlatform({
      async *count({ from }: { from: number }, job: MockJob) {
        job.progress("begun")
        for (let n = from; n > 0; n--) yield n
      }
    })
    const count = createClient(platform).endpoint<{ from: number }, ReadonlyArray<number>>("count")
    expect(await collect(count.stream({ from: 3 }))).toEqual([3, 2, 1])
    const job = await count.run({ from: 2 })
    const events = await collect(job.events())
    expect(events.map(({ _tag }) => _tag)).toEqual(["Status", "Progress", "Chunk", "Chunk", "End"])
    expect(await collect(job.stream())).toEqual([2, 1])
    expect(await collect(job.events({ after: events[2]?.position }))).toHaveLength(2)
    expect(await collect(job.events({ after: events[4]?.position }))).toEqual([])
    expect(await job.result()).toEqual([2, 1])
  })

  it("fails and retries jobs like a platform with workers", async () => {
    let tries = 0
    const platform = mockPlatform({
      throws: () => {
        tries += 1
        if (tries === 1) throw new RangeError("too wide")
        return "well"
      },
      returns: () => ({ error: "no such model" })
    })
    const client = createClient(platform)
    const job = await client.endpoint("throws").run(null)
    const failure = await job.result().catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(JobFailedError)
    expect(failure).toMatchObject({ exception: { type: "RangeError", message: "too wide" } })
    expect(await job.retry()).toEqual({ id: job.id, status: "IN_QUEUE" })
    expect(await job.result()).toBe("well")
    expect(await job.retry().catch((error: unknown) => error)).toMatchObject({ reason: { _tag: "Conflict" } })
    expect(await client.endpoint("returns").runSync(null).catch((error: unknown) => error)).toMatchObject({
      error: "no such model"
    })
    const unknown = await client.endpoint("misspelt").run(null).catch((error: unknown) => error)
    expect(unknown).toBeInstanceOf(CallError)
    expect(String(unknown)).toContain(
      "The endpoint \"misspelt\" does not exist. The mock platform has these endpoints: throws, returns."
    )
    expect(await client.endpoint("throws").status("nobody").catch((error: unknown) => error)).toMatchObject({
      reason: { _tag: "NotFound", what: "job" }
    })
  })

  it("cancels a job by its handle and by a signal, and aborts the function's signal", async () => {
    const aborted: Array<string> = []
    const platform = mockPlatform({
      slow: (_: null, { id, signal }: MockJob) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            aborted.push(id)
            reject(new Error("stopped"))
          })
        })
    })
    const slow = createClient(platform).endpoint("slow")
    const job = await slow.run(null)
    expect(await job.cancel()).toEqual({ id: job.id, status: "CANCELLED" })
    expect(await job.result().catch((error: unknown) => error)).toBeInstanceOf(JobCancelledError)
    const controller = new AbortController()
    const waiting = slow.runSync(null, { signal: controller.signal, cancelOnAbort: true }).catch((error: unknown) => error)
    while (platform.jobs().length < 2) await new Promise((next) => setTimeout(next, 1))
    controller.abort(new Error("enough"))
    expect(await waiting).toMatchObject({ message: "enough" })
    expect(platform.jobs().map(({ status }) => status)).toEqual(["CANCELLED", "CANCELLED"])
    expect(aborted).toEqual(platform.jobs().map(({ id }) => id))
  })

  it("creates one job for an idempotency key", async () => {
    const platform = mockPlatform({ hello: () => "once" })
    const hello = createClient(platform).endpoint("hello")
    const [one, two] = [await hello.run(1, { idempotencyKey: "k" }), await hello.run(1, { idempotencyKey: "k" })]
    expect([one.id, platform.jobs().length]).toEqual([two.id, 1])
  })

  it("is read through `stream` if the test removes `events`", async () => {
    const { baseUrl, fetch } = mockPlatform({
      *count() {
        yield 1
        yield 2
      }
    })
    const without: typeof fetch = (input, init) =>
      new Request(input).url.includes("/events/") ? Promise.resolve(new Response("", { status: 404 })) : fetch(input, init)
    expect(await collect(createClient({ baseUrl, fetch: without }).endpoint("count").stream(null))).toEqual([1, 2])
  })
})
