/**
 * Tests access keys: what they allow, how long they are valid, and that a secret is shown only once.
 */
import { expect } from "@effect/vitest"
import { AccessKey, NewKey, RevokedKey } from "@stint/contract/AccessKey"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const created = expectJson(201, NewKey)
const rotated = expectJson(200, NewKey)
const expectKey = expectJson(200, AccessKey)
const expectRevoked = expectJson(200, RevokedKey)
const listed = expectJson(200, Schema.Struct({ keys: Schema.Array(AccessKey) }))

const create = Effect.fnUntraced(function*(settings: Readonly<Record<string, unknown>>) {
  const { call } = yield* ServerTest
  return yield* Effect.flatMap(call("/api/v1/keys", { json: { name: "test", ...settings } }), created)
})

/** Settings that are rejected, and the path of the invalid value. */
const BAD: ReadonlyArray<readonly [settings: unknown, path: ReadonlyArray<string | number>]> = [
  [[], []],
  [{ endpoints: "all" }, ["name"]],
  [{ name: "", endpoints: "all" }, ["name"]],
  [{ name: "bad\u001b[31m", endpoints: "all" }, ["name"]],
  [{ name: "x".repeat(101), endpoints: "all" }, ["name"]],
  [{ name: "no endpoints" }, ["endpoints"]],
  [{ name: "none", endpoints: [] }, ["endpoints", 0]],
  [{ name: "twice", endpoints: ["a", "a"] }, ["endpoints"]],
  [{ name: "bad id", endpoints: ["a b"] }, ["endpoints", 0]],
  [{ name: "admin of one", scopes: ["admin"], endpoints: ["a"] }, ["endpoints"]],
  [{ name: "deploy of one", scopes: ["deploy"], endpoints: ["a"] }, ["endpoints"]],
  [{ name: "no scope", scopes: [], endpoints: "all" }, ["scopes", 0]],
  [{ name: "strange", scopes: ["root"], endpoints: "all" }, ["scopes", 0]],
  [{ name: "late", endpoints: "all", expiresAt: 1 }, ["expiresAt"]],
  [{ name: "text", endpoints: "all", expiresAt: "tomorrow" }, ["expiresAt"]],
  [{ name: "misspelt", endpoints: "all", expiresAT: 1 }, ["expiresAT"]],
  [{ name: "slow", endpoints: "all", rateLimit: { limit: 0, perMs: 1_000 } }, ["rateLimit", "limit"]],
  [{ name: "odd", endpoints: "all", rateLimit: { limit: 1, perMs: 1_500 } }, ["rateLimit", "perMs"]]
]

