/**
 * Provokes every error in the OpenAPI document on a real server, operation by operation. The requests have a wrong key, a key for another
 * API, an invalid path or a body that is too large, exceed the rate limit, or are sent during an outage of the stores.
 */
import { expect, layer } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { Models, ModelsRefused } from "@stint/models/Models"
import { makeTestHub } from "@stint/models/testing"
import { generate, SecretsKey, SecretsKeyError } from "@stint/secrets/SecretsKey"
import { Alerts, AlertsOff } from "@stint/server/Alerts"
import { BackupError, Backups } from "@stint/server/Backups"
import { JobStore } from "@stint/store/JobStore"
import { KeyStore } from "@stint/store/KeyStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { layer as layerServer, layerMemory, ServerTest, type Stores } from "../src/ServerTest.ts"
import { TestModels } from "../src/TestModels.ts"
import { expectJson } from "../src/WireClient.ts"
import { type Described, OPERATIONS } from "./OpenApiResponses.ts"
import { isWorkerPath } from "./WorkerPaths.ts"

const DAY = 86_400_000

/** The body limit of this server, in bytes. */
const LIMIT = 2_000

class Outage extends Context.Service<Outage, { isOn: boolean }>()("@stint/server/test/AnswerSweep/Outage") {}

/** A store that fails during an outage, except for the operations in `always`. */
const fragile = <Store extends object>(
  store: Store,
  outage: { readonly isOn: boolean },
  always: ReadonlyArray<string>
): Store => {
  const failure = Effect.suspend(() =>
    Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation: "any", cause: new Error("away") }) }))
  )
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (typeof name !== "string" || always.includes(name)) return member
      if (Effect.isEffect(member)) return Effect.suspend(() => outage.isOn ? failure : member)
      if (typeof member !== "function") return member
      return (...args: ReadonlyArray<unknown>) => outage.isOn ? failure : Reflect.apply(member, target, args)
    }
  })
}

const outage = Layer.sync(Outage, () => ({ isOn: false }))

/**
 * These operations work during an outage: known keys stay valid while the key store is unavailable, as its contract requires, and listeners
 * receive nothing.
 */
const ALWAYS: Readonly<Record<string, ReadonlyArray<string>>> = { [KeyStore.key]: ["get"], [JobStore.key]: ["subscribe"] }

const stores: Layer.Layer<Stores, never, Outage> = Layer.effectContext(Effect.gen(function*() {
  const on = yield* Outage
  const { mapUnsafe } = yield* Layer.build(layerMemory)
  return Context.makeUnsafe<Stores>(
    new Map(Array.from(mapUnsafe, ([key, store]) => [key, fragile<object>(store, on, ALWAYS[key] ?? [])]))
  )
}))

const backups = Layer.effect(
  Backups,
  Effect.map(Outage, (on) => ({
    open: Effect.suspend(() =>
      on.isOn
        ? Effect.fail(new BackupError({ reason: "failed", message: "The database could not be copied." }))
        : Effect.succeed(Stream.make(Buffer.from("an archive")))
    )
  }))
)

/** An alert receiver. During an outage, there is none. */
const alerts = Layer.effect(
  Alerts,
  Effect.map(Outage, (on) => ({
    list: Effect.succeed({ configured: true, alerts: [], receivers: [] }),
    test: Effect.suspend(() => on.isOn ? Effect.fail(new AlertsOff()) : Effect.succeed({ receivers: [] }))
  }))
)

/** A key that the platform cannot replace, so a rotation is refused. During an outage, it cannot be read. */
const operatorsKey = Layer.effect(
  SecretsKey,
  Effect.gen(function*() {
    const on = yield* Outage
    const key = yield* generate
    const away = new SecretsKeyError({ message: "The key cannot be read.", hint: "Try again." })
    return {
      place: "the test",
      read: Effect.suspend(() => on.isOn ? Effect.fail(away) : Effect.succeed([key])),
      write: undefined
    }
  })
).pipe(Layer.provide(outage))

/** An empty model cache. During an outage, it cannot be used. */
const models = Layer.effect(
  Models,
  Effect.gen(function*() {
    const on = yield* Outage
    const unless = <A>(effect: Effect.Effect<A, ModelsRefused>) =>
      Effect.suspend(() =>
        on.isOn ? Effect.fail(new ModelsRefused({ kind: "none", message: "The cache is away.", hint: "Try again." })) : effect
      )
    return {
      prepare: () => Effect.succeed({ _tag: "Ready" as const }),
      stateOf: () => undefined,
      settled: () => Effect.void,
      hold: () => Effect.succeed(undefined),
      list: unless(Effect.succeed({ folder: "/models", hub: "http://hub", bytes: 0, models: [], downloads: [] })),
      pull: (model: string) => unless(Effect.succeed({ model, state: "downloading" as const, receivedBytes: 0 })),
      remove: () => unless(Effect.fail(new ModelsRefused({ kind: "missing", message: "It is not there.", hint: "Look again." })))
    }
  })
).pipe(
  Layer.merge(Layer.effect(TestModels, Effect.map(Effect.cached(Effect.scoped(makeTestHub)), (hub) => ({ hub })))),
  Layer.provide(outage)
)

