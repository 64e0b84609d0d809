/**
 * Tests both clients with malformed responses and lost connections, over real sockets.
 */
import { createClient, JobTimedOutError } from "@stint/client"
import * as Client from "@stint/client-effect/Client"
import {
  BAD_GATEWAY,
  json,
  neverRespond,
  noEvents,
  resetConnection,
  respondWith,
  type ScriptedResponse,
  ScriptedServer,
  truncateBody
} from "@stint/client/testing/ScriptedServer"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { afterEach, describe, expect, it } from "vitest"

const KEY = "a-secret-key-0123456789"
const completed = { id: "j1", status: "COMPLETED", output: "done" }
const receipt = { id: "j1", status: "IN_QUEUE" }

let server: ScriptedServer | undefined

afterEach(async () => {
  await server?.[Symbol.asyncDispose]()
  server = undefined
})

const timeouts = { retryFor: 3_000, timeout: 500, wait: 1_000 }

/** The same calls with both clients. */
interface Calls {
  readonly run: () => Promise<unknown>
  readonly runSync: (idempotencyKey?: string) => Promise<unknown>
  readonly result: () => Promise<unknown>
  readonly status: () => Promise<unknown>
  readonly drain: () => Promise<ReadonlyArray<unknown>>
  /** Reads the first chunk, then stops. */
  readonly first: () => Promise<unknown>
  readonly events: (after?: string) => Promise<ReadonlyArray<unknown>>
}

type Clients = Readonly<
  Record<"Promise" | "Effect", (over?: Partial<typeof timeouts> & { readonly reconnectFor?: number }) => Calls>
>

const start = async (...script: ReadonlyArray<ScriptedResponse>): Promise<ScriptedServer> =>
  server = await ScriptedServer.start(...script)

const collected = async (chunks: AsyncIterable<unknown>) => {
  const all: Array<unknown> = []
  for await (const chunk of chunks) all.push(chunk)
  return all
}

const clients: Clients = {
  Promise: (over) => {
    const ep = createClient({ baseUrl: server!.url, apiKey: KEY, ...timeouts, ...over }).endpoint("ep")
    return {
      run: () => ep.run(1),
      runSync: (idempotencyKey) => ep.runSync(1, { idempotencyKey }),
      result: () => ep.result("j1"),
      status: () => ep.status("j1"),
      drain: () => collected(ep.job("j1").stream()),
      first: async () => {
        for await (const chunk of ep.job("j1").stream()) return chunk
        return undefined
      },
      events: (after) => collected(ep.events("j1", { after }))
    }
  },
  Effect: (over) => {
    const layer = Client.layer({ baseUrl: server!.url, apiKey: KEY, ...timeouts, ...over })
    const use = <A, E>(call: (ep: Client.Endpoint<number, unknown, unknown>) => Effect.Effect<A, E>) =>
      Effect.runPromise(Effect.flatMap(Client.endpoint<number, unknown, unknown>("ep"), call).pipe(Effect.provide(layer)))
    return {
      run: () => use((ep) => ep.run(1)),
      runSync: (idempotencyKey) => use((ep) => ep.runSync(1, { idempotencyKey })),
      result: () => use((ep) => ep.result("j1")),
      status: () => use((ep) => ep.status("j1")),
      drain: () => use((ep) => Stream.runCollect(ep.job("j1").stream)),
      first: () => use((ep) => Effect.map(Stream.runCollect(Stream.take(ep.job("j1").stream, 1)), ([chunk]) => chunk)),
      events: (after) => use((ep) => Stream.runCollect(ep.events("j1", { after })))
    }
  }
}

