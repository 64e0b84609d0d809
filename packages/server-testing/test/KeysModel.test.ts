/**
 * Compares random key histories with a model that predicts the response to every request. Runs the whole server without its socket. The
 * control API creates, rotates, revokes and changes keys, time passes, and after every step each secret that ever existed is tried on each
 * API.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as CodeArtifacts from "@stint/pool/CodeArtifacts"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as BulkJobs from "@stint/queue/BulkJobs"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as Schedules from "@stint/queue/Schedules"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Releases from "@stint/releases/Releases"
import * as AccessKeys from "@stint/server/AccessKeys"
import * as Limits from "@stint/server/Limits"
import { PublicAddress } from "@stint/server/PublicAddress"
import * as Server from "@stint/server/Server"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpRouter } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as fc from "fast-check"
import { expect, it, vi } from "vitest"
import { layerMemory } from "../src/ServerTest.ts"

const BASE = "http://platform.test"
const ADMIN = "the-admin-key-of-this-model"
const ENDPOINTS = ["a", "b"] as const
const START = 1_790_000_000_000

/** A clock that the test sets. It has no timers. */
const clockAt = (now: () => number): Clock.Clock => ({
  currentTimeMillisUnsafe: now,
  currentTimeMillis: Effect.sync(now),
  currentTimeNanosUnsafe: () => BigInt(now()) * 1_000_000n,
  currentTimeNanos: Effect.sync(() => BigInt(now()) * 1_000_000n),
  monotonicTimeNanosUnsafe: () => BigInt(now()) * 1_000_000n,
  monotonicTimeNanos: Effect.sync(() => BigInt(now()) * 1_000_000n),
  sleep: () => Effect.void
})

interface ModelSecret {
  readonly secret: string
  /** Undefined for the current secret. */
  until: number | undefined
}

interface ModelKey {
  readonly id: string
  scopes: ReadonlyArray<string>
  endpoints: "all" | ReadonlyArray<string>
  expiresAt: number | undefined
  revoked: boolean
  readonly secrets: Array<ModelSecret>
}

interface Answer {
  readonly status: number
  readonly text: string
  readonly body: unknown
}

class World {
  now = START
  readonly keys: Array<ModelKey> = []
  readonly #handler = HttpRouter.toWebHandler(
    Server.layerRoutes.pipe(
      Layer.provide(AccessKeys.layer(AccessKeys.secretsOf(Redacted.make(ADMIN)))),
      Layer.provide(Releases.layer.pipe(Layer.provide(CodeArtifacts.layerNone))),
      Layer.provide([BatchQueue.layer, BulkJobs.layer, RunQueue.layer, Schedules.layer]),
      Layer.provide(JobQueue.layer),
      Layer.provide(JobLogs.layer),
      Layer.provide([layerMemory, WorkerRegistry.layer]),
      Layer.provide(Layer.succeed(PublicAddress, { baseUrl: BASE })),
      // The model presents many wrong keys.
      Layer.provide(Layer.succeed(Limits.Limits, { ...Limits.defaults, authFailures: 1_000_000 })),
      Layer.provideMerge(NodeHttpServer.layerHttpServices),
      Layer.provideMerge(Layer.succeed(Clock.Clock, clockAt(() => this.now)))
    ),
    { disableLogger: true }
  )

  async call(method: string, path: string, key: string, body?: unknown): Promise<Answer> {
    const response = await this.#handler.handler(
      new Request(BASE + path, {
        method,
        headers: { authorization: `Bearer ${key}` },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
    )
    const text = await response.text()
    return { status: response.status, text, body: text === "" ? undefined : JSON.parse(text) }
  }

  /** The expected response to a key on an API: 200, 401 or 403, and for 401 the text that it must contain. */
  expected(key: ModelKey, { until }: ModelSecret, surface: "jobs" | "worker" | "control" | "keys", endpoint: string) {
    if (key.revoked) return { status: 401, word: "revoked" }
    if (key.expiresAt !== undefined && key.expiresAt <= this.now) return { status: 401, word: "expired" }
    if (until !== undefined && until <= this.now) return { status: 401, word: "secret" }
    const isAdmin = key.scopes.includes("admin")
    if (surface === "keys") return { status: isAdmin ? 200 : 403, ...(isAdmin ? {} : { word: "\"admin\"" }) }
    if (surface === "control") return { status: isAdmin || key.scopes.includes("deploy") ? 200 : 403 }
    if (surface === "jobs" && isAdmin) return { status: 200 }
    if (!key.scopes.includes(surface)) return { status: 403, word: `"${surface}"` }
    return { status: key.endpoints === "all" || key.endpoints.includes(endpoint) ? 200 : 403 }
  }

  /** Tries all secrets that ever existed on every API. */
  async check(): Promise<void> {
    for (const key of this.keys) {
      for (const secret of key.secrets) {
        const tries = [
          ...ENDPOINTS.map((endpoint) => ["jobs", endpoint, `/v2/${endpoint}/health`] as const),
          ...ENDPOINTS.map((endpoint) => ["worker", endpoint, `/v2/${endpoint}/ping/w`] as const),
          ["control", "", "/api/v1/endpoints"] as const,
          ["keys", "", "/api/v1/keys/none"] as const
        ]
        for (const [surface, endpoint, path] of tries) {
          const answer = await this.call("GET", path, secret.secret)
          const { status, word } = this.expected(key, secret, surface, endpoint)
          expect(answer.status, `${path}: ${answer.text}`).toBe(status === 200 && surface === "keys" ? 404 : status)
          // An unknown worker key gets a less specific error: the key may be meant for another API.
          if (word !== undefined) expect(answer.text).toContain(JSON.stringify(word).slice(1, -1))
          for (const one of key.secrets) expect(answer.text).not.toContain(one.secret)
        }
        const almost = secret.secret.slice(0, -1) + (secret.secret.endsWith("A") ? "B" : "A")
        const foreign = await this.call("GET", "/v2/a/health", almost)
        expect(foreign.status).toBe(401)
        expect(foreign.text).not.toContain(key.id)
      }
    }
  }

  static async open(): Promise<World> {
    const world = new World()
    for (const id of ENDPOINTS) {
      const { status } = await world.call("POST", "/api/v1/endpoints", ADMIN, { id, source: { type: "external" } })
      expect(status).toBe(201)
    }
    return world
  }

  close(): Promise<void> {
    return this.#handler.dispose()
  }
}