const making = (it: ServerIt) => {
  it.effect("create: returns 201 with a working secret; get and list never show the secret or its digest", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const answer = yield* call("/api/v1/keys", { json: { name: "ci", endpoints: [one.id] } })
      const { key, secret } = yield* created(answer)
      expect(answer.headers.get("cache-control")).toBe("no-store")
      expect(secret).toMatch(new RegExp(`^stint_${key.id}_[A-Za-z0-9_-]{43}$`))
      expect(key).toMatchObject({ name: "ci", status: "ACTIVE", scopes: ["jobs"], endpoints: [one.id] })
      expect(secret.startsWith(key.prefix)).toBe(true)
      expect(key.prefix.length).toBeLessThan(secret.length - 30)

      const get = yield* call(`/api/v1/keys/${key.id}`)
      const list = yield* call("/api/v1/keys")
      expect(yield* expectKey(get)).toEqual(key)
      expect((yield* listed(list)).keys).toContainEqual(key)
      for (const { text } of [get, list]) {
        expect(text).not.toContain(secret.slice(key.prefix.length))
        expect(text).not.toMatch(/digest|hash|[0-9a-f]{64}/)
      }
      expect((yield* call(one.path("health"), { authorization: secret })).status).toBe(200)
    }))

  it.effect("create: returns 400 with the path of an invalid value and 404 for an unknown endpoint, and stores nothing", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      for (const [settings, path] of BAD) {
        const answer = yield* call("/api/v1/keys", { json: settings })
        const problem = yield* expectProblem(400)(answer)
        expect(problem.errors?.map((one) => one.path), JSON.stringify(settings)).toContainEqual(path)
      }
      const missing = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "made of nothing", endpoints: ["no-such-endpoint"] } }),
        expectProblem(404)
      )
      expect(missing.error).toContain("no-such-endpoint")
      const { keys } = yield* Effect.flatMap(call("/api/v1/keys"), listed)
      expect(keys.filter(({ name }) => BAD.some(([bad]) => JSON.stringify(bad)?.includes(`"${name}"`)))).toEqual([])
      expect(keys.map(({ name }) => name)).not.toContain("made of nothing")
    }))

  it.effect("returns 404 for an unknown key in every operation", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      for (const id of ["0123456789abcdef", "x", "..", "constructor"]) {
        const path = `/api/v1/keys/${encodeURIComponent(id).replaceAll(".", "%2E")}`
        yield* Effect.flatMap(call(`${path}/rotate`, { method: "POST" }), expectProblem(404))
        yield* Effect.flatMap(call(`${path}/revoke`, { method: "POST" }), expectProblem(404))
        if (id !== "..") yield* Effect.flatMap(call(path), expectProblem(404))
        if (id !== "..") yield* Effect.flatMap(call(path, { method: "PATCH", json: {} }), expectProblem(404))
      }
    }))
}

const opening = (it: ServerIt) => {
  it.effect("the error for a deleted endpoint names the other endpoints only to keys that are valid for all of them", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [gone, other] = [yield* endpoint(), yield* endpoint({ id: "a-neighbour-of-the-deleted" })]
      const worker = yield* gone.worker()
      const limited = yield* create({ endpoints: [gone.id] })
      const all = yield* create({ endpoints: "all" })
      yield* call(`/api/v1/endpoints/${gone.id}`, { method: "DELETE" })
      const ask = (path: string, authorization: string) => Effect.flatMap(call(path, { authorization }), expectProblem(404))
      for (const [path, key] of [[gone.path("health"), limited.secret], [worker.addresses.take, worker.key]] as const) {
        expect(JSON.stringify(yield* ask(path, key)), path).not.toContain(other.id)
      }
      expect((yield* ask(gone.path("health"), all.secret)).hint).toContain(other.id)
      expect((yield* ask(`/api/v1/endpoints/${gone.id}`, ADMIN_KEY)).hint).toContain(other.id)
    }))

  it.effect("a jobs key is valid for the jobs API of its endpoints, but not for other endpoints, the worker API or the control API", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [mine, other] = [yield* endpoint(), yield* endpoint()]
      const worker = yield* mine.worker()
      const { secret } = yield* create({ name: "callers", endpoints: [mine.id] })
      expect((yield* call(mine.path("run"), { authorization: secret, json: { input: 1 } })).status).toBe(200)
      const refused = yield* Effect.flatMap(
        call(other.path("run"), { authorization: secret, json: { input: 1 } }),
        expectProblem(403)
      )
      expect(refused.error).toContain("\"callers\"")
      expect(refused.error).toContain(`"${mine.id}"`)
      expect(refused.error).toContain(`"${other.id}"`)
      const control = yield* Effect.flatMap(call("/api/v1/endpoints", { authorization: secret }), expectProblem(403))
      expect(control.error).toMatch(/the scope "jobs".*requires the scope "deploy"/)
      const ping = yield* Effect.flatMap(call(worker.addresses.ping, { authorization: secret }), expectProblem(403))
      expect(ping.error).toMatch(/the scope "jobs".*requires the scope "worker"/)
      expect((yield* other.health).jobs.inQueue).toBe(0)
    }))

  it.effect("a created worker key is valid for the jobs of its endpoints and for no other jobs", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [mine, other] = [yield* endpoint(), yield* endpoint()]
      const { secret } = yield* create({ scopes: ["worker"], endpoints: [mine.id] })
      const { id } = yield* mine.run({ n: 1 })
      const worker = yield* mine.worker()
      const taken = yield* worker.call(worker.addresses.take, { authorization: secret })
      expect(taken.json).toMatchObject({ id })
      expect((yield* worker.call(worker.addresses.done(id), { authorization: secret, json: { output: "x" } })).status).toBe(200)
      expect(yield* mine.status(id)).toMatchObject({ status: "COMPLETED", output: "x" })
      const otherWorker = yield* other.worker()
      yield* Effect.flatMap(call(otherWorker.addresses.take, { authorization: secret }), expectProblem(403))
      const jobs = yield* Effect.flatMap(call(mine.path(`status/${id}`), { authorization: secret }), expectProblem(403))
      expect(jobs.error).toMatch(/the scope "worker".*requires the scope "jobs"/)
    }))

  it.effect("an admin key is valid for every endpoint's jobs API and for the control API, and several scopes can be combined", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const worker = yield* one.worker()
      const admin = yield* create({ scopes: ["admin"] })
      expect(admin.key.endpoints).toBe("all")
      expect((yield* call(one.path("health"), { authorization: admin.secret })).status).toBe(200)
      expect((yield* call("/api/v1/keys", { authorization: admin.secret })).status).toBe(200)
      yield* Effect.flatMap(call(worker.addresses.ping, { authorization: admin.secret }), expectProblem(403))
      const both = yield* create({ scopes: ["jobs", "worker"], endpoints: "all" })
      expect((yield* call(one.path("health"), { authorization: both.secret })).status).toBe(200)
      expect((yield* call(worker.addresses.ping, { authorization: both.secret })).status).toBe(200)
    }))
}

