import { describe, expect, it } from "@effect/vitest"
import { NodeNetwork } from "@stint/store-testing"
import * as KeyStore from "@stint/store/KeyStore"
import { Nodes, type Reports } from "@stint/store/Nodes"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as AccessKeys from "../src/auth/AccessKeys.ts"
import { BrowserSessions, layer, MAX_KEY_BYTES, SESSION_MILLIS } from "../src/console/BrowserSessions.ts"
import { MAX_ENDED, MAX_REPORTED } from "../src/console/EndedSessions.ts"
import { PublicAddress } from "../src/http/PublicAddress.ts"

const SECRET = "the secret that all nodes share"

/** The layers of a platform with an address and a worker secret. */
const platform = (baseUrl: string, secret = SECRET) =>
  layer.pipe(
    Layer.provide(Layer.succeed(PublicAddress, { baseUrl })),
    Layer.provide(AccessKeys.layer(AccessKeys.secretsOf(Redacted.make(secret)))),
    Layer.provide(KeyStore.layerMemory)
  )

const LOCAL = "http://127.0.0.1:4600"

/** One server. It shares nothing with others but its secret. */
const serverWith = (secret?: string) =>
  Effect.map(Layer.build(Layer.fresh(platform(LOCAL, secret))), (context) => Context.get(context, BrowserSessions))

/** A server that reports to others what `report` returns, and reads what `receive` gets. */
const nodeOf = Effect.fnUntraced(function*(name: string) {
  const topic = { report: () => "", receive: (_: Reports) => {} }
  const nodes = NodeNetwork.stub({
    name,
    setReport: (_, report, receive = () => {}) => void Object.assign(topic, { report, receive })
  })
  return { name, topic, sessions: yield* Effect.provideService(serverWith(), Nodes, nodes) }
})

const request = (headers: Record<string, string>, method = "GET") =>
  HttpServerRequest.fromWeb(new Request("http://127.0.0.1:4600/", { method, headers: { host: "127.0.0.1:4600", ...headers } }))

const cookieOf = (set: string): string => set.split(";", 1)[0] ?? ""

const KEY = Redacted.make("a key")

type Sessions = BrowserSessions["Service"]

const login = (sessions: Sessions, key = KEY): string => cookieOf(sessions.open(request({}), key))

const keyOf = (sessions: Sessions, cookie: string): string | undefined => {
  const session = sessions.find(request({ cookie }))
  return session === undefined ? undefined : Redacted.value(session.key)
}

