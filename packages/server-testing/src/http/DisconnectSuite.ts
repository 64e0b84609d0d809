/**
 * Tests clients that disconnect at the worst moment: no job is lost, and no attempt is charged.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { head, isWhole, statusOf } from "../RawSocket.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"

/**
 * Ways to disconnect after which the platform can tell whether the response arrived. It cannot tell when a FIN crosses the response: see
 * "takes again" below.
 */
const VERBS = ["reset", "halfClose"] as const

/**
 * Number of event loop turns between a submit and the disconnect, so that the disconnect happens before, during or after the delivery of the
 * job.
 */
const MOST_TURNS = 8

const turn = Effect.promise(() => new Promise<void>((done) => setImmediate(done)))

/** Registers the tests for disconnects. */
export const disconnects = (it: ServerIt): void => {
  it.effect("a worker that disconnects during its wait receives no job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({ maxAttempts: 1 })
      const gone = yield* endpoint.worker()
      const living = yield* endpoint.worker()
      const waiting = yield* Effect.forkChild(gone.call(gone.addresses.take))
      yield* until(endpoint.health, ({ workers }) => workers.idle === 1)
      yield* Fiber.interrupt(waiting)
      const { id } = yield* endpoint.run({})
      expect(yield* living.next).toMatchObject({ id })
      yield* living.finish(id, "done")
    }))

  it.effect("ignores an offer of another protocol: a caller that offers one and disconnects no longer waits", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      for (const upgrade of ["websocket", "h2c"]) {
        const socket = yield* server.connect
        const body = JSON.stringify({ input: {} })
        const headers = {
          authorization: `Bearer ${ADMIN_KEY}`,
          connection: "Upgrade",
          "content-length": String(body.length),
          "content-type": "application/json",
          upgrade
        }
        yield* socket.write(head(`POST ${endpoint.path("runsync?wait=60000")}`, headers) + body)
        const worker = yield* endpoint.worker()
        const { id } = yield* worker.next
        yield* socket.halfClose
        expect(yield* socket.closed).toBe("")
        yield* worker.finish(id, "done")
      }
      // A request whose connection stays open gets its response.
      const socket = yield* server.connect
      yield* socket.write(head("GET /v2/none/health", { connection: "Upgrade", upgrade: "websocket" }))
      expect(statusOf(yield* socket.until(isWhole))).toBe(401)
    }))

  it.effect("a worker that disconnects at the moment of a submit either has the job or does not: no job is lost", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      // With one attempt and a lease that does not expire during the test, a job that is not returned stays lost.
      const endpoint = yield* server.endpoint({ maxAttempts: 1, leaseMs: 60_000 })
      const gone = yield* endpoint.worker()
      const address = gone.addresses.take.slice(server.baseUrl.length)
      let received = 0
      const back: Array<string> = []
      for (let round = 0; round < 4 * 2 * MOST_TURNS * VERBS.length; round++) {
        const socket = yield* server.connect
        yield* socket.write(head(`GET ${address}`, { authorization: gone.key }))
        if (round % 2 === 0) yield* until(endpoint.health, ({ workers }) => workers.idle === 1)
        const submitting = yield* Effect.forkChild(endpoint.run(round))
        for (let turns = Math.trunc(round / 2) % MOST_TURNS; turns > 0; turns--) yield* turn
        const verb = VERBS[Math.trunc(round / 2 / MOST_TURNS) % VERBS.length] ?? "reset"
        yield* socket[verb]
        const { id } = yield* Fiber.join(submitting)
        // Data that arrived after the FIN was sent still counts as received.
        if (verb === "halfClose") yield* socket.closed
        const has = (yield* socket.received).includes(id)
        if (has && (yield* gone.deliver(id, { output: "by the one that hung up" })).status === 200) {
          received++
        } else {
          yield* endpoint.until(id, ({ status }) => status === "IN_QUEUE")
          back.push(id)
          // Removes the job, so that the worker of the next round does not take it.
          yield* (yield* endpoint.worker()).next
        }
      }
      // Check that the race was real: both outcomes must have occurred.
      expect(received).toBeGreaterThan(0)
      expect(back.length).toBeGreaterThan(0)
      for (const id of back) expect(Object.keys(yield* endpoint.status(id))).not.toContain("retries")
      const { jobs } = yield* endpoint.health
      expect(jobs).toEqual({ completed: received, failed: 0, inProgress: back.length, inQueue: 0, retried: 0 })
    }))

  it.effect("R8: a worker that disconnects at the moment of a stop signal receives the signal with its next call", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ leaseMs: 60_000 })
      const worker = yield* endpoint.worker()
      const address = worker.addresses.stop.slice(server.baseUrl.length)
      let delivered = 0
      for (let round = 0; round < 4 * MOST_TURNS * VERBS.length; round++) {
        const { id } = yield* endpoint.run(round)
        yield* worker.next
        const socket = yield* server.connect
        yield* socket.write(head(`GET ${address}`, { authorization: worker.key }))
        const cancelling = yield* Effect.forkChild(endpoint.cancel(id))
        for (let turns = round % MOST_TURNS; turns > 0; turns--) yield* turn
        const verb = VERBS[Math.trunc(round / MOST_TURNS) % VERBS.length] ?? "reset"
        yield* socket[verb]
        yield* Fiber.join(cancelling)
        if (verb === "halfClose") yield* socket.closed
        if ((yield* socket.received).includes(id)) delivered++
        else yield* until(worker.stops, (stops) => stops.includes(id))
      }
      expect(delivered).toBeLessThan(4 * MOST_TURNS * VERBS.length)
    }))

  it.effect("a worker that disconnected with a job and takes again, with no job in progress, gets the job again", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ leaseMs: 60_000 })
      const worker = yield* endpoint.worker()
      for (let round = 0; round < 50; round++) {
        const taking = yield* Effect.forkChild(worker.call(worker.addresses.take))
        yield* until(endpoint.health, ({ workers }) => workers.idle === 1)
        const submitting = yield* Effect.forkChild(endpoint.run(round))
        for (let turns = round % MOST_TURNS; turns > 0; turns--) yield* turn
        yield* Fiber.interrupt(taking)
        const { id } = yield* Fiber.join(submitting)
        expect(yield* worker.take(false)).toMatchObject({ id, input: round })
        yield* worker.finish(id, "done")
        expect((yield* endpoint.status(id)).status).toBe("COMPLETED")
      }
    }))

  it.effect("a job stays with its worker when the connection is cut after the worker has sent another request", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ maxAttempts: 1, leaseMs: 60_000 })
      const worker = yield* endpoint.worker()
      const path = (address: string) => address.slice(server.baseUrl.length)
      const answers = (received: string) => received.split("HTTP/1.1 200 ").length - 1
      for (let round = 0; round < 20; round++) {
        const socket = yield* server.connect
        const { id } = yield* endpoint.run(round)
        yield* socket.write(head(`GET ${path(worker.addresses.take)}`, { authorization: worker.key }))
        yield* socket.until((received) => received.includes(id))
        const progress = `{"status":"IN_PROGRESS","output":${round}}`
        yield* socket.write(
          head(`POST ${path(worker.addresses.done(id))}`, {
            authorization: worker.key,
            "content-type": "application/json",
            "content-length": String(progress.length)
          }) + progress
        )
        yield* socket.until((received) => answers(received) === 2)
        yield* socket.reset
        // Give the server time to notice the disconnect before the result arrives over another connection.
        expect((yield* endpoint.status(id)).status).toBe("IN_PROGRESS")
        for (let turns = MOST_TURNS; turns > 0; turns--) yield* turn
        expect((yield* worker.deliver(id, { output: "kept" })).status).toBe(200)
        expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: "kept" })
      }
    }))

  it.effect("a connection over which many jobs are sent has one listener", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const warnings: Array<Error> = []
      const warn = (warning: Error) => warnings.push(warning)
      yield* Effect.acquireRelease(
        Effect.sync(() => process.on("warning", warn)),
        () => Effect.sync(() => process.off("warning", warn))
      )
      const socket = yield* server.connect
      const address = worker.addresses.take.slice(server.baseUrl.length)
      for (let round = 0; round < 30; round++) {
        const { id } = yield* endpoint.run(round)
        yield* socket.write(head(`GET ${address}`, { authorization: worker.key }))
        yield* socket.until((received) => received.includes(id))
      }
      yield* turn
      expect(warnings).toEqual([])
    }))
}