const issuing = (it: ServerIt) => {
  it.effect("a deploy key manages endpoints and sees no key, and cannot run jobs", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const { key, secret: authorization } = yield* create({ scopes: ["deploy"] })
      expect(key.endpoints).toBe("all")
      expect((yield* call("/api/v1/endpoints", { authorization })).status).toBe(200)
      expect((yield* call(`/api/v1/endpoints/${one.id}/worker-env`, { authorization })).status).toBe(200)
      const made = yield* call(`/api/v1/endpoints/made-by-${key.id}`, {
        authorization,
        method: "PUT",
        json: { source: { type: "external" } }
      })
      expect(made.status).toBe(200)
      const refused = yield* Effect.flatMap(call(one.path("run"), { authorization, json: { input: 1 } }), expectProblem(403))
      expect(refused.error).toMatch(/the scope "deploy".*requires the scope "jobs"/)
      for (
        const [path, options] of [
          ["/api/v1/keys", {}],
          ["/api/v1/keys", { json: { name: "more", scopes: ["admin"] } }],
          [`/api/v1/keys/${key.id}`, {}],
          [`/api/v1/keys/${key.id}`, { method: "PATCH", json: { scopes: ["admin"] } }],
          [`/api/v1/keys/${key.id}/rotate`, { method: "POST" }],
          [`/api/v1/keys/${key.id}/revoke`, { method: "POST" }]
        ] as const
      ) {
        const { error } = yield* Effect.flatMap(call(path, { authorization, ...options }), expectProblem(403))
        expect(error).toMatch(/the scope "deploy".*requires the scope "admin"/)
      }
    }))

  it.effect("revoke: lists the keys that were issued with a key, directly or through other keys, and revokes them on request", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const make = (authorization: string, name: string) =>
        Effect.flatMap(call("/api/v1/keys", { authorization, json: { name, scopes: ["admin"] } }), created)
      const status = (authorization: string) => Effect.map(call("/api/v1/keys", { authorization }), ({ status }) => status)
      const revoke = (id: string, json?: unknown) =>
        Effect.flatMap(call(`/api/v1/keys/${id}/revoke`, json === undefined ? { method: "POST" } : { json }), expectRevoked)

      const leaked = yield* make(ADMIN_KEY, "leaked")
      expect("issuedBy" in leaked.key).toBe(false)
      const child = yield* make(leaked.secret, "child")
      expect(child.key.issuedBy).toEqual([leaked.key.id])
      const grandchild = yield* make(child.secret, "grandchild")
      const bystander = yield* make(ADMIN_KEY, "bystander")
      // The leaked key's holder learns the new secret of a key that it rotates, and two keys that rotate each other stay in the list.
      const taken = yield* make(ADMIN_KEY, "taken")
      yield* Effect.flatMap(
        call(`/api/v1/keys/${taken.key.id}/rotate`, { authorization: leaked.secret, method: "POST" }),
        rotated
      )
      yield* Effect.flatMap(
        call(`/api/v1/keys/${child.key.id}/rotate`, { authorization: grandchild.secret, method: "POST" }),
        rotated
      )

      const ids = (keys: ReadonlyArray<AccessKey>) => keys.map(({ id }) => id).toSorted()
      const expected = [child.key.id, grandchild.key.id, taken.key.id].toSorted()
      const first = yield* revoke(leaked.key.id)
      expect(ids(first.issued)).toEqual(expected)
      expect(first.issued.map((key) => key.status)).toEqual(["ACTIVE", "ACTIVE", "ACTIVE"])
      expect([yield* status(leaked.secret), yield* status(grandchild.secret)]).toEqual([401, 200])

      const second = yield* revoke(leaked.key.id, { withIssued: true })
      expect(ids(second.issued)).toEqual(expected)
      expect(second.issued.map((key) => key.status)).toEqual(["REVOKED", "REVOKED", "REVOKED"])
      expect([yield* status(child.secret), yield* status(grandchild.secret), yield* status(taken.secret)]).toEqual([
        401,
        401,
        401
      ])
      expect(yield* status(bystander.secret)).toBe(200)
      expect((yield* revoke(leaked.key.id)).issued).toEqual([])
      yield* Effect.flatMap(call(`/api/v1/keys/${leaked.key.id}/revoke`, { json: { withissued: true } }), expectProblem(400))
    }))

  it.effect("rotate: when the operator rotates a key without a grace period, the secret that its earlier issuers know stops working", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const issuer = yield* create({ scopes: ["admin"] })
      const { key } = yield* Effect.flatMap(
        call("/api/v1/keys", { authorization: issuer.secret, json: { name: "made", scopes: ["admin"] } }),
        created
      )
      const rotate = (json: unknown) => Effect.flatMap(call(`/api/v1/keys/${key.id}/rotate`, { json }), rotated)
      expect((yield* rotate({})).key.issuedBy).toEqual([issuer.key.id])
      expect("issuedBy" in (yield* rotate({ graceMs: 0 })).key).toBe(false)
    }))
}