describe("sessions of browsers", () => {
  it.effect("end after twelve hours, however often they are used", () =>
    Effect.gen(function*() {
      const sessions = yield* serverWith()
      const cookie = login(sessions)
      yield* TestClock.adjust(SESSION_MILLIS - 1)
      expect(keyOf(sessions, `other=1; ${cookie}`)).toBe("a key")
      yield* TestClock.adjust(1)
      expect(keyOf(sessions, cookie)).toBeUndefined()
    }))

  it.effect("are accepted by every server with the same secret, so also after a restart, and by no other", () =>
    Effect.gen(function*() {
      const cookie = login(yield* serverWith())
      expect(keyOf(yield* serverWith(), cookie)).toBe("a key")
      expect(keyOf(yield* serverWith("another secret"), cookie)).toBeUndefined()
    }))

  it.effect("differ at each login, do not contain the key, and fit into a cookie with the longest key", () =>
    Effect.gen(function*() {
      const sessions = yield* serverWith()
      expect(new Set([login(sessions), login(sessions)]).size).toBe(2)
      const key = "k".repeat(MAX_KEY_BYTES)
      const set = sessions.open(request({ origin: "https://127.0.0.1:4600" }), Redacted.make(key))
      expect(set).toMatch(/^stint_session_4600=[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure$/)
      expect(set.length).toBeLessThan(4_096)
      for (const encoding of ["utf8", "base64", "base64url", "hex"] as const) {
        expect(set).not.toContain(Buffer.from(key).toString(encoding).slice(0, 40))
      }
      expect(keyOf(sessions, cookieOf(set))).toBe(key)
    }))

  it.effect("are rejected when a cookie was changed or cut anywhere", () =>
    Effect.gen(function*() {
      const sessions = yield* serverWith()
      const cookie = login(sessions)
      const name = "stint_session_4600="
      const value = cookie.slice(name.length)
      const isOpen = (text: string) => keyOf(sessions, name + text) !== undefined
      expect(isOpen(value)).toBe(true)
      for (let end = 0; end < value.length; end++) expect(isOpen(value.slice(0, end)), `cut after ${end}`).toBe(false)
      const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=".split("")
      fc.assert(
        fc.property(fc.nat(value.length - 1), fc.constantFrom(...alphabet), (at, character) => {
          const changed = value.slice(0, at) + character + value.slice(at + 1)
          expect(isOpen(changed)).toBe(changed === value)
          expect(isOpen(value.slice(0, at) + character + value.slice(at)), "inserted").toBe(false)
        }),
        { numRuns: 2_000 }
      )
      const other = login(sessions).slice(name.length)
      for (let at = 1; at < value.length; at++) {
        const spliced = value.slice(0, at) + other.slice(at)
        expect(isOpen(spliced), `spliced at ${at}`).toBe(spliced === value || spliced === other)
      }
    }))

  it.effect("end at a logout, also for a copy of the cookie, and do not affect other sessions of the key", () =>
    Effect.gen(function*() {
      const sessions = yield* serverWith()
      const [cookie, other] = [login(sessions), login(sessions)]
      expect(sessions.close(request({ cookie }))).toMatch(/^stint_session_4600=; .*Max-Age=0$/)
      expect([keyOf(sessions, cookie), keyOf(sessions, other)]).toEqual([undefined, "a key"])
      yield* TestClock.adjust(SESSION_MILLIS - 1)
      expect([keyOf(sessions, cookie), keyOf(sessions, other)]).toEqual([undefined, "a key"])
    }))

  it.effect("end at all nodes at a logout, also at those that start later, while one that knows it runs", () =>
    Effect.gen(function*() {
      const [first, second] = [yield* nodeOf("node 1"), yield* nodeOf("node 2")]
      const cookie = login(first.sessions)
      expect(keyOf(second.sessions, cookie)).toBe("a key")
      second.sessions.close(request({ cookie }))
      first.topic.receive(new Map([["node 2", second.topic.report()]]))
      expect(keyOf(first.sessions, cookie)).toBeUndefined()
      const restarted = yield* nodeOf("node 3")
      expect(keyOf(restarted.sessions, cookie)).toBe("a key")
      restarted.topic.receive(new Map([["node 4", "[[\"of another version\"]]"], ["node 1", first.topic.report()]]))
      expect(keyOf(restarted.sessions, cookie)).toBeUndefined()
      yield* TestClock.adjust(SESSION_MILLIS)
      expect(first.topic.report()).toBe("")
    }))

  it.effect("whose key was rejected are ignored for a minute, and end for good at a logout", () =>
    Effect.gen(function*() {
      const sessions = yield* serverWith()
      const cookie = login(sessions)
      const session = sessions.find(request({ cookie }))
      if (session === undefined) return expect.fail("no session")
      sessions.reject(session)
      expect(keyOf(sessions, cookie)).toBeUndefined()
      yield* TestClock.adjust("1 minute")
      expect(keyOf(sessions, cookie)).toBe("a key")
      sessions.reject(session)
      sessions.close(request({ cookie }))
      yield* TestClock.adjust("1 minute")
      expect(keyOf(sessions, cookie)).toBeUndefined()
    }))

  it.effect("that ended take a bounded memory: beyond it, all sessions end that are as old as a forgotten one", () =>
    Effect.gen(function*() {
      const node = yield* nodeOf("node 1")
      const { sessions, topic } = node
      const old = login(sessions)
      const first = login(sessions)
      yield* TestClock.adjust(1)
      const cookies = Array.from({ length: MAX_ENDED }, () => login(sessions))
      const young = login(sessions)
      for (const cookie of [first, ...cookies.slice(1)]) sessions.close(request({ cookie }))
      expect([old, first, young].map((cookie) => keyOf(sessions, cookie))).toEqual(["a key", undefined, "a key"])
      sessions.close(request({ cookie: cookies[0] ?? "" }))
      expect([old, first, young].map((cookie) => keyOf(sessions, cookie))).toEqual([undefined, undefined, "a key"])
      expect(JSON.parse(topic.report())).toHaveLength(MAX_REPORTED)
    }))

  it.effect("have a cookie for each port of a host, which is restricted to https when the console is opened over https", () =>
    Effect.gen(function*() {
      const sessions = yield* serverWith()
      const plain = sessions.open(request({}), KEY)
      expect(plain).toMatch(/^stint_session_4600=/)
      expect(plain).not.toContain("Secure")
      expect(sessions.find(request({ cookie: cookieOf(plain), host: "127.0.0.1:4601" }))).toBeUndefined()
      const proxied = { host: "stint.example", origin: "https://stint.example" }
      expect(sessions.open(request(proxied), KEY)).toMatch(/^stint_session=.*; Secure$/)
      expect(sessions.close(request(proxied))).toMatch(/^stint_session=; .*Max-Age=0; Secure$/)
    }))

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
    }).pipe(Effect.provide(platform("https://stint.example"))))
})
