/**
 * Calls every operation of the OpenAPI document with keys of every scope, limit and state, for endpoints that the key permits, that it does
 * not permit, and that do not exist. The expectations come from the contract (Permission.ts), which the guards use too.
 * docs/reference/authorization.md is a copy of them, so that every change to a scope is visible.
 */
import { assert, describe, expect, it, layer } from "@effect/vitest"
import { WorkerEnv } from "@stint/contract/ControlApi"
import { GUARD_SCOPES } from "@stint/contract/Permission"
import { AuthGuards } from "@stint/server/AuthGuards"
import * as Pages from "@stint/server/Pages"
import { reportChaos } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerRespondable, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { tmpdir } from "node:os"
import { layer as layerServer, ServerTest } from "../src/ServerTest.ts"
import { expectJson } from "../src/WireClient.ts"
import { pageOf } from "./AuthorizationPage.ts"
import {
  addressesEndpoint,
  DESTRUCTIVE,
  FAST,
  NAMED,
  OPEN,
  type Place,
  PLACES,
  type Rule,
  RULES,
  UNNAMED,
  wantedFor
} from "./AuthorizationRules.ts"
import {
  layer as layerWorld,
  type MatrixKey,
  MatrixWorld,
  type Populated,
  REVOKED_SESSION,
  type Seen,
  sender,
  type World
} from "./AuthorizationWorld.ts"
import { OPERATIONS } from "./OpenApiResponses.ts"

/** The maximum number of requests in flight. */
const CONCURRENCY = 24

/** The maximum number of wrong responses that a failed test shows. */
const SHOWN = 20

/** The timeout of the matrix, which takes a few seconds, and longer on a busy machine. */
const BUSY_MILLIS = 120_000

/** The route of a page that summarizes all endpoints, like `/metrics`. */
const SUMMARY = "/summary"
const layerSummary = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const guards = yield* AuthGuards
  yield* router.add(
    "GET",
    SUMMARY,
    (request) =>
      guards.reader(
        Effect.succeed(HttpServerResponse.text("all")),
        Redacted.make(request.headers["authorization"] ?? ""),
        "summary"
      ).pipe(
        Effect.catch(HttpServerRespondable.toResponse)
      )
  )
}))

const layerTest = layerServer({
  limits: { workerWaitMs: 1, refusalWaitMs: 0, headWaitMs: 1, minWaitMs: 1, syncWaitMs: 20, streamWaitMs: 1, heartbeatMs: 5 },
  routes: layerSummary
}).pipe((server) => Layer.provideMerge(layerWorld, server), Layer.provide(Layer.succeed(Pages.ConsoleFolder, tmpdir())))

/** A request for an operation on one endpoint. `ids`: the jobs and batches that it names. */
const requestOf = ({ id, method, template }: Rule, world: World, place: Place, ids: Populated) => {
  const endpoint = world.endpoints[place]
  const values: Readonly<Record<string, string>> = {
    endpoint,
    id: template.includes("/batch/") ? ids.batch : ids.job,
    bulk: ids.bulk,
    fingerprint: ids.fingerprint,
    worker: "w",
    schedule: "none",
    route: "models",
    hash: "a".repeat(64)
  }
  const named = NAMED[id]
  const path = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "1") + (named?.query?.(endpoint) ?? "")
  // A body that is not JSON: an admitted request changes nothing.
  const body = named?.body?.(endpoint) ?? (method === "POST" || method === "PUT" || method === "PATCH" ? "{" : undefined)
  return { method, path, body }
}

/** The same request in a URL that the fast path leaves to the router. */
const encoded = (path: string) => path.replace("/v2/e-", "/v2/%65-")

interface Case {
  readonly name: string
  readonly rule: Rule
  readonly place: Place
  readonly path: string
  readonly body: string | undefined
  readonly headers: Readonly<Record<string, string>>
  /** Undefined when the key is not valid. */
  readonly key: MatrixKey | undefined
}

/**
 * Whether the response for this place can differ from the other places. To a key for all endpoints, every existing endpoint is alike, and
 * without the scope a deleted endpoint is like one that never existed.
 */
const isDistinct = ({ permission }: Rule, { isLimited, scopes }: MatrixKey, place: Place): boolean => {
  if (!isLimited) return place === "own" || place === "missing"
  return place !== "gone" || permission?.scopes.some((scope) => scopes.includes(scope)) === true
}