const ending = (it: ServerIt) => {
  it.effect("rotate: returns a new secret at once; the previous one works until its grace period ends, or not at all", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const status = (authorization: string) => Effect.map(call(one.path("health"), { authorization }), ({ status }) => status)
      const { key, secret: first } = yield* create({ endpoints: [one.id] })
      const path = `/api/v1/keys/${key.id}/rotate`

      const second = yield* Effect.flatMap(call(path, { method: "POST" }), rotated)
      expect(second.secret).not.toBe(first)
      expect(second.key.previousUntil).toBeGreaterThan(Date.now() + 23 * 3_600_000)
      expect([yield* status(first), yield* status(second.secret)]).toEqual([200, 200])

      const third = yield* Effect.flatMap(call(path, { json: { graceMs: 0 } }), rotated)
      expect(third.key.previousUntil).toBeUndefined()
      expect([yield* status(first), yield* status(second.secret), yield* status(third.secret)]).toEqual([401, 401, 200])
      const refused = yield* Effect.flatMap(call(one.path("health"), { authorization: second.secret }), expectProblem(401))
      expect(refused.error).toMatch(/was rotated, and the secret in this request expired on \d{4}-/)

      const fourth = yield* Effect.flatMap(call(path, { json: { graceMs: 50 } }), rotated)
      yield* until(status(third.secret), (seen) => seen === 401)
      expect(yield* status(fourth.secret)).toBe(200)
      yield* Effect.flatMap(call(path, { json: { graceMs: -1 } }), expectProblem(400))
    }))

  it.effect("revoke: takes effect at once and permanently, and only the holder of the key gets that reason", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const { key, secret } = yield* create({ name: "leaked", endpoints: [one.id] })
      const revoked = yield* Effect.flatMap(call(`/api/v1/keys/${key.id}/revoke`, { method: "POST" }), expectRevoked)
      expect(revoked.status).toBe("REVOKED")
      const refused = yield* Effect.flatMap(call(one.path("health"), { authorization: secret }), expectProblem(401))
      expect(refused.error).toContain(
        `The key "leaked" (${key.id}) was revoked on ${new Date(revoked.revokedAt ?? 0).toISOString()}`
      )
      const guessed = yield* Effect.flatMap(
        call(one.path("health"), { authorization: `stint_${key.id}_${"A".repeat(43)}` }),
        expectProblem(401)
      )
      expect(guessed.error).toBe("The platform does not know this key.")
      const again = yield* Effect.flatMap(call(`/api/v1/keys/${key.id}/revoke`, { method: "POST" }), expectRevoked)
      expect(again).toEqual(revoked)
      yield* Effect.flatMap(call(`/api/v1/keys/${key.id}/rotate`, { method: "POST" }), expectProblem(409))
      yield* Effect.flatMap(call(`/api/v1/keys/${key.id}`, { method: "PATCH", json: { name: "new" } }), expectProblem(409))
    }))

  it.effect("expiry: the key expires on time, reports when, and works again after a later expiry is set", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const expiresAt = Date.now() + 150
      const { key, secret } = yield* create({ name: "short", endpoints: [one.id], expiresAt })
      const health = call(one.path("health"), { authorization: secret })
      const last = yield* until(health, ({ status }) => status === 401)
      expect((yield* expectProblem(401)(last)).error).toContain(`expired on ${new Date(expiresAt).toISOString()}`)
      expect((yield* Effect.flatMap(call(`/api/v1/keys/${key.id}`), expectKey)).status).toBe("EXPIRED")
      yield* Effect.flatMap(call(`/api/v1/keys/${key.id}/rotate`, { method: "POST" }), expectProblem(409))
      const patched = yield* Effect.flatMap(
        call(`/api/v1/keys/${key.id}`, { method: "PATCH", json: { expiresAt: null } }),
        expectKey
      )
      expect(patched).toMatchObject({ status: "ACTIVE" })
      expect("expiresAt" in patched).toBe(false)
      expect((yield* health).status).toBe(200)
    }))

  it.effect("patch: changes name, scopes, endpoints and limit at once, keeps omitted members, and rejects unknown members", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [one, two] = [yield* endpoint(), yield* endpoint()]
      const { key, secret } = yield* create({ name: "before", endpoints: [one.id], rateLimit: { limit: 5, perMs: 1_000 } })
      const patch = (json: unknown) => call(`/api/v1/keys/${key.id}`, { method: "PATCH", json })
      expect(yield* Effect.flatMap(patch({ name: "after" }), expectKey)).toEqual({ ...key, name: "after" })
      expect(yield* Effect.flatMap(patch({ endpoints: [two.id], rateLimit: null }), expectKey)).toMatchObject({
        endpoints: [two.id]
      })
      expect((yield* call(one.path("health"), { authorization: secret })).status).toBe(403)
      expect((yield* call(two.path("health"), { authorization: secret })).status).toBe(200)
      const problem = yield* Effect.flatMap(patch({ scope: ["admin"] }), expectProblem(400))
      expect(problem.errors?.[0]?.path).toEqual(["scope"])
      yield* Effect.flatMap(patch({ scopes: ["worker"] }), expectKey)
      expect((yield* call(two.path("health"), { authorization: secret })).status).toBe(403)
      const admin = yield* Effect.flatMap(patch({ scopes: ["admin"] }), expectKey)
      expect([admin.scopes, admin.endpoints]).toEqual([["admin"], "all"])
      expect((yield* call("/api/v1/endpoints", { authorization: secret })).status).toBe(200)
      // Removing the scope requires a list of endpoints.
      const open = yield* Effect.flatMap(patch({ scopes: ["jobs"] }), expectProblem(400))
      expect(open.errors?.[0]?.path).toEqual(["endpoints"])
      const back = yield* Effect.flatMap(patch({ scopes: ["jobs"], endpoints: [two.id] }), expectKey)
      expect([back.scopes, back.endpoints]).toEqual([["jobs"], [two.id]])
      expect((yield* call("/api/v1/endpoints", { authorization: secret })).status).toBe(403)
      yield* Effect.flatMap(patch({ endpoints: ["no-such-endpoint"] }), expectProblem(404))
    }))
}