describe.each(["Promise", "Effect"] as const)("%s", (name) => {
  const client = clients[name]

  it("fails with Unexpected for a response that is not JSON", async () => {
    await start(respondWith(200, "<html><title>Log in</title></html>"))
    await expect(client().run()).rejects.toMatchObject({
      reason: { _tag: "Unexpected", status: 200, body: "Log in" },
      message: expect.stringMatching(
        /^run of "ep" at http:\/\/127\.0\.0\.1:\d+: The response has status 200, but its body is not the expected JSON\./
      )
    })
  })

  it("fails with Unexpected for an invalid job object", async () => {
    for (
      const body of [{ id: 1, status: "COMPLETED" }, { id: "j1", status: "DONE" }, [], null, { ...completed, error: { code: 1 } }]
    ) {
      await using wrong = await ScriptedServer.start(json(body))
      server = wrong
      await expect(client().status()).rejects.toMatchObject({ reason: { _tag: "Unexpected" } })
      server = undefined
    }
  })

  it("retries after a proxy's 502 page while waiting, and shows the page's text if a submission fails", async () => {
    const waiting = await start(BAD_GATEWAY, BAD_GATEWAY, json(completed))
    expect(await client().result()).toBe("done")
    expect(waiting.received).toHaveLength(3)
    await waiting[Symbol.asyncDispose]()
    const submitting = await start(BAD_GATEWAY)
    await expect(client().run()).rejects.toMatchObject({
      reason: { _tag: "Unavailable", status: 502 },
      message: expect.stringContaining("502 Bad Gateway nginx")
    })
    expect(submitting.received).toHaveLength(1)
  })

  it("never submits a second job after a lost connection", async () => {
    for (const line of [resetConnection, truncateBody]) {
      await using cut = await ScriptedServer.start(line)
      server = cut
      for (const submit of [() => client().run(), () => client().runSync()]) {
        const before = cut.received.length
        await expect(submit()).rejects.toMatchObject({ reason: { _tag: "Unreachable", sent: true } })
        expect(cut.received.length - before).toBe(1)
      }
      server = undefined
    }
  })

  it("repeats a submission with an idempotency key, with the same key", async () => {
    const cut = await start(resetConnection, truncateBody, json(completed))
    expect(await client().runSync("key-1")).toBe("done")
    expect(cut.received.map(({ headers, method }) => [method, headers["idempotency-key"]])).toEqual([
      ["POST", "key-1"],
      ["POST", "key-1"],
      ["POST", "key-1"]
    ])
  })

  it("resumes a lost wait with the job's id", async () => {
    const cut = await start(
      json({ ...receipt, status: "IN_PROGRESS" }),
      resetConnection,
      truncateBody,
      BAD_GATEWAY,
      json(completed)
    )
    expect(await client().runSync()).toBe("done")
    expect(cut.received.map(({ method, url }) => `${method} ${url.split("?")[0]}`)).toEqual([
      "POST /v2/ep/runsync",
      ...Array.from({ length: 4 }, () => "GET /v2/ep/status-sync/j1")
    ])
  })

  it("retries after 429, not before Retry-After", async () => {
    const times: Array<number> = []
    const timed = (line: ScriptedResponse): ScriptedResponse => (response, request) => {
      times.push(performance.now())
      line(response, request)
    }
    await start(timed(respondWith(429, "slow down", { "retry-after": "1" })), timed(json(receipt)))
    await client().run()
    expect(times[1]! - times[0]!).toBeGreaterThanOrEqual(990)
  })

  it("fails with RateLimited if Retry-After exceeds retryFor", async () => {
    const limited = await start(respondWith(429, "slow down", { "retry-after": "3600" }))
    await expect(client().run()).rejects.toMatchObject({ reason: { _tag: "RateLimited", retryAfter: 3_600_000 } })
    expect(limited.received).toHaveLength(1)
  })

  it("reports a refused connection as not sent", async () => {
    const gone = await start(neverRespond)
    await gone[Symbol.asyncDispose]()
    await expect(client({ retryFor: 300 }).run()).rejects.toMatchObject({
      reason: { _tag: "Unreachable", sent: false },
      message: expect.stringMatching(/The connection could not be established \(.*ECONNREFUSED.*\)\. Check the address/)
    })
    server = undefined
  })

  it("fails after the timeout if the platform does not respond", async () => {
    await start(neverRespond)
    await expect(client({ retryFor: 0, timeout: 100 }).status()).rejects.toMatchObject({
      reason: { _tag: "Unreachable", sent: true },
      detail: expect.stringContaining("No response within")
    })
  })

  it("fails for a redirect, and does not follow it", async () => {
    const redirecting = await start(respondWith(301, "", { location: "https://elsewhere.test/v2/ep/run" }))
    await expect(client().run()).rejects.toMatchObject({
      message: expect.stringContaining("a redirect to https://elsewhere.test/")
    })
    expect(redirecting.received).toHaveLength(1)
  })

  it("continues a runsync that was cut off after its headers, and never submits it again", async () => {
    const afterHead: ScriptedResponse = (response, request) => {
      response.writeHead(200, { "content-type": "application/json", "x-job-id": "j1" })
      response.write(" ", () => request.socket.destroy())
    }
    const cut = await start(afterHead, json(completed))
    expect(await client().runSync()).toBe("done")
    expect(cut.received.map(({ method, url }) => `${method} ${url.split("?")[0]}`)).toEqual([
      "POST /v2/ep/runsync",
      "GET /v2/ep/status-sync/j1"
    ])
  })

  it("fails a stream if chunks are lost on a platform without events", async () => {
    await start(noEvents, json({ id: "j1", status: "IN_PROGRESS", stream: [{ output: 1 }] }), truncateBody)
    await expect(client().drain()).rejects.toMatchObject({
      message: expect.stringContaining("Chunks in the lost response cannot be read again")
    })
  })

  it("closes the connection when the reader stops early", async () => {
    const gone = Promise.withResolvers<void>()
    const endless: ScriptedResponse = (response) => {
      response.on("close", gone.resolve)
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.write(`id: 1\nevent: chunk\ndata: {"attempt":1,"number":1,"output":"first"}\n\n`)
    }
    const reading = await start(endless)
    expect(await client().first()).toBe("first")
    await gone.promise
    expect(reading.received).toHaveLength(1)
  })

  it("does not treat an incomplete end event, or a closed stream, as the job's end", async () => {
    const events = (text: string) => respondWith(200, text, { "content-type": "text/event-stream" })
    await start(
      events(""),
      events("event: end\ndata: {\"id\":\"j1\","),
      events("event: end\ndata: {\"id\":\"j1\",\"status\":\"COMPLETED\"}\n\n")
    )
    expect(await client().events()).toEqual([{ _tag: "End", position: undefined, job: { id: "j1", status: "COMPLETED" } }])
  })

  it("fails with JobTimedOut for a timed-out job", async () => {
    await start(json({ id: "j1", status: "TIMED_OUT", error: "ran longer than 5 s" }))
    const error = await client().result().catch((error: unknown) => error)
    expect(error).toMatchObject({ message: "Job j1 of \"ep\" TIMED_OUT: ran longer than 5 s" })
    expect(error).toBeInstanceOf(name === "Promise" ? JobTimedOutError : Client.JobTimedOut)
  })

  it("never includes the key in an error", async () => {
    for (
      const line of [respondWith(401, `bad key ${"x".repeat(9)}`), respondWith(500, ""), resetConnection, respondWith(200, "no")]
    ) {
      await using bad = await ScriptedServer.start(line)
      server = bad
      const error: unknown = await client({ retryFor: 0 }).status().catch((error: unknown) => error)
      expect(error).toBeInstanceOf(Error)
      expect(bad.received[0]!.headers.authorization).toBe(`Bearer ${KEY}`)
      const shown = (await import("node:util")).inspect(error, { depth: 20, showHidden: true })
      expect(shown).not.toContain(KEY)
      server = undefined
    }
  })
})