const placesOf = (rule: Rule): ReadonlyArray<Place> => addressesEndpoint(rule) ? PLACES : ["own"]

const casesOf = (
  rule: Rule,
  world: World,
  place: Place,
  who: Pick<Case, "headers" | "key">,
  name: string
): ReadonlyArray<Case> => {
  const isAllowed = who.key !== undefined && wantedFor(rule, who.key.scopes, who.key.isLimited, place) === "allowed"
  if (isAllowed && DESTRUCTIVE.has(rule.id) && place !== "missing") return []
  const { body, path } = requestOf(rule, world, place, world.own)
  const isUnnamed = NAMED[rule.id]?.query !== undefined && place === "own"
  const paths = [path, ...(FAST.has(rule.id) ? [encoded(path)] : []), ...(isUnnamed ? [rule.template] : [])]
  return paths.map((one) => ({ name: `${rule.id} at ${place} (${one}) with ${name}`, rule, place, path: one, body, ...who }))
}

/** What a response must not contain, because the key does not permit the endpoint. */
const secretsOf = ({ other }: World, isNamed: boolean): ReadonlyArray<string> =>
  isNamed ? [other.tag] : [other.id, other.tag, other.job]

/** A response without the parts that may differ between two endpoints that a caller must not be able to distinguish. */
const anonymous = ({ endpoints }: World, { text }: Seen): string =>
  Object.values(endpoints).reduce((all, id) => all.replaceAll(id, "ENDPOINT"), text)
    .replaceAll(/"(?:date|content-length|x-request-id)":"[^"]*"|"to":\d+/g, "")

/** Sends all cases. Returns the responses, and what is wrong with them. */
const sendAll = Effect.fnUntraced(function*(
  world: World,
  cases: ReadonlyArray<Case>,
  check: (one: Case, seen: Seen) => string | undefined
) {
  const wrong: Array<string> = []
  const answers = new Map<string, Seen>()
  const { close, send } = sender(world.baseUrl)
  yield* Effect.forEach(cases, (one) =>
    Effect.map(send(one.rule.method, one.path, one.headers, one.body), (seen) => {
      answers.set(one.name, seen)
      const problem = check(one, seen)
      if (problem !== undefined) wrong.push(`${one.name}: ${problem}, but got ${seen.status} ${seen.text.slice(-300)}`)
    }), { concurrency: CONCURRENCY, discard: true })
  close()
  return { answers, wrong }
})

/** Compares each case whose endpoint exists with the case whose endpoint does not. Both must have the same response. */
const tellApart = (
  world: World,
  answers: ReadonlyMap<string, Seen>,
  cases: ReadonlyArray<Case>,
  exists: Place
): ReadonlyArray<string> =>
  cases.flatMap(({ name, path, place }) => {
    const missing = answers.get(
      name.replace(` at ${exists} `, " at missing ").replace(world.endpoints[exists], world.endpoints.missing)
    )
    const seen = answers.get(name)
    if (place !== exists || seen === undefined) return []
    if (missing === undefined) return path.includes(world.endpoints[exists]) ? [`${name}: no case to compare with`] : []
    return anonymous(world, seen) === anonymous(world, missing) ? [] : [`${name}: ${seen.text} differs from ${missing.text}`]
  })

/** What is wrong with the response to a valid key. */
const problemOf = (world: World, { body = "", key, path, place, rule }: Case, { status, text }: Seen): string | undefined => {
  if (key === undefined || rule.permission === undefined) return undefined
  const wanted = wantedFor(rule, key.scopes, key.isLimited, place)
  if (wanted === "refused" && status !== 403) return "expected 403"
  if (wanted === "allowed" && (status === 401 || status === 403)) return "expected to be admitted"
  if (status === 500) return "expected no failure"
  if (!key.isLimited) return undefined
  const leaked = secretsOf(world, decodeURIComponent(path + body).includes(world.other.id)).filter((secret) =>
    text.includes(secret)
  )
  return leaked.length > 0 ? `expected nothing of another endpoint, ${leaked.join()},` : undefined
}

