import { assert, expect, layer } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { AuditPage } from "@stint/contract/AuditApi"
import { JobReceipt } from "@stint/contract/Job"
import * as Pages from "@stint/server/Pages"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "../src/ServerTest.ts"
import { type Answer, type Call, expectJson, expectProblem } from "../src/WireClient.ts"

const SESSION = "/api/v1/session"
const LIMIT = 5

/** A console with one script. */
const folder = Effect.acquireRelease(
  Effect.sync(() => {
    const path = mkdtempSync(join(tmpdir(), "stint-console-"))
    mkdirSync(join(path, "console/assets"), { recursive: true })
    writeFileSync(join(path, "index.html"), "<!doctype html><title>the console</title>")
    writeFileSync(join(path, "console/assets/app-1a2b3c.js"), "export {}")
    return path
  }),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const withConsole = (path: Effect.Effect<string>) =>
  layerServer({ limits: { authFailures: LIMIT } }).pipe(Layer.provide(Layer.effect(Pages.ConsoleFolder, path)))

const created = expectJson(201, NewKey)
const receipt = expectJson(200, JobReceipt)

/** A browser that sends its cookie, and its origin with each request that can change something. */
const browser = Effect.gen(function*() {
  const { baseUrl, call } = yield* ServerTest
  let cookie: string | undefined
  const send = (path: string, options: Call = {}): Effect.Effect<Answer, unknown> =>
    Effect.tap(
      call(path, {
        authorization: null,
        ...options,
        headers: { ...(cookie === undefined ? {} : { cookie }), origin: baseUrl, ...options.headers }
      }),
      ({ headers }) =>
        Effect.sync(() => {
          const set = headers.get("set-cookie")
          if (set !== null) cookie = /Max-Age=0/.test(set) ? undefined : set.split(";", 1)[0]
        })
    )
  return {
    send,
    login: (key: string) => send(SESSION, { json: { key } }),
    cookie: () => cookie
  }
})

layer(Layer.unwrap(Effect.map(folder, (path) => withConsole(Effect.succeed(path)))), { excludeTestServices: true })(
  "the console's session",
  (it) => {
    it.effect("stands for the key in every API, the fast path included, and never contains it", () =>
      Effect.gen(function*() {
        const { endpoint } = yield* ServerTest
        const one = yield* endpoint()
        const { cookie, login, send } = yield* browser
        yield* Effect.flatMap(send("/api/v1/endpoints"), expectProblem(401))
        const answer = yield* login(` ${ADMIN_KEY}\n`)
        expect(answer).toMatchObject({ status: 200, json: { id: "platform", scopes: ["admin"], endpoints: "all" } })
        const set = answer.headers.get("set-cookie") ?? ""
        expect(set).toMatch(/^stint_session_\d+=[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/)
        expect(answer.headers.get("cache-control")).toBe("no-store")
        expect(JSON.stringify([answer.text, set])).not.toContain(ADMIN_KEY)
        expect((yield* send(SESSION)).json).toEqual(answer.json)
        for (const path of ["/api/v1/endpoints", "/api/v1/keys", "/api/v1/overview", one.path("health"), one.path("requests")]) {
          expect((yield* send(path)).status, path).toBe(200)
        }
        // `run` is on the fast path, `retry` is not.
        const { id } = yield* Effect.flatMap(send(one.path("run"), { json: { input: 1 } }), receipt)
        expect((yield* send(one.path(`retry/${id}`), { method: "POST" })).status).toBe(409)
        // A cookie does not make a session a key.
        const session = (cookie() ?? "").split("=")[1] ?? ""
        yield* Effect.flatMap(send("/api/v1/endpoints", { authorization: session, headers: { cookie: "" } }), expectProblem(401))
      }))

    it.effect("appears in the audit as its key, used through the console", () =>
      Effect.gen(function*() {
        const { call, endpoint } = yield* ServerTest
        const one = yield* endpoint()
        const { login, send } = yield* browser
        yield* login(ADMIN_KEY)
        expect((yield* send(one.path("purge-queue"), { method: "POST" })).status).toBe(200)
        yield* one.purge
        const { entries } = yield* Effect.flatMap(
          call(`/api/v1/audit?target=endpoint/${one.id}&action=jobs`),
          expectJson(200, AuditPage)
        )
        expect(entries.map(({ action, key, via }) => [action, key, via])).toEqual([
          ["jobs.purgeQueue", "platform", "api"],
          ["jobs.purgeQueue", "platform", "console"]
        ])
      }))

    it.effect("is refused to pages of other origins, even on the same host, and is ignored by a request with a key of its own", () =>
      Effect.gen(function*() {
        const { baseUrl, endpoint } = yield* ServerTest
        const one = yield* endpoint()
        const { login, send } = yield* browser
        yield* login(ADMIN_KEY)
        const elsewhere = ["https://evil.example", "http://127.0.0.1:1", "null", ""]
        for (const origin of elsewhere) {
          const refused = yield* Effect.flatMap(
            send(one.path("run"), { json: { input: 1 }, headers: { origin } }),
            expectProblem(403)
          )
          expect(refused.error).toContain("session cannot be used")
          yield* Effect.flatMap(send(SESSION, { json: { key: ADMIN_KEY }, headers: { origin } }), expectProblem(403))
          yield* Effect.flatMap(send(SESSION, { method: "DELETE", headers: { origin } }), expectProblem(403))
        }
        // For browsers that send the origin of a request, the server protects reads too, because some of them, such as `stream`, have an effect.
        for (const site of ["same-site", "cross-site"]) {
          const headers = { origin: baseUrl, "sec-fetch-site": site }
          yield* Effect.flatMap(send(one.path("health"), { headers }), expectProblem(403))
        }
        expect((yield* send(one.path("health"), { headers: { "sec-fetch-site": "same-origin" } })).status).toBe(200)
        expect((yield* one.health).jobs.inQueue).toBe(0)
        const own = { authorization: ADMIN_KEY, headers: { origin: "https://evil.example" } }
        expect((yield* send(one.path("run"), { json: { input: 1 }, ...own })).status).toBe(200)
        yield* Effect.flatMap(send("/api/v1/endpoints", { authorization: "wrong" }), expectProblem(401))
        expect((yield* send("/api/v1/endpoints")).status).toBe(200)
      }))

    it.effect("has the scopes of its key, and ends at logout or when its key ends", () =>
      Effect.gen(function*() {
        const { call, endpoint } = yield* ServerTest
        const one = yield* endpoint()
        const spec = { name: "viewer", scopes: ["jobs:read"], endpoints: [one.id] }
        const { key, secret } = yield* Effect.flatMap(call("/api/v1/keys", { json: spec }), created)
        const first = yield* browser
        const second = yield* browser
        for (const { login, send } of [first, second]) {
          expect((yield* login(secret)).json).toEqual({
            id: key.id,
            name: "the key \"viewer\"",
            scopes: ["jobs:read"],
            endpoints: [one.id]
          })
          expect((yield* send(one.path("requests"))).status).toBe(200)
          yield* Effect.flatMap(send(one.path("run"), { json: { input: 1 } }), expectProblem(403))
          yield* Effect.flatMap(send("/api/v1/endpoints"), expectProblem(403))
        }
        const old = first.cookie() ?? ""
        expect((yield* first.send(SESSION, { method: "DELETE" })).status).toBe(204)
        expect(first.cookie()).toBeUndefined()
        yield* Effect.flatMap(first.send(SESSION, { headers: { cookie: old } }), expectProblem(401))
        expect((yield* second.send(SESSION)).status).toBe(200)
        yield* call(`/api/v1/keys/${key.id}/revoke`, { json: {} })
        const ended = yield* Effect.flatMap(second.send(one.path("requests")), expectProblem(401))
        expect(ended.error).toContain("was revoked")
        // The server ignores the session, so the open page does not count as a client that tries wrong keys.
        for (let at = 0; at < 3 * LIMIT; at += 1) {
          const again = yield* Effect.flatMap(second.send(one.path("requests")), expectProblem(401))
          expect(again.error).toBe("The request has no key.")
        }
        const worker = yield* Effect.flatMap(call("/api/v1/keys", { json: { ...spec, scopes: ["worker"] } }), created)
        yield* Effect.flatMap(first.login(worker.secret), expectProblem(403))
      }))

    it.effect("refuses bodies without a key, and throttles wrong keys like the APIs", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest
        const { login, send } = yield* browser
        for (const json of [{}, { key: "" }, { key: 7 }, []]) {
          yield* Effect.flatMap(send(SESSION, { json }), expectProblem(400))
        }
        yield* Effect.flatMap(send(SESSION, { body: `{"key":"${"x".repeat(5_000)}"}` }), expectProblem(413))
        const statuses: Array<number> = []
        for (let at = 0; at < 3 * LIMIT; at += 1) statuses.push((yield* login(`wrong ${at}`)).status)
        expect(statuses[0]).toBe(401)
        expect(statuses.at(-1)).toBe(429)
        const throttled = yield* login("wrong")
        yield* expectProblem(429)(throttled)
        expect(Number(throttled.headers.get("retry-after"))).toBeGreaterThanOrEqual(1)
        yield* Effect.flatMap(call("/api/v1/endpoints", { authorization: "wrong" }), expectProblem(429))
        expect((yield* login(ADMIN_KEY)).status).toBe(200)
        assert.isTrue((yield* (yield* ServerTest).logs).every((line) => !line.includes(ADMIN_KEY)))
      }))

    it.effect("its files: the page at / and under /console, scripts for a year, and a policy without inline scripts", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest
        const html = { authorization: null, headers: { accept: "text/html" } }
        for (const path of ["/", "/console/jobs?status=FAILED", "/console/jobs/hello/01a2", "/console"]) {
          const page = yield* call(path, html)
          expect(page, path).toMatchObject({ status: 200, text: "<!doctype html><title>the console</title>" })
          expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8")
          expect(page.headers.get("cache-control")).toBe("no-cache")
          const policy = page.headers.get("content-security-policy") ?? ""
          expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'")
          expect(policy).not.toMatch(/unsafe|https?:|\*/)
        }
        expect((yield* call("/", { authorization: null })).json).toMatchObject({ name: "stint" })
        const script = yield* call("/console/assets/app-1a2b3c.js", html)
        expect(script).toMatchObject({ status: 200, text: "export {}" })
        expect(script.headers.get("content-type")).toBe("text/javascript; charset=utf-8")
        expect(script.headers.get("cache-control")).toBe("public, max-age=31536000, immutable")
        for (const [encoding, expected] of [["br, gzip", "gzip"], ["br, gzip;q=0", null]] as const) {
          const answer = yield* call("/console/assets/app-1a2b3c.js", { headers: { "accept-encoding": encoding } })
          expect(answer.headers.get("content-encoding")).toBe(expected)
          expect(answer.text).toBe("export {}")
        }
        for (const name of ["missing.js", "..%2f..%2findex.html", "%2e%2e%2findex.html"]) {
          expect((yield* call(`/console/assets/${name}`, html)).status, name).toBe(404)
        }
      }))
  }
)

layer(withConsole(Effect.succeed(join(tmpdir(), "stint-console-that-was-never-built"))), { excludeTestServices: true })(
  "a console that is not built",
  (it) => {
    it.effect("leaves the page at / unchanged, and serves it at the console's other addresses too", () =>
      Effect.gen(function*() {
        const { baseUrl, call } = yield* ServerTest
        const page = yield* call("/", { authorization: null, headers: { accept: "text/html" } })
        expect(page.text).toContain("Stint runs typed serverless jobs on your own machines.")
        const other = yield* call("/console/jobs", { authorization: null, headers: { accept: "text/html" } })
        expect(other.text).toBe(page.text)
        expect(baseUrl).toContain("127.0.0.1")
      }))
  }
)
