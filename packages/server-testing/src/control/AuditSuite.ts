/**
 * Tests the audit (docs/operations/audit.md).
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { Api } from "@stint/contract/Api"
import { auditActionOf, AuditedOperations } from "@stint/contract/Audit"
import { AuditPage } from "@stint/contract/AuditApi"
import * as Effect from "effect/Effect"
import { HttpApi } from "effect/http-api"
import { createHmac, randomUUID } from "node:crypto"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { type Call, expectJson, expectProblem } from "../WireClient.ts"

const decodePage = expectJson(200, AuditPage)
const created = expectJson(201, NewKey)

/** The operations that are not GET and not audited, with the reason. */
const UNAUDITED: Readonly<Record<string, string>> = {
  "jobs.run": "submits a job",
  "jobs.runsync": "submits a job",
  "jobs.statusByPost": "changes nothing",
  "jobs.statusSyncByPost": "changes nothing",
  "jobs.streamByPost": "a caller reads its job",
  "batches.addRequests": "submits jobs",
  "runs.sendEvent": "programs send input to runs",
  "runs.compareDefinition": "changes nothing",
  "releases.previewRelease": "changes nothing",
  "openai.openaiPost": "submits a job",
  "openai.openaiDelete": "submits a job",
  "agentCalls.reportAgent": "agents call it every few seconds",
  "workers.jobDone": "workers call it for every job",
  "workers.jobDoneBatch": "workers call it for every job",
  "workers.jobStream": "workers call it for every chunk",
  "workers.handlerSchema": "workers call it after each start",
  "workers.runJournal": "workers call it for every run",
  "workers.pingByPost": "workers call it every few seconds"
}

interface Operation {
  readonly id: string
  readonly action: string | undefined
  readonly method: string
  readonly path: string
  readonly hasMiddleware: boolean
}

const operations: ReadonlyArray<Operation> = (() => {
  const found: Array<Operation> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group, middleware }) => {
      found.push({
        id: `${group.identifier}.${endpoint.identifier}`,
        action: auditActionOf({ endpoint, group }),
        method: endpoint.method,
        path: endpoint.path,
        hasMiddleware: [...middleware].some(({ key }) => key === AuditedOperations.key)
      })
    }
  })
  return found
})()

const audited = operations.flatMap(({ action, ...rest }) => action === undefined ? [] : [{ ...rest, action }])

/** The entries of a key, newest first. Each test has keys of its own, because other tests use the same server. */
const entriesOf = Effect.fnUntraced(function*(key: string, query: Readonly<Record<string, string>> = {}) {
  const { call } = yield* ServerTest
  const page = yield* Effect.flatMap(
    call(`/api/v1/audit?${new URLSearchParams({ key, limit: "200", ...query }).toString()}`),
    decodePage
  )
  return page.entries
})

const newKey = Effect.fnUntraced(function*(scopes: ReadonlyArray<string>) {
  const { call } = yield* ServerTest
  const isForAll = scopes.some((scope) => scope === "admin" || scope === "deploy")
  const spec = { name: `key-${randomUUID()}`, scopes, ...(isForAll ? {} : { endpoints: "all" }) }
  const { key, secret } = yield* Effect.flatMap(call("/api/v1/keys", { json: spec }), created)
  return {
    ...key,
    send: (method: string, path: string, options: Call = {}) => call(path, { method, authorization: secret, ...options })
  }
})

