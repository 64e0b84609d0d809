/**
 * The platform of the authorization matrix: two endpoints with jobs, errors, batches and bulk operations, a deleted endpoint, keys of every
 * kind, and console sessions.
 */
import { isForEveryEndpoint, KeyScope, NewKey } from "@stint/contract/AccessKey"
import { BatchReceipt } from "@stint/contract/Batch"
import { BulkOperation } from "@stint/contract/Bulk"
import { ErrorGroupList } from "@stint/contract/ErrorGroup"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { randomBytes, randomUUID } from "node:crypto"
import { Agent, request } from "node:http"
import { ServerTest } from "../src/ServerTest.ts"
import { until } from "../src/TestEndpoint.ts"
import { expectJson } from "../src/WireClient.ts"
import type { Place } from "./AuthorizationRules.ts"

/** A response, or the part of a stream that was read. */
export interface Seen {
  readonly status: number
  /** The headers and the body. */
  readonly text: string
  readonly challenge: string | undefined
}

/** How long to read a stream that has no end. Milliseconds. */
const STREAM_MILLIS = 20

/** Sends requests over connections that stay open, because ten thousand requests must not take a minute. */
export const sender = (baseUrl: string) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 })
  const { hostname, port } = new URL(baseUrl)
  const send = (method: string, path: string, headers: Readonly<Record<string, string>>, body?: string) =>
    Effect.promise(() =>
      new Promise<Seen>((resolve, reject) => {
        const sent = request({
          agent,
          hostname,
          port,
          method,
          path,
          headers: body === undefined
            ? headers
            : { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) }
        }, (response) => {
          let text = ""
          const finish = () =>
            resolve({
              status: response.statusCode ?? 0,
              text: `${JSON.stringify(response.headers)}\n${text}`,
              challenge: response.headers["www-authenticate"]
            })
          response.setEncoding("utf8").on("data", (part: string) => (text += part)).on("end", finish)
          if (response.headers["content-type"]?.startsWith("text/event-stream") !== true) return
          setTimeout(() => {
            finish()
            response.destroy()
          }, STREAM_MILLIS)
        })
        sent.on("error", reject).end(body)
      })
    )
  return { send, close: () => agent.destroy() }
}

const created = expectJson(201, NewKey)

/** An endpoint with something to find in every list. */
const populated = Effect.gen(function*() {
  const { call, endpoint } = yield* ServerTest
  const id = `e-${randomUUID()}`
  const one = yield* endpoint({ id, env: { PLACE: id } })
  const worker = yield* one.worker("w")
  const tag = `tag-${randomUUID()}`
  const { id: failed } = yield* one.run({}, { tags: [tag] })
  yield* worker.next
  // Only letters: other parts of a message do not distinguish error groups.
  const word = randomBytes(12).toString("hex").replaceAll(/\d/g, (digit) => "ghijklmnop".charAt(Number(digit)))
  yield* worker.deliver(failed, { error: `no such city: ${word}` })
  const { id: job } = yield* one.run({}, { tags: [tag] })
  yield* worker.next
  yield* worker.stream(job, ["chunk"])
  yield* worker.finish(job, id)
  const { id: batch } = yield* Effect.flatMap(
    call(one.path("batch"), { json: { requests: [{ input: 1 }], name: tag } }),
    expectJson(200, BatchReceipt)
  )
  const { id: bulk } = yield* Effect.flatMap(
    call("/api/v1/bulk", { json: { action: "retry", query: `endpoint:${id} tag:${tag}`, holdMs: 60_000 } }),
    expectJson(201, BulkOperation)
  )
  yield* call(`/api/v1/endpoints/${id}/schedules/${tag}`, {
    method: "PUT",
    json: { cron: "0 3 * * *", input: 1 }
  })
  const { groups: [group] } = yield* Effect.flatMap(call(`/api/v1/errors?endpoint=${id}`), expectJson(200, ErrorGroupList))
  return { id, tag, job, batch, bulk, worker, fingerprint: group?.fingerprint ?? "none", endpoint: one }
})

export type Populated = Effect.Success<typeof populated>

export const REVOKED_SESSION = "a session of a revoked key"

/** A key of the matrix. */
export interface MatrixKey {
  readonly name: string
  readonly scopes: ReadonlyArray<KeyScope>
  readonly isLimited: boolean
  readonly headers: Readonly<Record<string, string>>
}

const PARTS = ["jobs:submit", "jobs:read", "jobs:manage"] as const

/** The sets of scopes: each scope alone, and combinations whose parts could wrongly add up to another scope. */
const SCOPE_SETS: ReadonlyArray<ReadonlyArray<KeyScope>> = [
  ...KeyScope.literals.map((scope) => [scope]),
  ...PARTS.map((left) => PARTS.filter((part) => part !== left)),
  PARTS,
  ["worker", "jobs:submit"],
  ["worker", "jobs:read"],
  ["deploy", "jobs:submit"]
]