const surfaceOf = ({ template }: Described): "control" | "worker" | "jobs" =>
  template.startsWith("/api/") ? "control" : isWorkerPath(template) ? "worker" : "jobs"

/** A valid body for operations that read a body. */
const bodyOf = ({ method, template }: Described, endpoint: string): object | undefined => {
  if (method === "GET" || method === "DELETE") return undefined
  if (/\/(?:run|runsync)$/.test(template)) return { input: 1 }
  if (template.endsWith("/events")) return { name: "approved" }
  if (/\/batch(?:\/\{id\}\/requests)?$/.test(template)) return { requests: [] }
  if (/\/job-(?:done|stream)\//.test(template)) return { output: 1 }
  if (template.includes("/job-done-batch/")) return [{ id: "x", output: 1 }]
  if (template.includes("/run-journal/")) return { runs: [] }
  if (template.includes("/handler-schema/")) return { input: {}, output: {}, streams: false }
  if (template === "/api/v1/endpoints") return { id: "made-in-an-outage", source: { type: "external" } }
  if (template === "/api/v1/endpoints/{endpoint}") return { id: endpoint, source: { type: "external" } }
  if (template.endsWith("/build-settings")) return { repository: "https://git.example.com/team/words.git" }
  if (template.startsWith("/api/v1/endpoints/{endpoint}/releases")) return { spec: { source: { type: "external" } } }
  if (template === "/api/v1/bulk") return { action: "retry", query: "status:failed" }
  if (template === "/api/v1/keys") return { name: "k", endpoints: "all" }
  if (template === "/api/v1/keys/{key}") return { name: "k" }
  if (template === "/api/v1/models") return { model: "acme/whisper" }
  if (template === "/api/v1/endpoints/{endpoint}/schedules/{schedule}") return { cron: "0 3 29 2 *" }
  if (template === "/api/v1/secrets/{secret}") return { value: "a-secret-value" }
  return {}
}

/** Registers a test for each described error of each operation. */
export const sweep = (): void => {
  layer(
    layerServer({
      stores: Layer.provideMerge(Layer.mergeAll(stores, backups, alerts), outage),
      secretsKey: operatorsKey,
      models,
      limits: {
        runBytes: LIMIT,
        runsyncBytes: LIMIT,
        resultBytes: LIMIT,
        chunkBytes: LIMIT,
        controlBytes: LIMIT,
        batchBytes: LIMIT
      }
    }).pipe(Layer.provideMerge(outage)),
    { excludeTestServices: true }
  )("every described error", (it) => {
    for (const operation of OPERATIONS) {
      const surface = surfaceOf(operation)
      it.effect(`${operation.name} is answered`, () =>
        Effect.gen(function*() {
          const { call, endpoint } = yield* ServerTest
          const away = yield* Outage
          const one = yield* endpoint({ rateLimit: { limit: 1, perMs: DAY } })
          const other = yield* endpoint()
          const full = yield* endpoint({ limits: { storedBytes: 1_000 } })
          const worker = yield* one.worker()
          const create = (json: object) => Effect.flatMap(call("/api/v1/keys", { json }), expectJson(201, NewKey))
          const { key } = yield* create({ name: "k", endpoints: [one.id] })
          const stranger = yield* create({ name: "stranger", endpoints: [other.id], scopes: ["jobs", "worker"] })

          const workers = yield* create({ name: "workers", endpoints: "all", scopes: ["worker"] })
          const roaming = surface === "worker" ? { authorization: workers.secret } : {}

          // The endpoint of these operations is in the query.
          const isEvents = ["/api/v1/events", "/api/v1/errors"].includes(operation.template)
          // The endpoints of these operations are in the text query.
          const isSearch = operation.template.startsWith("/api/v1/jobs")
          const isBulk = operation.template.startsWith("/api/v1/bulk")
          const send = (
            place: Readonly<Record<string, string>> = {},
            over: { readonly authorization?: string; readonly json?: unknown; readonly encoding?: string } = {}
          ) => {
            const at: Readonly<Record<string, string>> = {
              endpoint: one.id,
              id: "no-such-job",
              worker: "w-1",
              key: key.id,
              delivery: "no-such-delivery",
              number: "77",
              ...place
            }
            const json = "json" in over ? over.json : bodyOf(operation, at["endpoint"] ?? "")
            const path = operation.template.replaceAll(/\{(\w+)\}/g, (_, name: string) => at[name] ?? `no-such-${name}`)
            return call(isEvents ? `${path}?endpoint=${at["endpoint"]}` : path, {
              method: operation.method,
              authorization: over.authorization ?? (surface === "worker" ? worker.key : "Bearer test-admin-key-0123456789"),
              ...(json === undefined ? {} : { json }),
              ...(over.encoding === undefined ? {} : { headers: { "content-encoding": over.encoding } })
            })
          }
          const parameters = [...operation.template.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name)
          const [first = ""] = parameters
          const last = parameters.at(-1) ?? ""
          const missing = first === "key" ? { key: "0000000000000000" } : { [first]: "no-such-endpoint" }
          const large = "x".repeat(LIMIT)
          /** Runs a schedule of an endpoint, twice. */
          const runSchedule = Effect.fnUntraced(function*(limits: object) {
            const { id } = yield* Effect.orDie(endpoint({ limits }))
            const path = `/api/v1/endpoints/${id}/schedules/nightly`
            yield* call(path, { method: "PUT", json: { cron: "0 3 29 2 *", input: "x".repeat(1_000) } })
            yield* call(`${path}/run-now`, { method: "POST" })
            return yield* call(`${path}/run-now`, { method: "POST" })
          })
          const isSchedule = operation.template.endsWith("/run-now")
          const duringOutage = Effect.acquireUseRelease(
            Effect.sync(() => {
              away.isOn = true
            }),
            () => send({ endpoint: other.id }, roaming),
            () =>
              Effect.sync(() => {
                away.isOn = false
              })
          )
          const ways: Readonly<Record<string, ReturnType<typeof send>>> = {
            // Only this server has something to back up.
            ...(operation.template === "/api/v1/backup" ? { 200: send() } : {}),
            // Only this server has receivers of alerts.
            ...(operation.template === "/api/v1/alerts/test" ? { 200: send(), 409: duringOutage } : {}),
            // The tests of conflicts provoke the 409 of other operations. Only this server has a key that it may not replace.
            ...(operation.template === "/api/v1/secrets-key/rotate" ? { 409: send() } : {}),
            // Only the query of a GET without parameters can be invalid.
            400: first !== ""
              ? send({ [last]: "%zz" })
              : operation.method === "GET"
              ? call(`${operation.template}?limit=0&lastEventId=0&by=0${isSearch ? "&query=status:none" : ""}`)
              : send({}, { json: "no object" }),
            401: send({}, { authorization: "wrong" }),
            // These operations admit every reader, and show it its own endpoints, jobs or operations.
            403: send({}, {
              authorization: isSearch || isBulk ||
                  ["/api/v1/overview", "/api/v1/history", "/api/v1/alerts", "/api/v1/usage"].includes(operation.template)
                ? workers.secret
                : stranger.secret
            }),
            404: isEvents
              ? send({ endpoint: "no-such-endpoint" })
              : isSearch
              ? call(`${operation.template}?query=endpoint:no-such-endpoint`)
              : isBulk && first === ""
              ? send({}, { json: { action: "retry", query: "endpoint:no-such-endpoint" } })
              : first === ""
              ? send({}, { json: { name: "k", endpoints: ["no-such-endpoint"] } })
              : send(missing, roaming),
            413: send({}, { json: { ...bodyOf(operation, one.id), input: large, output: large, name: large } }),
            415: send({ endpoint: other.id }, { ...roaming, json: bodyOf(operation, other.id) ?? {}, encoding: "br" }),
            429: isSchedule
              ? runSchedule({ waitingJobs: 1 })
              : Effect.andThen(send({ endpoint: one.id }), send({ endpoint: one.id })),
            507: isSchedule
              ? runSchedule({ storedBytes: 1_000 })
              : send({ endpoint: full.id }, { json: { input: "x".repeat(1_000) } }),
            503: duringOutage
          }
          for (const status of Object.keys(operation.operation.responses)) {
            // A GET has no body that could be too large, and if the request reaches the handler, the handler waits for a body.
            // Events have their own limit, which the tests of runs exceed. The calls of agents are tested with a key that may make them.
            const isElsewhere = operation.method === "GET"
              ? status === "413" || status === "415" || status === "507" || (status === "429" && last === "route")
              : (status === "507" && operation.template.endsWith("/events")) ||
                (operation.template.endsWith("/report") && Number(status) > 404)
            const way = isElsewhere ? undefined : ways[status]
            if (way !== undefined) expect((yield* way).status, `${operation.name} ${status}`).toBe(Number(status))
          }
        }))
    }
  })
}
