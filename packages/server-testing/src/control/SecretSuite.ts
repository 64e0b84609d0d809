/**
 * Tests the operations on secrets, and that values are masked in what workers report.
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { Secret, SecretChange, SecretsKeyRotation } from "@stint/contract/Secret"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { randomBytes, randomUUID } from "node:crypto"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const list = expectJson(200, Schema.Struct({ secrets: Schema.Array(Secret) }))
const changed = expectJson(200, SecretChange)
const rotated = expectJson(200, SecretsKeyRotation)

const newName = () => `secret-${randomUUID()}`
const newValue = () => `hf_${randomBytes(16).toString("hex")}`

/** Creates a secret, and an endpoint whose variable `TOKEN` refers to it. */
const endpointWithSecret = Effect.gen(function*() {
  const { call, endpoint } = yield* ServerTest
  const [name, value] = [newName(), newValue()]
  yield* Effect.flatMap(call(`/api/v1/secrets/${name}`, { method: "PUT", json: { value } }), changed)
  return { name, value, one: yield* endpoint({ env: { TOKEN: { secret: name } } }) }
})

/** Registers the tests for secrets. */
export const secrets = (it: ServerIt): void => {
  it.effect("creates, changes, lists and deletes a secret, and never returns its value", () =>
    Effect.gen(function*() {
      const { call, endpoint, logs } = yield* ServerTest
      const [name, value, second] = [newName(), newValue(), newValue()]
      const path = `/api/v1/secrets/${name}`
      const answers: Array<string> = []
      const send = (method: string, at: string, json?: unknown) =>
        Effect.tap(call(at, { method, ...(json === undefined ? {} : { json }) }), ({ text }) =>
          Effect.sync(() => answers.push(text)))

      const created = yield* Effect.flatMap(send("PUT", path, { value }), changed)
      expect(created).toMatchObject({ name, endpoints: [], changed: true })
      expect(yield* Effect.flatMap(send("PUT", path, { value }), changed)).toEqual({ ...created, changed: false })
      const { id } = yield* endpoint({ env: { MODE: "eu", TOKEN: { secret: name } } })
      const next = yield* Effect.flatMap(send("PUT", path, { value: second }), changed)
      expect(next).toMatchObject({ name, endpoints: [id], changed: true, createdAt: created.createdAt })
      expect(next.version).not.toBe(created.version)
      const { secrets } = yield* Effect.flatMap(send("GET", "/api/v1/secrets"), list)
      expect(secrets.filter((one) =>
        one.name === name
      )).toHaveLength(1)
      const shown = yield* send("GET", `/api/v1/endpoints/${id}`)
      expect(JSON.parse(shown.text).env).toEqual({ MODE: "eu", TOKEN: { secret: name } })

      const refused = yield* Effect.flatMap(send("DELETE", path), expectProblem(409))
      expect(refused.error).toContain(`is used by ${id}`)
      expect((yield* send("DELETE", `${path}?force=true`)).status).toBe(204)
      yield* Effect.flatMap(send("DELETE", path), expectProblem(404))
      const text = [...answers, ...(yield* logs)].join("\n")
      for (const secret of [value, second]) expect(text).not.toContain(secret)
    }))

  it.effect("rejects invalid names and values, and repeats no part of a body in the error", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const value = newValue()
      const path = `/api/v1/secrets/${newName()}`
      const bodies = [
        `{"value": "${value}`,
        `{"value": {"nested": "${value}"}}`,
        `{"token": "${value}"}`,
        `["${value}"]`,
        value,
        "",
        "{}",
        `{"value": ""}`,
        `{"value": "${value}\\u0000"}`,
        JSON.stringify({ value: value.repeat(3_000) })
      ]
      for (const body of bodies) {
        const problem = yield* Effect.flatMap(call(path, { method: "PUT", body }), expectProblem(400))
        expect(JSON.stringify(problem), body.slice(0, 60)).not.toContain(value.slice(0, 10))
      }
      for (const name of ["-a", ".a", "a b", "a%2Fb", "x".repeat(64)]) {
        const problem = yield* Effect.flatMap(
          call(`/api/v1/secrets/${name}`, { method: "PUT", json: { value } }),
          expectProblem(400)
        )
        expect(JSON.stringify(problem)).not.toContain(value)
      }
      yield* Effect.flatMap(
        call("/api/v1/endpoints", { json: { id: "x", source: { type: "external" }, env: { A: { secret: "a b" } } } }),
        expectProblem(400)
      )
    }))

  it.effect("requires the scope deploy, and the scope admin to rotate the key, which keeps values and versions", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const { name, one, value } = yield* endpointWithSecret
      const keyWith = (scope: string) =>
        Effect.map(
          Effect.flatMap(
            call("/api/v1/keys", {
              json: { name: scope, scopes: [scope], ...(scope === "deploy" ? {} : { endpoints: [one.id] }) }
            }),
            expectJson(201, NewKey)
          ),
          ({ secret }) => `Bearer ${secret}`
        )
      const operations = [["GET", "/api/v1/secrets"], ["PUT", `/api/v1/secrets/${name}`], [
        "DELETE",
        `/api/v1/secrets/${name}`
      ]] as const
      for (const scope of ["jobs", "worker"]) {
        const authorization = yield* keyWith(scope)
        for (const [method, path] of operations) {
          const json = method === "PUT" ? { json: { value } } : {}
          yield* Effect.flatMap(call(path, { method, authorization, ...json }), expectProblem(403))
        }
      }
      const deploy = yield* keyWith("deploy")
      const before = yield* Effect.flatMap(call("/api/v1/secrets", { authorization: deploy }), list)
      yield* Effect.flatMap(call("/api/v1/secrets-key/rotate", { method: "POST", authorization: deploy }), expectProblem(403))
      const first = yield* Effect.flatMap(call("/api/v1/secrets-key/rotate", { method: "POST" }), rotated)
      const second = yield* Effect.flatMap(call("/api/v1/secrets-key/rotate", { method: "POST" }), rotated)
      expect(first.secrets).toBeGreaterThan(0)
      expect(second.key).not.toBe(first.key)
      const find = ({ secrets }: typeof before) => secrets.find((secret) => secret.name === name)
      expect(find(yield* Effect.flatMap(call("/api/v1/secrets"), list))).toEqual(find(before))
      yield* Effect.flatMap(call("/api/v1/secrets", { authorization: null }), expectProblem(401))
    }))

  it.effect("masks current and earlier values in the errors that workers report, but not in an output, a chunk or progress", () =>
    Effect.gen(function*() {
      const { call, logs } = yield* ServerTest
      const { name, one, value } = yield* endpointWithSecret
      const worker = yield* one.worker()
      const error = JSON.stringify({
        error_type: "Error",
        error_message: `401 for ${value}`,
        error_traceback: `at x (${value})\n`
      })
      const failed = yield* one.run({})
      yield* worker.next
      yield* worker.deliver(failed.id, { error })
      const { error: shown = "" } = yield* one.status(failed.id)
      expect(shown).toBe(error.replaceAll(value, `[secret ${name}]`))

      const done = yield* one.run({})
      yield* worker.next
      yield* worker.progress(done.id, { step: value })
      expect((yield* one.status(done.id)).output).toEqual({ step: value })
      yield* worker.stream(done.id, [`chunk ${value}`])
      yield* worker.finish(done.id, { token: value })
      expect((yield* one.status(done.id)).output).toEqual({ token: value })
      expect((yield* one.streamToEnd(done.id)).flatMap(({ stream }) => stream.map(({ output }) => output))).toEqual([
        `chunk ${value}`
      ])

      const waiting = yield* one.run({})
      yield* worker.call(`${worker.addresses.ping}&status=unhealthy&check=login&reason=${encodeURIComponent(`401 for ${value}`)}`)
      const registered = yield* Effect.flatMap(WorkerRegistry, ({ list }) => list(one.endpoint.id))
      expect(registered.map(({ reason }) => reason)).toEqual([`fitness check login failed: 401 for [secret ${name}]`])

      // The worker still has the first value.
      yield* Effect.flatMap(call(`/api/v1/secrets/${name}`, { method: "PUT", json: { value: newValue() } }), changed)
      yield* worker.next
      yield* worker.deliver(waiting.id, { error: `plain ${value}` })
      const late = (yield* one.status(waiting.id)).error ?? ""
      expect(late).toContain("plain [secret ")
      // Another endpoint does not use the secret: its errors are not searched.
      const { endpoint } = yield* ServerTest
      const other = yield* endpoint()
      const stranger = yield* other.worker()
      const foreign = yield* other.run({})
      yield* stranger.next
      yield* stranger.deliver(foreign.id, { error: value })
      expect((yield* other.status(foreign.id)).error).toContain(value)
      expect((yield* logs).join("\n")).not.toContain(value)
    }))
}