/** The sets of keys for all endpoints. */
const FOR_ALL = SCOPE_SETS.filter((scopes) => scopes.length === 1 || isForEveryEndpoint(scopes) || scopes === PARTS)

const make = Effect.gen(function*() {
  const { baseUrl, call, endpoint } = yield* ServerTest
  const [own, other, gone] = [yield* populated, yield* populated, yield* endpoint()]
  const missing = `e-${randomUUID()}`

  const newKey = Effect.fnUntraced(function*(
    scopes: ReadonlyArray<KeyScope>,
    isLimited: boolean,
    more: Readonly<Record<string, number>> = {}
  ) {
    const endpoints = isLimited ? [own.id, gone.id] : "all"
    return yield* Effect.flatMap(call("/api/v1/keys", { json: { name: "matrix", scopes, endpoints, ...more } }), created)
  })
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
  const valid = Effect.fnUntraced(function*(scopes: ReadonlyArray<KeyScope>, isLimited: boolean) {
    const { secret } = yield* newKey(scopes, isLimited)
    const key: MatrixKey = {
      name: `${scopes.join("+")} for ${isLimited ? "two endpoints" : "all"}`,
      scopes,
      isLimited,
      headers: bearer(secret)
    }
    return { ...key, secret }
  })
  const limited = yield* Effect.forEach(
    SCOPE_SETS.filter((scopes) => !isForEveryEndpoint(scopes)),
    (scopes) => valid(scopes, true)
  )
  const forAll = yield* Effect.forEach(FOR_ALL, (scopes) => valid(scopes, false))

  /** Logs a browser in with a key. */
  const login = Effect.fnUntraced(function*(secret: string) {
    const { headers } = yield* call("/api/v1/session", {
      json: { key: secret },
      authorization: null,
      headers: { origin: baseUrl }
    })
    return { cookie: headers.get("set-cookie")?.split(";", 1)[0] ?? "", origin: baseUrl }
  })
  const sessions = yield* Effect.forEach(
    [
      ...limited.filter(({ scopes }) => ["jobs", "jobs:read"].includes(scopes.join())),
      ...forAll.filter(({ scopes }) => scopes.join() === "admin")
    ],
    (key) => Effect.map(login(key.secret), (headers): MatrixKey => ({ ...key, name: `a session of ${key.name}`, headers }))
  )

  // Keys that once had every right. `admin` does not permit the worker API, so they have `worker` too.
  const rights = ["admin", "worker"] as const
  const post = { method: "POST" }
  const [revoked, rotated, ended, endedSession] = yield* Effect.all([
    newKey(rights, false),
    newKey(rights, false),
    newKey(rights, false, { expiresAt: Date.now() + 1_000 }),
    Effect.flatMap(newKey(rights, false), ({ secret }) => login(secret))
  ])
  const revokedSession = yield* login(revoked.secret)
  yield* call(`/api/v1/keys/${revoked.key.id}/revoke`, post)
  yield* call(`/api/v1/keys/${rotated.key.id}/rotate`, { json: { graceMs: 0 } })
  yield* call("/api/v1/session", { method: "DELETE", authorization: null, headers: endedSession })
  yield* until(call("/api/v1/keys", { authorization: ended.secret }), ({ status }) => status === 401)
  const [anyKey = revoked] = forAll
  const dead: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    "no key": {},
    "an empty key": { authorization: "Bearer " },
    "a malformed key": { authorization: "Bearer not-a-key" },
    "another scheme": { authorization: `Basic ${anyKey.secret}` },
    "a key of an unknown id": bearer(`stint_0123456789abcdef_${randomBytes(32).toString("base64url")}`),
    "a wrong secret of a known id": bearer(`${anyKey.secret.slice(0, -43)}${randomBytes(32).toString("base64url")}`),
    "a key in another header": { "x-api-key": anyKey.secret },
    "a revoked key": bearer(revoked.secret),
    "an expired key": bearer(ended.secret),
    "a rotated key": bearer(rotated.secret),
    "an unknown session": { cookie: endedSession.cookie.replace(/=.*/, `=${"a".repeat(43)}`), origin: baseUrl },
    "an ended session": endedSession,
    // Its first request ends the session, so its second request has no key.
    [REVOKED_SESSION]: revokedSession
  }

  yield* call(`/api/v1/endpoints/${gone.id}`, { method: "DELETE" })

  const endpoints: { readonly [place in Place]: string } = { own: own.id, other: other.id, gone: gone.id, missing }
  return { baseUrl, own, other, endpoints, limited, forAll, sessions, dead }
})

export type World = Effect.Success<typeof make>

/** The platform that all tests of the matrix share. */
export class MatrixWorld extends Context.Service<MatrixWorld, World>()("@stint/server-testing/MatrixWorld") {}

export const layer = Layer.effect(MatrixWorld, make)
