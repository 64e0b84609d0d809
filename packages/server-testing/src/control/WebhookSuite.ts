/**
 * Tests the control API for webhooks. No webhooks are sent here: `@stint/webhooks-testing` tests the sender.
 */
import { expect } from "@effect/vitest"
import { WebhookDeliveryDetails, WebhookDeliveryLine, WebhookSigningSecret } from "@stint/contract/WebhooksApi"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const Page = Schema.Struct({ deliveries: Schema.Array(WebhookDeliveryLine), cursor: Schema.NullOr(Schema.String) })

const URL_OF_HOOK = "https://hooks.example/jobs?of=test"

const world = Effect.gen(function*() {
  const { call, endpoint } = yield* ServerTest
  const one = yield* endpoint()
  const worker = yield* one.worker()
  const base = `/api/v1/endpoints/${one.id}/webhooks`
  /** An ended job with a webhook. */
  const ended = Effect.fnUntraced(function*(input: Schema.Json, events?: readonly ["start", "completed"]) {
    const { id } = yield* one.run(input, { webhook: events === undefined ? URL_OF_HOOK : { url: URL_OF_HOOK, events } })
    yield* worker.next
    yield* worker.finish(id, { did: input })
    return id
  })
  const list = (query = "") => Effect.flatMap(call(`${base}/deliveries${query}`), expectJson(200, Page))
  return { base, call, ended, endpoint, id: one.id, list }
})

const log = (it: ServerIt) => {
  it.effect("lists an endpoint's deliveries, newest first, by job, by state, and page by page", () =>
    Effect.gen(function*() {
      const { ended, list } = yield* world
      const first = yield* ended(1, ["start", "completed"])
      const second = yield* ended(2)
      const all = yield* list()
      expect(all.cursor).toBe(null)
      expect(all.deliveries.map(({ event, job }) => [job, event])).toEqual([
        [second, "completed"],
        [first, "completed"],
        [first, "start"]
      ])
      expect(all.deliveries[0]).toMatchObject({
        state: "pending",
        url: URL_OF_HOOK,
        attemptCount: 0,
        lastStatus: null,
        lastError: null
      })
      expect((yield* list(`?job=${first}`)).deliveries).toEqual(all.deliveries.slice(1))
      expect((yield* list("?state=pending")).deliveries).toEqual(all.deliveries)
      expect(yield* list("?state=failed")).toEqual({ deliveries: [], cursor: null })
      expect(yield* list("?job=nobodys")).toEqual({ deliveries: [], cursor: null })

      const page = yield* list("?limit=2")
      expect(page.deliveries).toEqual(all.deliveries.slice(0, 2))
      expect(yield* list(`?limit=2&cursor=${page.cursor}`)).toEqual({ deliveries: all.deliveries.slice(2), cursor: null })
    }))

  it.effect("returns a delivery with its attempts and its body as sent, and can send it again", () =>
    Effect.gen(function*() {
      const { base, call, ended, list } = yield* world
      const job = yield* ended({ text: "hello" })
      const [line] = (yield* list()).deliveries
      const details = yield* Effect.flatMap(call(`${base}/deliveries/${line?.id}`), expectJson(200, WebhookDeliveryDetails))
      expect(details).toMatchObject({
        ...line,
        attempts: [],
        body: {
          id: job,
          status: "COMPLETED",
          output: { did: { text: "hello" } },
          input: { text: "hello" },
          webhook: URL_OF_HOOK
        }
      })
      const resent = yield* Effect.flatMap(
        call(`${base}/deliveries/${line?.id}/resend`, { method: "POST" }),
        expectJson(200, WebhookDeliveryLine)
      )
      expect(resent).toMatchObject({ id: line?.id, state: "pending" })
      expect(resent.nextAt).toBeGreaterThanOrEqual(line?.nextAt ?? Infinity)
    }))

  it.effect("returns 404 for a delivery of another endpoint and for an unknown one", () =>
    Effect.gen(function*() {
      const { call, ended, endpoint, list } = yield* world
      yield* ended(1)
      const [line] = (yield* list()).deliveries
      const other = yield* endpoint()
      for (const id of [line?.id, "nope"]) {
        for (const [path, method] of [["", "GET"], ["/resend", "POST"]] as const) {
          const answer = yield* call(`/api/v1/endpoints/${other.id}/webhooks/deliveries/${id}${path}`, { method })
          expect(yield* expectProblem(404)(answer)).toMatchObject({
            type: "/problems/delivery-not-found",
            error: expect.stringContaining(`"${id}"`)
          })
        }
      }
      yield* Effect.flatMap(call("/api/v1/endpoints/nope/webhooks/deliveries"), expectProblem(404))
    }))

  it.effect("returns 400 with the name of an invalid filter", () =>
    Effect.gen(function*() {
      const { base, call } = yield* world
      for (const [name, value] of [["state", "lost"], ["limit", "0"], ["limit", "201"], ["limit", "few"], ["cursor", "next"]]) {
        const problem = yield* Effect.flatMap(call(`${base}/deliveries?${name}=${value}`), expectProblem(400))
        expect(JSON.stringify(problem)).toContain(`"${name}"`)
      }
    }))
}

