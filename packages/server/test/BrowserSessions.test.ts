import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { BrowserSessions, layer, MAX_SESSIONS, SESSION_MILLIS } from "../src/console/BrowserSessions.ts"
import { PublicAddress } from "../src/http/PublicAddress.ts"

const address = (baseUrl: string) => layer.pipe(Layer.provide(Layer.succeed(PublicAddress, { baseUrl })))

const request = (headers: Record<string, string>, method = "GET") =>
  HttpServerRequest.fromWeb(new Request("http://127.0.0.1:4600/", { method, headers: { host: "127.0.0.1:4600", ...headers } }))

const cookieOf = (set: string): string => set.split(";", 1)[0] ?? ""

const KEY = Redacted.make("a key")

describe("sessions of browsers", () => {
  it.effect("end after twelve hours, however often they are used", () =>
    Effect.gen(function*() {
      const sessions = yield* BrowserSessions
      const cookie = cookieOf(sessions.open(request({}), KEY))
      yield* TestClock.adjust(SESSION_MILLIS - 1)
      expect(sessions.find(request({ cookie }))?.key).toBe(KEY)
      yield* TestClock.adjust(1)
      expect(sessions.find(request({ cookie }))).toBeUndefined()
    }).pipe(Effect.provide(address("http://127.0.0.1:4600"))))

  it.effect("are limited: a further login ends the oldest session", () =>
    Effect.gen(function*() {
      const sessions = yield* BrowserSessions
      const cookies = Array.from({ length: MAX_SESSIONS + 1 }, () => cookieOf(sessions.open(request({}), KEY)))
      expect(new Set(cookies).size).toBe(MAX_SESSIONS + 1)
      const isOpen = (at: number) => sessions.find(request({ cookie: `other=1; ${cookies.at(at)}` })) !== undefined
      expect([0, 1, MAX_SESSIONS].map(isOpen)).toEqual([false, true, true])
    }).pipe(Effect.provide(address("http://127.0.0.1:4600"))))

  it.effect("have a cookie for each port of a host, which is restricted to https when the console is opened over https", () =>
    Effect.gen(function*() {
      const sessions = yield* BrowserSessions
      const plain = sessions.open(request({}), KEY)
      expect(plain).toMatch(/^stint_session_4600=/)
      expect(plain).not.toContain("Secure")
      expect(sessions.find(request({ cookie: cookieOf(plain), host: "127.0.0.1:4601" }))).toBeUndefined()
      const proxied = { host: "stint.example", origin: "https://stint.example" }
      expect(sessions.open(request(proxied), KEY)).toMatch(/^stint_session=.*; Secure$/)
      expect(sessions.close(request(proxied))).toMatch(/^stint_session=; .*Max-Age=0; Secure$/)
    }).pipe(Effect.provide(address("http://127.0.0.1:4600"))))

  it.effect("may be used by the platform's own origin: the request's, or the public one behind a proxy", () =>
    Effect.gen(function*() {
      const { foreignOrigin } = yield* BrowserSessions
      const post = (headers: Record<string, string>) => foreignOrigin(request(headers, "POST"))
      expect(post({ origin: "http://127.0.0.1:4600" })).toBeUndefined()
      expect(post({ origin: "https://stint.example" })).toBeUndefined()
      expect(post({ origin: "https://stint.example.evil" })).toBe("https://stint.example.evil")
      expect(post({ origin: "http://127.0.0.1:4601" })).toBe("http://127.0.0.1:4601")
      expect(post({})).toBe("no origin")
      expect(post({ origin: "http://127.0.0.1:4600", "sec-fetch-site": "cross-site" })).toBe("http://127.0.0.1:4600")
      expect(foreignOrigin(request({}))).toBeUndefined()
      expect(foreignOrigin(request({ "sec-fetch-site": "none" }))).toBeUndefined()
      expect(foreignOrigin(request({ "sec-fetch-site": "same-site" }))).toBe("a same-site page")
    }).pipe(Effect.provide(address("https://stint.example"))))
})