describe("the rules of the matrix", () => {
  it("cover every operation: each declares its guard, and only operations with a stated reason need no key", () => {
    expect(RULES.length).toBeGreaterThan(100)
    expect(RULES.filter(({ permission }) => permission === undefined).map(({ id }) => id).toSorted()).toEqual(
      Object.keys(OPEN).toSorted()
    )
  })

  it("name every operation that takes an endpoint outside its path", () => {
    const candidates = RULES.filter(({ method, permission, template }) => {
      if (template.includes("{endpoint}") || permission === undefined) return false
      if (permission.guard === "operator" || permission.guard === "owner") return false
      const parameters = OPERATIONS.find((one) => one.method === method && one.template === template)?.operation.parameters ?? []
      return method !== "GET" || parameters.some(({ name }) => name === "endpoint" || name === "query")
    })
    expect(candidates.map(({ id }) => id).toSorted()).toEqual([...Object.keys(NAMED), ...UNNAMED].toSorted())
  })

  it("are published in docs/reference/authorization.md", async () => {
    await expect(pageOf(RULES)).toMatchFileSnapshot("../../../docs/reference/authorization.md")
  })
})

layer(layerTest, { excludeTestServices: true, timeout: BUSY_MILLIS })("the authorization matrix", (it) => {
  it.effect(
    "admits every key to what its scopes and endpoints permit and refuses the rest, and no response to a limited key shows another endpoint",
    (context) =>
      Effect.gen(function*() {
        const world = yield* MatrixWorld
        for (const one of [world.own, world.other]) {
          yield* one.worker.serve(({ id }) => Effect.succeed({ output: id }))
        }
        const keys = [...world.limited, ...world.forAll, ...world.sessions]
        const cases = RULES.flatMap((rule) =>
          keys.flatMap((key) =>
            placesOf(rule).filter((place) => isDistinct(rule, key, place)).flatMap((place) =>
              casesOf(rule, world, place, { key, headers: key.headers }, key.name)
            )
          )
        )
        // Worker operations come last: a take would get the job that a request on the OpenAI route waits for.
        const isOfWorker = ({ rule }: Case) => rule.permission?.guard === "worker"
        const { answers, wrong } = yield* sendAll(
          world,
          [...cases.filter((one) => !isOfWorker(one)), ...cases.filter(isOfWorker)],
          (one, seen) => problemOf(world, one, seen)
        )
        expect(wrong.slice(0, SHOWN)).toEqual([])
        expect(tellApart(world, answers, cases.filter(({ key }) => key?.isLimited === true), "other").slice(0, SHOWN)).toEqual([])
        // The lists do contain other endpoints, for keys that permit them.
        const shown = cases.filter(({ key, name, path, rule }) => {
          const { status, text } = answers.get(name) ?? assert.fail(name)
          return key?.isLimited === false && key.scopes.includes("admin") && path === rule.template && status === 200 &&
            (rule.permission?.guard === "viewer" || rule.permission?.guard === "manager") && text.includes(world.other.id)
        })
        expect(new Set(shown.map(({ rule }) => rule.id))).toEqual(
          new Set(["bulk.searchJobs", "bulk.listBulk", "errors.listErrors", "overview.overview", "usage.getUsage"])
        )
        reportChaos(context, { cases: cases.length })
        process.stdout.write(`authorization matrix: ${cases.length} cases of valid keys on ${RULES.length} operations\n`)
      }).pipe(Effect.scoped),
    BUSY_MILLIS
  )

  it.effect("returns 401 from every operation for a key that is missing, unknown, malformed, expired, rotated or revoked, the same whether or not the endpoint exists", (context) =>
    Effect.gen(function*() {
      const world = yield* MatrixWorld
      const cases = RULES.flatMap((rule) =>
        Object.entries(world.dead).flatMap(([name, headers]) =>
          (addressesEndpoint(rule) ? ["own", "missing"] as const : ["own"] as const).flatMap((place) =>
            casesOf(rule, world, place, { key: undefined, headers }, name)
          )
        )
      )
      const { answers, wrong } = yield* sendAll(world, cases, ({ rule }, { challenge, status }) => {
        if (rule.permission === undefined) return undefined
        return status === 401 && challenge === "Bearer realm=\"stint\"" ? undefined : "expected 401 and a challenge"
      })
      expect(wrong.slice(0, SHOWN)).toEqual([])
      expect(tellApart(world, answers, cases.filter(({ name }) => !name.endsWith(REVOKED_SESSION)), "own").slice(0, SHOWN))
        .toEqual([])
      reportChaos(context, { cases: cases.length })
      process.stdout.write(`authorization matrix: ${cases.length} cases of keys that are not valid\n`)
    }))

  it.effect("admits a derived worker key to the worker API of its endpoint or worker, and to nothing else", (context) =>
    Effect.gen(function*() {
      const world = yield* MatrixWorld
      const env = (id: string) => `/api/v1/endpoints/${world.own.id}/worker-env?worker=${id}`
      const { call } = yield* ServerTest
      const keyOf = (id: string) =>
        Effect.map(
          Effect.flatMap(call(env(id)), expectJson(200, WorkerEnv)),
          ({ variables }) => variables["RUNPOD_AI_API_KEY"] ?? ""
        )
      const keys = {
        endpoint: world.own.worker.key,
        worker: yield* keyOf("w"),
        neighbour: yield* keyOf("w2"),
        foreign: world.other.worker.key
      }
      expect(new Set(Object.values(keys)).size).toBe(4)
      const cases = RULES.filter(({ permission }) => permission !== undefined).flatMap((rule) =>
        Object.entries(keys).flatMap(([name, authorization]) =>
          placesOf(rule).flatMap((place) => casesOf(rule, world, place, { key: undefined, headers: { authorization } }, name))
        )
      )
      const { wrong } = yield* sendAll(world, cases, ({ headers, place, rule }, { status }) => {
        const isOwn = rule.permission?.guard === "worker" && (
          place === "own" && (headers["authorization"] === keys.endpoint || headers["authorization"] === keys.worker) ||
          place === "other" && headers["authorization"] === keys.foreign
        )
        if (!isOwn) return status === 403 ? undefined : "expected 403"
        return status === 401 || status === 403 ? "expected to be admitted" : undefined
      })
      expect(wrong.slice(0, SHOWN)).toEqual([])
      reportChaos(context, { cases: cases.length })
      process.stdout.write(`authorization matrix: ${cases.length} cases of derived worker keys\n`)
    }))

  it.effect("reveals nothing about another endpoint by the ids of its jobs, batches, error groups and bulk operations", () =>
    Effect.gen(function*() {
      const world = yield* MatrixWorld
      const key = world.limited.find(({ scopes }) => scopes.join() === "jobs") ?? assert.fail("no key")
      const { close, send } = sender(world.baseUrl)
      const rules = RULES.filter(({ permission, template }) =>
        permission !== undefined && permission.scopes.includes("jobs") && /\{(id|bulk|fingerprint)\}/.test(template)
      )
      expect(rules.length).toBeGreaterThan(20)
      for (const rule of rules) {
        const request = (ids: Populated) => {
          const { body, method, path } = requestOf(rule, world, "own", ids)
          return send(method, path, key.headers, body)
        }
        const { status, text } = yield* request(world.other)
        // The server may reject the request for its body, which is not JSON, first.
        expect([400, 404], `${rule.id}: ${text}`).toContain(status)
        for (const secret of [world.other.id, world.other.tag]) expect(text, rule.id).not.toContain(secret)
      }
      close()
    }))

  it.effect("guards the routes that are not in the document", () =>
    Effect.gen(function*() {
      const world = yield* MatrixWorld
      const { close, send } = sender(world.baseUrl)
      const sees = ({ scopes }: MatrixKey) => scopes.some((scope) => GUARD_SCOPES.viewer.includes(scope))
      for (const key of [...world.limited, ...world.forAll]) {
        const statusOf = (method: string, path: string, body?: string) =>
          Effect.map(send(method, path, { ...key.headers, origin: world.baseUrl }, body), ({ status }) => status)
        expect(yield* statusOf("GET", "/api/v1/session"), key.name).toBe(sees(key) ? 200 : 403)
        expect(yield* statusOf("POST", "/api/v1/session", JSON.stringify({ key: key.secret })), key.name).toBe(
          sees(key) ? 200 : 403
        )
        expect(yield* statusOf("GET", SUMMARY), key.name).toBe(sees(key) && !key.isLimited ? 200 : 403)
      }
      for (const [name, headers] of Object.entries(world.dead)) {
        for (const path of ["/api/v1/session", SUMMARY]) {
          expect((yield* send("GET", path, headers)).status, `${path} with ${name}`).toBe(401)
        }
      }
      for (const path of ["/", "/docs", "/openapi.json", "/no-such-path"]) {
        const { text } = yield* send("GET", path, {})
        for (const secret of [world.own.id, world.own.tag]) expect(text, path).not.toContain(secret)
      }
      close()
    }))
})