const secrets = (it: ServerIt) => {
  const readSecret = expectJson(200, WebhookSigningSecret)

  it.effect("creates an endpoint's signing secret on first use, keeps it, and forbids caching the response", () =>
    Effect.gen(function*() {
      const { base, call, endpoint } = yield* world
      const answer = yield* call(`${base}/secret`)
      expect(answer.headers.get("cache-control")).toBe("no-store")
      const secret = yield* readSecret(answer)
      expect(secret.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
      expect(yield* Effect.flatMap(call(`${base}/secret`), readSecret)).toEqual(secret)
      const other = yield* endpoint()
      const elses = yield* Effect.flatMap(call(`/api/v1/endpoints/${other.id}/webhooks/secret`), readSecret)
      expect(elses.secret).not.toBe(secret.secret)
    }))

  it.effect("a rotation creates a new secret, and the previous secret also signs for a day or for the given time", () =>
    Effect.gen(function*() {
      const { base, call } = yield* world
      const first = yield* Effect.flatMap(call(`${base}/secret`), readSecret)
      const rotate = (json?: unknown) =>
        Effect.flatMap(call(`${base}/secret/rotate`, json === undefined ? { method: "POST" } : { json }), readSecret)
      const second = yield* rotate()
      expect(second.secret).not.toBe(first.secret)
      expect(second.previousUntil).toBe(second.createdAt + 86_400_000)
      const third = yield* rotate({ graceMs: 0 })
      expect(third).not.toHaveProperty("previousUntil")
      expect(yield* Effect.flatMap(call(`${base}/secret`), readSecret)).toEqual(third)
      const refused = yield* call(`${base}/secret/rotate`, { json: { graceMs: -1 } })
      expect(JSON.stringify(yield* expectProblem(400)(refused))).toContain("graceMs")
    }))

  it.effect("shows deliveries and secrets to operators only", () =>
    Effect.gen(function*() {
      const { base, call, id } = yield* world
      const made = yield* call("/api/v1/keys", { json: { name: "caller", endpoints: [id], scopes: ["jobs", "worker"] } })
      const { secret } = yield* expectJson(201, Schema.Struct({ secret: Schema.String, key: Schema.Unknown }))(made)
      for (const path of ["deliveries", "deliveries/x", "secret"]) {
        yield* Effect.flatMap(call(`${base}/${path}`, { authorization: `Bearer ${secret}` }), expectProblem(403))
        yield* Effect.flatMap(call(`${base}/${path}`, { authorization: null }), expectProblem(401))
      }
    }))
}

/** Registers the tests for webhooks. */
export const webhooks = (it: ServerIt): void => {
  log(it)
  secrets(it)
}