/** Registers the tests for the audit. */
export const audits = (it: ServerIt): void => {
  it.effect("audits every operation that is not a GET, except for a list of operations that change nothing or that every job uses", () =>
    Effect.sync(() => {
      expect(audited.length).toBeGreaterThan(25)
      expect(operations.filter(({ hasMiddleware }) => !hasMiddleware)).toEqual([])
      expect(operations.filter(({ action, method }) => action === undefined && method !== "GET").map(({ id }) => id).toSorted())
        .toEqual(Object.keys(UNAUDITED).toSorted())
      expect(audited.filter(({ method }) => method === "GET").map(({ id }) => id)).toEqual([
        "control.workerEnv",
        "webhooks.getSecret"
      ])
    }))

  it.effect("records each audited operation that a key does not permit, with its target", () =>
    Effect.gen(function*() {
      const worker = yield* newKey(["worker"])
      // Git hosts call it without a key: see below.
      const guarded = audited.filter(({ id }) => id !== "builds.buildHook")
      yield* Effect.forEach(guarded, ({ method, path }) =>
        Effect.flatMap(
          worker.send(method, path.replaceAll(/:\w+/g, "1"), method === "GET" || method === "DELETE" ? {} : { json: {} }),
          expectProblem(403)
        ))
      const entries = yield* entriesOf(worker.id)
      expect(entries.map(({ action }) => action).toReversed()).toEqual(guarded.map(({ action }) => action))
      for (const [index, { path }] of guarded.toReversed().entries()) {
        expect(entries[index]).toMatchObject({
          key: worker.id,
          name: worker.name,
          via: "api",
          address: expect.stringMatching(/^(?:::ffff:)?127\.0\.0\.1$|^::1$/),
          result: "refused",
          status: 403,
          target: expect.stringMatching(path.includes(":") ? /^(?:\w+(?:\/1)+\/?)+$/ : /^platform$/)
        })
      }
    }))

  it.effect("records an operation whose target contains a NUL character", () =>
    Effect.gen(function*() {
      const admin = yield* newKey(["admin"])
      yield* admin.send("POST", "/api/v1/keys/%00/revoke", { json: {} })
      expect(yield* entriesOf(admin.id)).toMatchObject([{ action: "keys.revokeKey", target: "key/\0" }])
    }))

  it.effect("records who did what to which target, and never records a value or an input", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const admin = yield* newKey(["admin"])
      const endpoint = `e-${randomUUID()}`
      const secret = `secret-${randomUUID()}`
      const value = `value-${randomUUID()}`
      const json = (method: string, path: string, body: unknown) => admin.send(method, path, { json: body })
      yield* json("POST", "/api/v1/endpoints", { id: endpoint, source: { type: "external" }, env: { A: value } })
      yield* json("POST", "/api/v1/endpoints", { id: endpoint, source: { type: "external" } })
      yield* json("POST", `/api/v1/endpoints/${endpoint}/releases`, {
        spec: { source: { type: "external" }, maxAttempts: 7 },
        message: value
      })
      yield* json("PUT", `/api/v1/secrets/${secret}`, { value })
      yield* json("PUT", `/api/v1/secrets/${secret}`, value)
      yield* admin.send("DELETE", `/api/v1/secrets/${secret}`)
      const { key: made, secret: madeSecret } = yield* Effect.flatMap(
        json("POST", "/api/v1/keys", { name: "made", endpoints: "all" }),
        created
      )
      yield* json("POST", `/api/v1/keys/${made.id}/revoke`, {})
      yield* json("POST", `/v2/${endpoint}/run`, { input: value })
      const run = yield* json("POST", `/v2/${endpoint}/run`, { input: value })
      const id = (run.json as { readonly id: string }).id
      yield* admin.send("POST", `/v2/${endpoint}/cancel/${id}`)
      yield* admin.send("POST", `/v2/${endpoint}/retry/${id}`)
      yield* admin.send("POST", `/v2/${endpoint}/purge-queue`)
      const batch = yield* json("POST", `/v2/${endpoint}/batch`, [{ input: value }])
      const batchId = (batch.json as { readonly id: string }).id
      yield* admin.send("POST", `/v2/${endpoint}/batch/${batchId}/cancel`)
      yield* admin.send("GET", `/api/v1/endpoints/${endpoint}/worker-env`)
      yield* admin.send("GET", `/api/v1/endpoints/${endpoint}/webhooks/secret`)
      const entries = yield* entriesOf(admin.name)
      expect(entries.toReversed().map(({ action, result, status, target }) => `${action} ${target} ${result} ${status}`)).toEqual(
        [
          `control.createEndpoint endpoint/${endpoint} done 201`,
          `control.createEndpoint endpoint/${endpoint} failed 409`,
          `releases.deployRelease endpoint/${endpoint}/release/2 done 201`,
          `secrets.setSecret secret/${secret} done 200`,
          `secrets.setSecret secret/${secret} failed 400`,
          `secrets.deleteSecret secret/${secret} done 204`,
          `keys.createKey key/${made.id} done 201`,
          `keys.revokeKey key/${made.id} done 200`,
          `jobs.cancel endpoint/${endpoint}/job/${id} done 200`,
          `jobs.retry endpoint/${endpoint}/job/${id} failed 409`,
          `jobs.purgeQueue endpoint/${endpoint} done 200`,
          `batches.createBatch endpoint/${endpoint} done 200`,
          `batches.cancelBatch endpoint/${endpoint}/batch/${batchId} done 200`,
          `control.workerEnv endpoint/${endpoint} done 200`,
          `webhooks.getSecret endpoint/${endpoint} done 200`
        ]
      )
      const text = JSON.stringify(entries)
      for (const one of [value, madeSecret, "whsec_", "stint_worker_"]) expect(text).not.toContain(one)

      // A key that revokes itself is still recorded as the one that did so.
      yield* json("POST", `/api/v1/keys/${admin.id}/revoke`, {})
      expect((yield* entriesOf(admin.id))[0]).toMatchObject({
        action: "keys.revokeKey",
        target: `key/${admin.id}`,
        result: "done"
      })

      // The platform's own key has no name of its own.
      yield* call(`/api/v1/endpoints/${endpoint}`, { method: "DELETE" })
      const own = yield* entriesOf("platform", { target: `endpoint/${endpoint}` })
      expect(own).toMatchObject([{ action: "control.deleteEndpoint", key: "platform", name: "platform", status: 204 }])
    }))

  it.effect("filters by key, action, target, result and time, and pages through the list, for admin keys only", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const admin = yield* newKey(["admin"])
      const names = Array.from({ length: 5 }, () => `secret-${randomUUID()}`)
      yield* Effect.forEach(names, (name) => admin.send("PUT", `/api/v1/secrets/${name}`, { json: { value: "a value" } }))
      yield* admin.send("DELETE", `/api/v1/secrets/${names[0]}`)
      yield* admin.send("DELETE", `/api/v1/secrets/${names[0]}`)
      const targetsOf = (query: Readonly<Record<string, string>>) =>
        Effect.map(entriesOf(admin.id, query), (entries) => entries.map(({ target }) => target))
      const newestFirst = names.map((name) => `secret/${name}`).toReversed()
      expect(yield* targetsOf({ action: "secrets.setSecret" })).toEqual(newestFirst)
      expect(yield* targetsOf({ action: "secrets" })).toHaveLength(7)
      expect(yield* targetsOf({ action: "secret" })).toEqual([])
      expect(yield* targetsOf({ target: `secret/${names[0]}` })).toHaveLength(3)
      expect(yield* targetsOf({ result: "failed" })).toEqual([`secret/${names[0]}`])
      const all = yield* entriesOf(admin.id)
      const at = all[0]?.at ?? 0
      expect(yield* targetsOf({ since: String(at) })).toEqual(all.filter((entry) => entry.at >= at).map(({ target }) => target))
      expect(yield* targetsOf({ since: new Date(at + 1).toISOString() })).toEqual([])

      const seen: Array<number> = []
      for (let cursor: number | null = Number.MAX_SAFE_INTEGER; cursor !== null;) {
        const page: AuditPage = yield* Effect.flatMap(
          call(`/api/v1/audit?key=${admin.id}&limit=3&cursor=${cursor}`),
          decodePage
        )
        seen.push(...page.entries.map(({ id }) => id))
        cursor = page.cursor
      }
      expect(seen).toEqual(all.map(({ id }) => id))

      for (const query of ["limit=0", "limit=201", "cursor=x", "since=yesterday", "result=ok"]) {
        yield* Effect.flatMap(call(`/api/v1/audit?${query}`), expectProblem(400))
      }
      for (const scopes of [["deploy"], ["jobs"]]) {
        const other = yield* newKey(scopes)
        yield* Effect.flatMap(other.send("GET", "/api/v1/audit"), expectProblem(403))
      }
      for (const authorization of [null, "wrong"]) {
        yield* Effect.flatMap(call("/api/v1/audit", { authorization }), expectProblem(401))
      }
    }))

  it.effect("records the downloads and the removal of a model under targets that one filter finds", () =>
    Effect.gen(function*() {
      const admin = yield* newKey(["admin"])
      const model = `acme/m-${randomUUID()}`
      yield* admin.send("POST", "/api/v1/models", { json: { model } })
      yield* admin.send("POST", "/api/v1/models", { json: { model: `${model}@v2` } })
      yield* admin.send("DELETE", `/api/v1/models/${model}`)
      const entries = yield* entriesOf(admin.id, { target: `model/${model}` })
      expect(entries.toReversed().map(({ action, target }) => `${action} ${target}`)).toEqual([
        `models.pullModel model/${model}`,
        `models.pullModel model/${model}/revision/v2`,
        `models.removeModel model/${model}`
      ])
    }))

  it.effect("records no call beyond a rate limit", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint({ rateLimit: { limit: 1, perMs: 86_400_000 } })
      const jobs = yield* newKey(["jobs"])
      const purge = jobs.send("POST", one.path("purge-queue"))
      expect([(yield* purge).status, (yield* purge).status]).toEqual([200, 429])
      expect((yield* entriesOf(jobs.id)).map(({ status }) => status)).toEqual([200])
    }))

  it.effect("records no request without a valid key", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const endpoint = `e-${randomUUID()}`
      const path = `/api/v1/endpoints/${endpoint}`
      yield* call(path, { method: "DELETE", authorization: "wrong" })
      yield* call(path, { method: "DELETE", authorization: null })
      const signature = createHmac("sha256", "wrong").update("{}").digest("hex")
      yield* Effect.flatMap(
        call(`${path}/build-hook`, {
          method: "POST",
          json: {},
          authorization: null,
          headers: { "x-github-event": "push", "x-hub-signature-256": `sha256=${signature}` }
        }),
        expectProblem(403)
      )
      const page = yield* Effect.flatMap(call(`/api/v1/audit?target=endpoint/${endpoint}`), decodePage)
      expect(page).toEqual({ entries: [], cursor: null })
    }))
}
