/**
 * Two servers of one platform: they share the stores and the secrets, and exchange reports. Callers use either of them, as behind a load balancer
 * without affinity.
 */
import { expect, it } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import * as Pages from "@stint/server/Pages"
import { NodeNetwork } from "@stint/store-testing"
import { Nodes } from "@stint/store/Nodes"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { tmpdir } from "node:os"
import { ADMIN_KEY, layer as layerServer, layerMemory, ServerTest } from "../src/ServerTest.ts"
import { expectJson, expectProblem } from "../src/WireClient.ts"

const SESSION = "/api/v1/session"

type Server = ServerTest["Service"]

/** A platform whose nodes start and stop. */
const platform = Effect.gen(function*() {
  const stores = yield* Layer.build(layerMemory)
  const { beat, join } = NodeNetwork.make()
  const start = Effect.gen(function*() {
    const nodes = join()
    const scope = yield* Scope.fork(yield* Effect.scope)
    const layer = layerServer({ stores: Layer.succeedContext(Context.add(stores, Nodes, nodes)) }).pipe(
      Layer.provide(Layer.succeed(Pages.ConsoleFolder, tmpdir()))
    )
    const context = yield* Layer.buildWithMemoMap(layer, Layer.makeMemoMapUnsafe(), scope)
    const stop = Effect.andThen(nodes.leave, Scope.close(scope, Exit.void))
    return { ...Context.get(context, ServerTest), stop }
  })
  return { start, beat }
})

const created = expectJson(201, NewKey)

/** Logs in. Returns the value of the cookie. */
const login = (server: Server, key: string) =>
  Effect.map(server.call(SESSION, { json: { key }, authorization: null, headers: { origin: server.baseUrl } }), (answer) => {
    expect(answer.status).toBe(200)
    return /=([\w-]+);/.exec(answer.headers.get("set-cookie") ?? "")?.[1] ?? ""
  })

/** The headers of a browser. Behind a load balancer all servers have one address; here, the cookie's name has the port of each. */
const browser = ({ baseUrl }: Server, value: string) => ({
  origin: baseUrl,
  cookie: `stint_session_${new URL(baseUrl).port}=${value}`
})

const open = (server: Server, value: string, path = SESSION) =>
  server.call(path, { authorization: null, headers: browser(server, value) })

it.live("a session of the console is valid at every node, survives a restart, and ends everywhere at a logout or with its key", () =>
  Effect.scoped(Effect.gen(function*() {
    const { beat, start } = yield* platform
    const [first, second] = [yield* start, yield* start]
    beat()
    const { key, secret } = yield* Effect.flatMap(
      first.call("/api/v1/keys", { json: { name: "viewer", scopes: ["jobs:read"], endpoints: "all" } }),
      created
    )
    const [admin, viewer] = [yield* login(first, ADMIN_KEY), yield* login(first, secret)]
    for (const server of [first, second]) {
      expect((yield* open(server, admin)).json).toMatchObject({ id: "platform" })
      expect((yield* open(server, viewer)).json).toMatchObject({ id: key.id })
      expect((yield* open(server, admin, "/api/v1/endpoints")).status).toBe(200)
      yield* Effect.flatMap(open(server, viewer, "/api/v1/keys"), expectProblem(403))
    }
    const change = {
      method: "DELETE",
      authorization: null,
      headers: { ...browser(second, admin), origin: "https://evil.example" }
    }
    yield* Effect.flatMap(second.call(SESSION, change), expectProblem(403))

    // A logout at one node, while the cookie was copied.
    expect((yield* second.call(SESSION, { ...change, headers: browser(second, admin) })).status).toBe(204)
    yield* Effect.flatMap(open(second, admin), expectProblem(401))
    beat()
    yield* Effect.flatMap(open(first, admin), expectProblem(401))

    // The node of the logout stops; another one starts.
    yield* second.stop
    const third = yield* start
    expect((yield* open(third, viewer)).json).toMatchObject({ id: key.id })
    yield* Effect.flatMap(open(third, admin), expectProblem(401))

    yield* third.call(`/api/v1/keys/${key.id}/revoke`, { json: {} })
    for (const server of [first, third]) {
      const ended = yield* Effect.flatMap(open(server, viewer), expectProblem(401))
      expect(ended.error).toContain("was revoked")
      const again = yield* Effect.flatMap(open(server, viewer), expectProblem(401))
      expect(again.error).toBe("The request has no key.")
    }
    for (const server of [first, third]) {
      const lines = yield* server.logs
      expect(lines.some((line) => [admin, viewer, secret, ADMIN_KEY].some((one) => line.includes(one)))).toBe(false)
    }
  })))

it.live("a rate limit counts the calls of all nodes", () =>
  Effect.scoped(Effect.gen(function*() {
    const { beat, start } = yield* platform
    const [first, second] = [yield* start, yield* start]
    beat()
    const endpoint = yield* first.endpoint({ rateLimit: { limit: 5, perMs: 3_600_000 } })
    const submit = (server: Server) => server.call(endpoint.path("run"), { json: { input: 1 } })
    for (let call = 0; call < 3; call++) expect((yield* submit(first)).status).toBe(200)
    beat()
    const answer = yield* submit(second)
    expect(answer.status).toBe(200)
    expect(answer.headers.get("ratelimit")).toMatch(/^"run";r=1;/)
    beat()
    expect((yield* submit(first)).status).toBe(200)
    beat()
    for (const server of [first, second]) {
      const rejected = yield* submit(server)
      expect(rejected.status).toBe(429)
      expect(Number(rejected.headers.get("retry-after"))).toBeGreaterThan(600)
    }
    expect((yield* endpoint.health).jobs.inQueue).toBe(5)
  })))