type Step = (world: World) => Promise<void>

const isForEveryEndpoint = (scopes: ReadonlyArray<string>): boolean => scopes.includes("admin") || scopes.includes("deploy")

const keyAt = (world: World, index: number): ModelKey | undefined => world.keys[index % Math.max(1, world.keys.length)]

const isEnded = (world: World, key: ModelKey) => key.revoked || (key.expiresAt !== undefined && key.expiresAt <= world.now)

const secretOf = (answer: Answer): { readonly id: string; readonly secret: string } => {
  const body = answer.body as { readonly key: { readonly id: string }; readonly secret: string }
  return { id: body.key.id, secret: body.secret }
}

const endpoints = fc.oneof(
  fc.constant("all" as const),
  fc.subarray([...ENDPOINTS], { minLength: 1 })
)
const hours = fc.integer({ min: 1, max: 48 }).map((h) => h * 3_600_000)

const create: fc.Arbitrary<Step> = fc.record({
  scopes: fc.subarray(["jobs", "worker", "deploy", "admin"], { minLength: 1 }),
  endpoints,
  life: fc.option(hours, { nil: undefined })
}).map(({ endpoints, life, scopes }) => async (world) => {
  if (world.keys.length >= 3) return
  const isForAll = isForEveryEndpoint(scopes)
  const expiresAt = life === undefined ? undefined : world.now + life
  const answer = await world.call("POST", "/api/v1/keys", ADMIN, {
    name: "k",
    scopes,
    ...(isForAll ? {} : { endpoints }),
    ...(expiresAt === undefined ? {} : { expiresAt })
  })
  expect(answer.status, answer.text).toBe(201)
  const { id, secret } = secretOf(answer)
  world.keys.push({
    id,
    scopes,
    endpoints: isForAll ? "all" : endpoints,
    expiresAt,
    revoked: false,
    secrets: [{ secret, until: undefined }]
  })
})

const rotate: fc.Arbitrary<Step> = fc.tuple(fc.nat(), fc.option(fc.oneof(fc.constant(0), hours), { nil: undefined })).map(
  ([index, graceMs]) => async (world) => {
    const key = keyAt(world, index)
    if (key === undefined) return
    const answer = await world.call(
      "POST",
      `/api/v1/keys/${key.id}/rotate`,
      ADMIN,
      graceMs === undefined ? undefined : { graceMs }
    )
    expect(answer.status, answer.text).toBe(isEnded(world, key) ? 409 : 200)
    if (answer.status !== 200) return
    const end = world.now + (graceMs ?? 86_400_000)
    for (const secret of key.secrets) secret.until = Math.min(secret.until ?? Infinity, end)
    // The last three expired secrets are still known; older secrets are unknown.
    const ended = key.secrets.filter(({ until }) => until !== undefined && until <= world.now)
    for (const old of ended.slice(0, -3)) key.secrets.splice(key.secrets.indexOf(old), 1)
    key.secrets.push({ secret: secretOf(answer).secret, until: undefined })
  }
)

