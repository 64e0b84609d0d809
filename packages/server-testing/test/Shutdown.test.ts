import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { open } from "../src/EventReader.ts"
import { head, statusOf } from "../src/RawSocket.ts"
import * as ServerTest from "../src/ServerTest.ts"
import { until } from "../src/TestEndpoint.ts"

const LONG = { workerWaitMs: 60_000, syncWaitMs: 60_000, streamWaitMs: 60_000, maxWaitMs: 60_000 }

/** A server that the test can close. */
const start = (listen: ServerTest.Options["listen"] = {}) =>
  Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
    const context = yield* Layer.buildWithScope(ServerTest.layer({ limits: LONG, listen }), scope)
    const closing = Effect.map(Effect.timed(Scope.close(scope, Exit.void)), ([duration]) => Duration.toMillis(duration))
    return { server: Context.get(context, ServerTest.ServerTest), closing }
  })

const refused = (server: ServerTest.ServerTest["Service"]) =>
  Effect.map(Effect.exit(Effect.scoped(server.connect)), Exit.isFailure)

describe("closing the server", () => {
  it.live("ends every wait at once and returns the current state", () =>
    Effect.gen(function*() {
      const { closing, server } = yield* start()
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run("taken")
      yield* worker.next
      const idle = yield* (yield* server.endpoint()).worker()
      const waits = yield* Effect.forkChild(Effect.all({
        take: idle.call(idle.addresses.take),
        batch: idle.call(`${idle.addresses.takeBatch}&batch_size=3`),
        stop: worker.call(worker.addresses.stop),
        runsync: endpoint.call(endpoint.path("runsync"), { json: { input: "waits" } }),
        statusSync: endpoint.call(endpoint.path(`status-sync/${id}`)),
        stream: endpoint.call(endpoint.path(`stream/${id}`))
      }, { concurrency: "unbounded" }))
      // All six requests are waiting by now: the runsync job is in the queue, and the other requests were sent earlier.
      yield* until(endpoint.health, ({ jobs }) => jobs.inQueue === 1)
      yield* Effect.sleep(50)
      const millis = yield* closing
      const answers = yield* Fiber.join(waits)
      for (const answer of [answers.take, answers.batch, answers.stop]) expect(answer).toMatchObject({ status: 204, text: "" })
      expect(answers.runsync.json).toMatchObject({ status: "IN_QUEUE" })
      expect(answers.statusSync.json).toMatchObject({ id, status: "IN_PROGRESS" })
      expect(answers.stream.json).toMatchObject({ id, status: "IN_PROGRESS", stream: [] })
      expect(millis).toBeLessThan(1_000)
      expect(yield* refused(server)).toBe(true)
    }))

  it.live("ends started responses: events stop without the end event, so clients reconnect, and runsync returns the current state", () =>
    Effect.gen(function*() {
      const { closing, server } = yield* start()
      const endpoint = yield* server.endpoint()
      const { id } = yield* endpoint.run("waits")
      const headers = { authorization: ServerTest.ADMIN_KEY }
      const reader = yield* open(`${server.baseUrl}${endpoint.path(`events/${id}`)}`, headers)
      expect((yield* reader.next)?.event).toBe("status")
      const late = yield* Effect.promise(() =>
        fetch(`${server.baseUrl}${endpoint.path("runsync")}`, { method: "POST", body: "{\"input\":1}", headers })
      )
      expect(late.headers.get("x-job-id")).toMatch(/^sync-/)
      const millis = yield* closing
      expect(yield* reader.rest).toEqual([])
      expect(yield* Effect.promise(() => late.json())).toEqual({ id: late.headers.get("x-job-id"), status: "IN_QUEUE" })
      expect(millis).toBeLessThan(1_000)
    }))

  it.live("lets a slow upload finish within the timeout", () =>
    Effect.gen(function*() {
      const { closing, server } = yield* start({ gracefulShutdownTimeout: "5 seconds" })
      const endpoint = yield* server.endpoint()
      const body = "{\"input\":\"slow\"}"
      const socket = yield* server.connect
      yield* socket.write(
        head(`POST ${endpoint.path("run")}`, {
          authorization: ServerTest.ADMIN_KEY,
          "content-length": String(body.length),
          expect: "100-continue"
        })
      )
      yield* socket.until((text) => text.includes("100 Continue"))
      yield* socket.write(body.slice(0, 4))
      const closed = yield* Effect.forkChild(closing)
      yield* until(refused(server), (is) => is)
      yield* socket.write(body.slice(4))
      expect(statusOf((yield* socket.closed).replace("HTTP/1.1 100 Continue\r\n\r\n", ""))).toBe(200)
      expect(yield* Fiber.join(closed)).toBeLessThan(2_000)
    }))

  it.live("closes after the timeout, regardless of what is still open", () =>
    Effect.gen(function*() {
      const { closing, server } = yield* start({ gracefulShutdownTimeout: "200 millis" })
      const endpoint = yield* server.endpoint()
      const upload = yield* server.connect
      yield* upload.write(
        head(`POST ${endpoint.path("run")}`, {
          authorization: ServerTest.ADMIN_KEY,
          "content-length": "1000",
          expect: "100-continue"
        })
      )
      yield* upload.until((text) => text.includes("100 Continue"))
      const silent = yield* server.connect
      const started = yield* server.connect
      yield* started.write("POST /v2/x/run HTT")
      const between = yield* server.connect
      yield* between.write(head("GET /v2/x/health"))
      yield* between.until((text) => text.includes("401"))
      const millis = yield* closing
      expect(millis).toBeLessThan(2_000)
      for (const socket of [upload, silent, started, between]) yield* socket.closed
      expect(yield* server.logs).toEqual([])
    }))

  it.live("closes at once when idle, although workers and callers keep connections open", () =>
    Effect.gen(function*() {
      const { closing, server } = yield* start()
      expect(yield* server.works).toBe(true)
      expect(yield* closing).toBeLessThan(500)
    }))
})
