/** Tests readers of the platform's events: slow readers, readers with revoked keys, and readers of a server that closes. */
import { expect, it } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { PlatformEvent } from "@stint/contract/PlatformEvent"
import * as PlatformEvents from "@stint/queue/PlatformEvents"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { once } from "node:events"
import { type IncomingMessage, request } from "node:http"
import { setImmediate } from "node:timers/promises"
import * as EventReader from "../src/EventReader.ts"
import * as ServerTest from "../src/ServerTest.ts"
import { expectJson } from "../src/WireClient.ts"

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(PlatformEvent))

/** A connection that reads nothing until it is asked to. */
const connect = (baseUrl: string) =>
  Effect.promise(async () => {
    const call = request(`${baseUrl}/api/v1/events`, { headers: { authorization: `Bearer ${ServerTest.ADMIN_KEY}` } })
    call.end()
    const [response]: ReadonlyArray<IncomingMessage> = await once(call, "response")
    if (response === undefined) throw new Error("no response")
    response.pause()
    return response
  })

/** Reads until an event of this type arrives. */
const readUpTo = async (response: IncomingMessage, type: PlatformEvent["type"]): Promise<ReadonlyArray<PlatformEvent>> => {
  const events: Array<PlatformEvent> = []
  let text = ""
  for await (const chunk of response.setEncoding("utf8")) {
    text += String(chunk)
    const blocks = text.split("\n\n")
    text = blocks.pop() ?? ""
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1]
      if (data !== undefined) events.push(decode(data))
    }
    if (events.at(-1)?.type === type) break
  }
  return events
}

/** Far more than the buffers of both sockets hold. */
const PUBLISHED = 60_000

it.live(
  "a reader that stops reading learns how many events it missed, and the platform does not keep those events",
  () =>
    Effect.gen(function*() {
      const server = yield* ServerTest.ServerTest
      const events = yield* PlatformEvents.PlatformEvents
      const response = yield* connect(server.baseUrl)
      const reason = "x".repeat(500)
      for (let number = 0; number < PUBLISHED; number += 1) {
        events.publish({ type: "worker.failed", endpoint: "e", worker: String(number), reason })
        // Lets the server write what the connection accepts.
        if (number % 50 === 0) yield* Effect.promise(() => setImmediate())
      }
      events.publish({ type: "endpoint.removed", endpoint: "last" })
      const read = yield* Effect.promise(() => readUpTo(response, "endpoint.removed"))
      const missed = read.reduce((sum, event) => event.type === "missed" ? sum + (event.count ?? Number.NaN) : sum, 0)
      const received = read.filter(({ type }) => type === "worker.failed")
      expect(missed).toBeGreaterThan(0)
      expect(received.length + missed).toBe(PUBLISHED)
      // In order, without repetition: the numbers increase.
      const numbers = received.flatMap((event) => event.type === "worker.failed" ? [Number(event.worker)] : [])
      expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
      expect(new Set(numbers).size).toBe(numbers.length)
      response.destroy()
    }).pipe(Effect.provide(ServerTest.layer().pipe(Layer.provideMerge(PlatformEvents.layer({ capacity: 100 }))))),
  60_000
)

it.live("a reader's response ends with its position after its maximum duration, and a revoked key reads nothing more", () =>
  Effect.gen(function*() {
    const server = yield* ServerTest.ServerTest
    const events = yield* PlatformEvents.PlatformEvents
    const made = yield* Effect.flatMap(
      server.call("/api/v1/keys", { json: { name: "viewer", scopes: ["jobs:read"], endpoints: "all" } }),
      expectJson(201, NewKey)
    )
    const read = (secret: string, after?: string) =>
      Effect.promise(async () => {
        const query = after === undefined ? "" : `?lastEventId=${after}`
        const response = await fetch(`${server.baseUrl}/api/v1/events${query}`, {
          headers: { authorization: `Bearer ${secret}` }
        })
        return { status: response.status, text: await response.text() }
      })
    const first = yield* read(made.secret)
    const position = /^id: (.*)\nevent: position\n\n/m.exec(first.text)?.[1]
    events.publish({ type: "endpoint.removed", endpoint: "last" })
    const second = yield* read(made.secret, position)
    expect(second.text).toContain("event: endpoint.removed\n")
    expect(second.text).not.toContain("event: missed\n")
    yield* server.call(`/api/v1/keys/${made.key.id}/revoke`, { method: "POST" })
    expect((yield* read(made.secret, position)).status).toBe(401)
  }).pipe(
    Effect.scoped,
    Effect.provide(ServerTest.layer().pipe(Layer.provideMerge(PlatformEvents.layer({ readFor: "100 millis" }))))
  ))

it.live("a reader's response ends when the server closes", () =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(ServerTest.layer().pipe(Layer.provide(PlatformEvents.layer())), scope)
    const { baseUrl } = yield* Effect.provide(ServerTest.ServerTest, context)
    const reader = yield* EventReader.open(`${baseUrl}/api/v1/events`, { authorization: `Bearer ${ServerTest.ADMIN_KEY}` })
    const started = performance.now()
    yield* Scope.close(scope, Exit.void)
    expect(yield* reader.rest).toEqual([])
    expect(performance.now() - started).toBeLessThan(2_000)
  }).pipe(Effect.scoped))