const telling = (it: ServerIt) => {
  it.effect("a 401 states how to send a key, where a misplaced key was found, and which platform responded", () =>
    Effect.gen(function*() {
      const { baseUrl, call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const none = yield* call(one.path("health"), { authorization: null })
      expect(none.headers.get("www-authenticate")).toBe("Bearer realm=\"stint\"")
      expect((yield* expectProblem(401)(none)).hint).toContain(baseUrl)
      const hintOf = (path: string, headers: Readonly<Record<string, string>>, authorization: string | null = null) =>
        Effect.flatMap(call(path, { authorization, headers }), expectProblem(401)).pipe(Effect.map(({ hint }) => hint))
      expect(yield* hintOf(one.path("health"), { "x-api-key": ADMIN_KEY })).toContain("`x-api-key`")
      expect(yield* hintOf(one.path(`health?api_key=${ADMIN_KEY}`), {})).toContain("URLs end up in logs")
      expect(yield* hintOf(one.path("health"), {}, `Basic ${ADMIN_KEY}`)).toContain("`Basic`")
      const unknown = yield* hintOf(one.path("health"), {}, "rpa_a-key-of-another-platform")
      expect(unknown).toContain(`This is ${baseUrl}; keys of other platforms do not work here.`)
      for (const hint of [unknown]) expect(hint).not.toContain("rpa_")
    }))

  it.effect("a 403 names the platform, and neither errors nor log lines ever contain a secret", () =>
    Effect.gen(function*() {
      const { baseUrl, call, endpoint, logs } = yield* ServerTest
      const [one, other] = [yield* endpoint(), yield* endpoint()]
      const { key, secret } = yield* create({ endpoints: [one.id] })
      const answers = [
        yield* call(other.path("health"), { authorization: secret }),
        yield* call("/api/v1/keys", { authorization: secret }),
        yield* call(one.path(`health?key=${secret}`), { authorization: null }),
        yield* Effect.andThen(
          call(`/api/v1/keys/${key.id}/revoke`, { method: "POST" }),
          call(one.path("health"), { authorization: secret })
        )
      ]
      expect(answers.map(({ status }) => status)).toEqual([403, 403, 401, 401])
      for (const { headers, text } of answers) {
        expect(text).toContain(baseUrl)
        expect(text + JSON.stringify([...headers])).not.toContain(secret)
      }
      expect((yield* logs).join("\n")).not.toContain(secret)
    }))

  it.effect("a key reports when it was last used", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const { key, secret } = yield* create({ endpoints: [one.id] })
      expect("lastUsedAt" in key).toBe(false)
      const before = Date.now()
      yield* call(one.path("health"), { authorization: secret })
      const used = yield* until(
        Effect.flatMap(call(`/api/v1/keys/${key.id}`), expectKey),
        ({ lastUsedAt }) => lastUsedAt !== undefined
      )
      expect(used.lastUsedAt).toBeGreaterThanOrEqual(before)
    }))
}

/** Registers the tests for access keys. */
export const keys = (it: ServerIt): void => {
  making(it)
  opening(it)
  issuing(it)
  ending(it)
  telling(it)
}
