/**
 * Tests aborts, settings and errors of the promise client.
 */
import { afterEach, describe, expect, it } from "vitest"
import { CallError, createClient, StintError } from "../src/index.ts"
import { neverRespond, respondWith, type ScriptedResponse, ScriptedServer } from "../src/testing/ScriptedServer.ts"
import { collect } from "./collect.ts"
import { KEY } from "./ScriptedDriver.ts"

let server: ScriptedServer | undefined

afterEach(async () => {
  await server?.[Symbol.asyncDispose]()
  server = undefined
})

const start = async (...script: ReadonlyArray<ScriptedResponse>): Promise<ScriptedServer> =>
  server = await ScriptedServer.start(...script)

describe("the promise client", () => {
  it("rejects an aborted call at once with the signal's reason", async () => {
    const silent = await start(neverRespond)
    const ep = createClient({ baseUrl: silent.url, apiKey: KEY }).endpoint("ep")
    const reason = new Error("enough")
    const calls: ReadonlyArray<(signal: AbortSignal) => Promise<unknown>> = [
      (signal) => ep.run(1, { signal }),
      (signal) => ep.runSync(1, { signal }),
      (signal) => ep.status("j1", { signal }),
      (signal) => ep.result("j1", { signal }),
      (signal) => ep.cancel("j1", { signal }),
      (signal) => ep.retry("j1", { signal }),
      (signal) => ep.health({ signal }),
      (signal) => ep.purgeQueue({ signal }),
      (signal) => collect(ep.stream(1, { signal })),
      (signal) => collect(ep.job("j1").stream({ signal })),
      (signal) => collect(ep.events("j1", { signal }))
    ]
    for (const call of calls) {
      const controller = new AbortController()
      const before = silent.received.length
      const ended = call(controller.signal).catch((error: unknown) => error)
      while (silent.received.length === before) await new Promise((next) => setTimeout(next, 5))
      controller.abort(reason)
      expect(await ended).toBe(reason)
      expect(await call(AbortSignal.abort(reason)).catch((error: unknown) => error)).toBe(reason)
      expect(silent.received.length).toBe(before + 1)
    }
  })

  it("ends the pause before a retry when the signal aborts", async () => {
    const limited = await start(respondWith(429, "", { "retry-after": "5" }))
    const controller = new AbortController()
    const ended = createClient({ baseUrl: limited.url }).endpoint("ep").health({ signal: controller.signal }).catch((
      error: unknown
    ) => error)
    while (limited.received.length === 0) await new Promise((next) => setTimeout(next, 5))
    const before = performance.now()
    controller.abort()
    expect(await ended).toMatchObject({ name: "AbortError" })
    expect(performance.now() - before).toBeLessThan(2_000)
  })

  it("rejects with a CallError whose cause is the error of fetch", async () => {
    const cause = new Error("offline")
    const client = createClient({ baseUrl: "http://platform.test", retryFor: 0, fetch: () => Promise.reject(cause) })
    const error = await client.endpoint("ep").health().catch((error: unknown) => error)
    expect(error).toBeInstanceOf(CallError)
    expect(error).toBeInstanceOf(StintError)
    expect(error).toMatchObject({ cause, reason: { _tag: "Unreachable", sent: true } })
  })

  it("throws for an invalid baseUrl or apiKey, without repeating a secret", () => {
    expect(() => createClient({ baseUrl: "localhost" })).toThrow(/"localhost" is not a URL/)
    expect(() => createClient({ baseUrl: "ftp://host" })).toThrow(/not with http/)
    expect(() => createClient({ baseUrl: "http://me:hunter2@host" })).toThrow(/^(?!.*hunter2).*user name/)
    expect(() => createClient({ baseUrl: "http://host", apiKey: "hunter2 \n hunter3" })).toThrow(/^(?!.*hunter).*apiKey/)
    expect(createClient({ baseUrl: "http://host:1/base/v2/" }).baseUrl).toBe("http://host:1/base")
  })
})
