/** Tests attempts over real sockets, with hostile receivers. */
import { assert, it } from "@effect/vitest"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { GuardedHttp } from "@stint/http-guard"
import * as Resolver from "@stint/http-guard/Resolver"
import type { WebhookDelivery } from "@stint/store/WebhookStore"
import { verify } from "@stint/webhooks/verify"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import { createServer, type RequestListener } from "node:http"
import { attemptDelivery } from "../src/DeliveryAttempt.ts"
import { newSecret } from "../src/Signature.ts"

const SECRET = newSecret()

/** Runs a receiver on loopback while the scope is open. */
const receiver = (listener: RequestListener) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.callback<ReturnType<typeof createServer>>((resume) => {
        const server = createServer(listener)
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    ),
    (server) => {
      const address = server.address()
      return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/hook`
    }
  )

const body = toJsonText({ id: "x", status: "COMPLETED", output: "Zürich \u{1F680}".repeat(10_000) })

const deliveryTo = (url: string): WebhookDelivery => ({
  id: randomUUID(),
  job: JobId.make(randomUUID()),
  endpoint: EndpointId.make("letters"),
  event: "completed",
  url,
  state: "pending",
  createdAt: 0,
  attempts: 1,
  nextAt: 0,
  settledAt: null,
  lastStatus: null,
  lastError: null,
  body,
  traceparent: null,
  tracestate: null
})

const client = GuardedHttp.layerWith({ allow: ["127.0.0.1"] }).pipe(Layer.provide(Resolver.layer))

const attemptAt = (url: string, timeoutMs = 5_000) =>
  Effect.flatMap(GuardedHttp.GuardedHttp, (http) => attemptDelivery(http, deliveryTo(url), [SECRET], timeoutMs))

const rule = (title: string, body: () => Effect.Effect<void, unknown, GuardedHttp.GuardedHttp | Scope.Scope>) =>
  it.live(title, () => Effect.scoped(Effect.suspend(body)).pipe(Effect.provide(client)))

rule("sends the bytes that were signed", () =>
  Effect.gen(function*() {
    let verified: string | undefined
    const url = yield* receiver((request, response) => {
      const parts: Array<Buffer> = []
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", () => {
        const bytes = Buffer.concat(parts)
        verified = verify(SECRET, request.headers, bytes).id
        assert.strictEqual(bytes.toString(), body)
        response.writeHead(204).end()
      })
    })
    assert.deepStrictEqual(yield* attemptAt(url), { _tag: "Delivered", status: 204, error: null, retryAfter: undefined })
    assert.match(verified ?? "", /^[0-9a-f-]{36}$/)
  }))

rule("ends at the timeout when the receiver does not respond", () =>
  Effect.gen(function*() {
    const url = yield* receiver(() => {})
    assert.include(yield* attemptAt(url, 200), { _tag: "Retry", status: null, error: "No answer within 0.2 s." })
  }))

rule("counts a 2xx as delivered, even if its body is large, endless or truncated", () =>
  Effect.gen(function*() {
    const endings: ReadonlyArray<RequestListener> = [
      (_, response) => void response.end(Buffer.alloc(8 * 1024 * 1024)),
      (_, response) => void response.writeHead(200).write("and then"),
      (_, response) => {
        response.writeHead(200, { "content-length": "1000" }).write("half", () => response.destroy())
      }
    ]
    for (const ending of endings) {
      assert.include(yield* attemptAt(yield* receiver(ending)), { _tag: "Delivered", status: 200 })
    }
  }))

rule("is retried after a lost connection, a refused connection and a response that is not HTTP", () =>
  Effect.gen(function*() {
    const cut = yield* receiver((_, response) => void response.destroy())
    const garbled = yield* receiver((request) => void request.socket.end("220 mail.example ESMTP\r\n"))
    for (const url of [cut, garbled]) {
      const { _tag, error, status } = yield* attemptAt(url)
      assert.deepStrictEqual([_tag, status], ["Retry", null])
      assert.isNotNull(error)
    }
    const gone = yield* Effect.scoped(receiver(() => {}))
    assert.include(yield* attemptAt(gone), { _tag: "Retry", error: "no answer (ECONNREFUSED)." })
  }))

rule("does not follow redirects", () =>
  Effect.gen(function*() {
    let followed = 0
    const target = yield* receiver((_, response) => {
      followed++
      response.end()
    })
    const url = yield* receiver((_, response) => void response.writeHead(307, { location: target }).end())
    const answer = yield* attemptAt(url)
    assert.strictEqual(answer._tag, "Retry")
    assert.match(answer.error ?? "", /webhook redirects are not followed/)
    assert.strictEqual(followed, 0)
  }))

it.live("connects to no address on this machine or its network by default", () =>
  Effect.gen(function*() {
    let connections = 0
    const url = yield* receiver((_, response) => {
      connections++
      response.end()
    })
    const { port } = new URL(url)
    for (const host of ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "169.254.169.254"]) {
      const answer = yield* attemptAt(`http://${host}:${port}/`)
      assert.strictEqual(answer._tag, "Failed", host)
      assert.match(answer.error ?? "", /must not be reached.*STINT_WEBHOOKS_ALLOW/)
    }
    assert.strictEqual(connections, 0)
  }).pipe(Effect.scoped, Effect.provide(GuardedHttp.layer)))

it.live("passes on the trace context of the caller's request", () =>
  Effect.gen(function*() {
    const seen: Array<readonly [unknown, unknown]> = []
    const url = yield* receiver((request, response) => {
      seen.push([request.headers["traceparent"], request.headers["tracestate"]])
      response.end()
    })
    const http = yield* GuardedHttp.GuardedHttp
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for (const trace of [{ traceparent, tracestate: "vendor=1" }, { traceparent }, { tracestate: "vendor=1" }, {}]) {
      assert.strictEqual((yield* attemptDelivery(http, { ...deliveryTo(url), ...trace }, [SECRET], 5_000))._tag, "Delivered")
    }
    assert.deepStrictEqual(seen, [
      [traceparent, "vendor=1"],
      [traceparent, undefined],
      [undefined, undefined],
      [undefined, undefined]
    ])
  }).pipe(Effect.scoped, Effect.provide(client)))