const revoke: fc.Arbitrary<Step> = fc.nat().map((index) => async (world) => {
  const key = keyAt(world, index)
  if (key === undefined) return
  expect((await world.call("POST", `/api/v1/keys/${key.id}/revoke`, ADMIN)).status).toBe(200)
  key.revoked = true
})

const patch: fc.Arbitrary<Step> = fc.record({
  index: fc.nat(),
  scopes: fc.option(fc.subarray(["jobs", "worker", "deploy", "admin"], { minLength: 1 }), { nil: undefined }),
  endpoints: fc.option(endpoints, { nil: undefined }),
  life: fc.option(fc.oneof(fc.constant(null), hours), { nil: undefined })
}).map(({ endpoints, index, life, scopes }) => async (world) => {
  const key = keyAt(world, index)
  if (key === undefined) return
  const wasForAll = isForEveryEndpoint(key.scopes)
  const isForAll = isForEveryEndpoint(scopes ?? key.scopes)
  const isRefused = isForAll ? endpoints !== undefined && endpoints !== "all" : wasForAll && endpoints === undefined
  const expiresAt = typeof life === "number" ? world.now + life : life
  const answer = await world.call("PATCH", `/api/v1/keys/${key.id}`, ADMIN, {
    ...(scopes === undefined ? {} : { scopes }),
    ...(endpoints === undefined ? {} : { endpoints }),
    ...(expiresAt === undefined ? {} : { expiresAt })
  })
  expect(answer.status, answer.text).toBe(key.revoked ? 409 : isRefused ? 400 : 200)
  if (answer.status !== 200) return
  if (scopes !== undefined) key.scopes = scopes
  if (isForAll) key.endpoints = "all"
  else if (endpoints !== undefined) key.endpoints = endpoints
  if (expiresAt !== undefined) key.expiresAt = expiresAt ?? undefined
})

const wait: fc.Arbitrary<Step> = fc.oneof(fc.integer({ min: 0, max: 60_000 }), hours).map((millis) => (world) => {
  world.now += millis
  return Promise.resolve()
})

const RUNS = Number(process.env["STINT_PROPERTY_RUNS"] ?? 150)

it(
  "accepts or rejects every request according to the scopes, endpoints, expiry, rotations and revocation of its key",
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof({ arbitrary: create, weight: 2 }, { arbitrary: rotate, weight: 2 }, revoke, patch, {
            arbitrary: wait,
            weight: 2
          }),
          {
            minLength: 4,
            maxLength: 24
          }
        ),
        async (steps) => {
          const world = await World.open()
          try {
            for (const step of steps) {
              await step(world)
              await world.check()
            }
          } finally {
            await world.close()
          }
        }
      ),
      { numRuns: RUNS }
    )
  },
  120_000
)

const DAY = 86_400_000

const makeKey = async (world: World, settings: object = {}) =>
  secretOf(await world.call("POST", "/api/v1/keys", ADMIN, { name: "k", endpoints: ["a"], ...settings }))

it("remembers an expired key for 30 days and deletes it when another key is created after that", async () => {
  const world = await World.open()
  const [revoked, expired, alive] = [await makeKey(world), await makeKey(world, { expiresAt: START + 1 }), await makeKey(world)]
  await world.call("POST", `/api/v1/keys/${revoked.id}/revoke`, ADMIN)
  const statuses = async () => {
    await makeKey(world)
    const answers = [revoked, expired, alive].map(({ id }) => world.call("GET", `/api/v1/keys/${id}`, ADMIN))
    return (await Promise.all(answers)).map(({ status }) => status)
  }
  world.now = START + 30 * DAY
  expect(await statuses()).toEqual([200, 200, 200])
  expect((await world.call("GET", "/v2/a/health", revoked.secret)).text).toContain("was revoked")
  world.now += 2
  expect(await statuses()).toEqual([404, 404, 200])
  expect((await world.call("GET", "/v2/a/health", revoked.secret)).text).toContain("does not know this key")
  await world.close()
})

it("records the last use of a key at most once a minute, and never records a rejected use", async () => {
  const world = await World.open()
  const { id, secret } = await makeKey(world)
  const lastUsed = async () => {
    const { body } = await world.call("GET", `/api/v1/keys/${id}`, ADMIN)
    return (body as { readonly lastUsedAt?: number }).lastUsedAt
  }
  await world.call("GET", "/v2/a/health", `${secret.slice(0, -1)}!`)
  expect(await lastUsed()).toBeUndefined()
  // A use is recorded after the response has been sent. If one were recorded too early, the next one would be skipped.
  for (const [at, noted] of [[0, 0], [59_999, 0], [60_000, 60_000], [100_000, 60_000], [120_000, 120_000]] as const) {
    world.now = START + at
    await world.call("GET", "/v2/a/health", secret)
    await vi.waitFor(async () => expect(await lastUsed()).toBe(START + noted))
  }
  await world.close()
})