describe("the Effect client", () => {
  it("fails with a reason that catchReason catches", async () => {
    const limited = await start(respondWith(429, "", { "retry-after": "3600" }))
    const caught = Client.endpoint("ep").pipe(
      Effect.flatMap((ep) => ep.health),
      Effect.catchReason("ClientError", "RateLimited", ({ retryAfter }) => Effect.succeed(retryAfter)),
      Effect.provide(Client.layer({ baseUrl: limited.url }))
    )
    expect(await Effect.runPromise(caught)).toBe(3_600_000)
  })

  /** The `traceparent` of a request that is sent inside a span. */
  const traceparentOf = async (around: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>) => {
    const limited = await start(respondWith(429, "", { "retry-after": "3600" }))
    const request = Client.endpoint("ep").pipe(
      Effect.flatMap((ep) => ep.health),
      Effect.ignore,
      Effect.withSpan("caller"),
      Effect.provide(Client.layer({ baseUrl: limited.url }))
    )
    await Effect.runPromise(around(request))
    return limited.received[0]!.headers["traceparent"]
  }

  it("sends no traceparent when no tracer exports the program's spans", async () => {
    expect(await traceparentOf((request) => request)).toBeUndefined()
  })

  it("sends the span that the program has received when no tracer exports its own", async () => {
    const received = Tracer.externalSpan({ traceId: "a".repeat(32), spanId: "b".repeat(16), sampled: false })
    expect(await traceparentOf(Effect.withParentSpan(received))).toBe(`00-${"a".repeat(32)}-${"b".repeat(16)}-00`)
  })

  it("sends the program's span when a tracer exports it", async () => {
    const exporting = Tracer.make({ span: (options) => new Tracer.NativeSpan(options) })
    expect(await traceparentOf(Effect.provideService(Tracer.Tracer, exporting))).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
  })

  it("applies the timeout to an uninterruptible submission", async () => {
    await start(neverRespond)
    const layer = Client.layer({ baseUrl: server!.url, timeout: 100, retryFor: 0 })
    const options = { cancelOnInterrupt: true }
    const failing = Effect.flatMap(
      Client.endpoint("ep"),
      (ep) => Effect.all([Effect.flip(ep.runSync(1, options)), Effect.flip(Stream.runDrain(ep.stream(1, options)))])
    )
    for (const error of await Effect.runPromise(Effect.provide(failing, layer))) {
      expect(error).toMatchObject({ _tag: "ClientError", reason: { _tag: "Unreachable", sent: true } })
    }
  })

  it("cancels a job whose caller is interrupted during its submission, if enabled", async () => {
    const answers: Array<() => void> = []
    const slow: ScriptedResponse = (response) => {
      answers.push(() => json(receipt)(response, response.req))
    }
    for (const one of ["runSync", "stream"] as const) {
      await using held = await ScriptedServer.start(slow, json({ ...receipt, status: "CANCELLED" }))
      server = held
      const submitting = Effect.flatMap(
        Client.endpoint("ep"),
        (ep) =>
          one === "runSync"
            ? ep.runSync(1, { cancelOnInterrupt: true })
            : Stream.runDrain(ep.stream(1, { cancelOnInterrupt: true }))
      )
      const fiber = Effect.runFork(Effect.provide(submitting, Client.layer({ baseUrl: held.url })))
      while (held.received.length === 0) await new Promise((next) => setTimeout(next, 5))
      const gone = Effect.runPromise(Fiber.interrupt(fiber))
      answers.pop()?.()
      await gone
      expect(held.received.map(({ url }) => url)).toEqual(["/v2/ep/run", "/v2/ep/cancel/j1"])
      server = undefined
    }
  })

  it("encodes errors as JSON", () => {
    const error = new Client.ClientError({
      reason: { _tag: "TooLarge", limit: 10 },
      operation: "run",
      endpoint: "ep",
      host: "http://platform.test",
      detail: "Too large.",
      hint: ""
    })
    const codec = Schema.toCodecJson(Client.ClientError)
    const again = Schema.decodeUnknownSync(codec)(JSON.parse(JSON.stringify(Schema.encodeSync(codec)(error))))
    expect(again).toBeInstanceOf(Client.ClientError)
    expect(again.message).toBe("run of \"ep\" at http://platform.test: Too large.")
  })
})
