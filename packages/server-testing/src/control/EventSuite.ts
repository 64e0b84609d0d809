/**
 * Tests the platform's events over HTTP (docs/operations/alerts.md#follow-what-happens).
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { BatchReceipt } from "@stint/contract/Batch"
import { PlatformEvent } from "@stint/contract/PlatformEvent"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as EventReader from "../EventReader.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const created = expectJson(201, NewKey)
const draft = expectJson(200, BatchReceipt)

const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(PlatformEvent))

const read = Effect.fnUntraced(function*(query: string, key = ADMIN_KEY, headers: Readonly<Record<string, string>> = {}) {
  const { baseUrl } = yield* ServerTest
  const reader = yield* EventReader.open(`${baseUrl}/api/v1/events${query}`, { authorization: `Bearer ${key}`, ...headers })
  const next = Effect.gen(function*() {
    const sent = yield* reader.next
    return { id: sent?.id ?? "", event: yield* Effect.orDie(decode(sent?.data)) }
  })
  /** The events up to the first of this type. */
  const upTo = Effect.fnUntraced(function*(type: PlatformEvent["type"]) {
    const events: Array<PlatformEvent> = []
    while (true) {
      const { event } = yield* next
      events.push(event)
      if (event.type === type) return events
    }
  })
  return { ...reader, next, upTo }
})

/** An event without its time. */
const withoutTime = ({ at, ...rest }: PlatformEvent) => {
  expect(at).toBeGreaterThan(1_600_000_000_000)
  return rest
}

/** Registers the tests. */
export const platformEvents = (it: ServerIt): void => {
  it.effect("events: reports the life of a job and its worker in order, only for the requested endpoint", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint({ maxAttempts: 2 })
      const other = yield* endpoint()
      const reader = yield* read(`?endpoint=${one.id}`)
      expect(reader.status).toBe(200)
      expect(reader.headers.get("content-type")).toMatch(/^text\/event-stream/)
      yield* other.run("ignored")
      const { id } = yield* one.run("followed")
      const worker = yield* one.worker("ann")
      const job = yield* worker.next
      yield* worker.finish(job.id, "done")
      const subject = { endpoint: one.id, job: id }
      expect((yield* reader.upTo("job.ended")).map(withoutTime)).toEqual([
        { type: "job.submitted", ...subject },
        { type: "worker.ready", endpoint: one.id, worker: "ann" },
        { type: "job.started", ...subject, worker: "ann", attempt: 1 },
        { type: "job.ended", ...subject, status: "COMPLETED" }
      ])
    }).pipe(Effect.scoped))

  it.effect("events: reports the number of jobs in a batch, and the end of jobs that never ran", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const reader = yield* read(`?endpoint=${one.id}`)
      const { id } = yield* one.run("followed")
      yield* call(one.path(`cancel/${id}`), { method: "POST" })
      yield* reader.upTo("job.ended")
      const batch = yield* Effect.flatMap(call(one.path("batch"), { json: [{ input: 1 }, { input: 2 }] }), draft)
      yield* call(one.path(`batch/${batch.id}/finalize`), { method: "POST" })
      expect((yield* reader.upTo("jobs.submitted")).map(withoutTime).at(-1)).toEqual({
        type: "jobs.submitted",
        endpoint: one.id,
        count: 2
      })
      yield* call(one.path("purge-queue"), { method: "POST" })
      expect((yield* reader.next).event).toMatchObject({ type: "job.ended", status: "CANCELLED" })
      expect((yield* reader.next).event).toMatchObject({ type: "job.ended", status: "CANCELLED" })
    }).pipe(Effect.scoped))

  it.effect("events: continues after the last event that the reader has received", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const first = yield* read(`?endpoint=${one.id}`)
      yield* one.run(1)
      const { id } = yield* first.next
      yield* first.cut
      const second = yield* one.run(2)
      const resumed = yield* read(`?endpoint=${one.id}`, ADMIN_KEY, { "last-event-id": id })
      expect((yield* resumed.next).event).toMatchObject({ type: "job.submitted", job: second.id })
      const unknown = yield* read(`?endpoint=${one.id}&lastEventId=another-1-3`)
      expect((yield* unknown.next).event).toMatchObject({ type: "missed", count: null })
    }).pipe(Effect.scoped))

  it.effect("events: shows a key only its own endpoints, and requires a scope that permits reading", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const mine = yield* endpoint()
      const other = yield* endpoint()
      const secretOf = (scopes: ReadonlyArray<string>) =>
        Effect.map(
          Effect.flatMap(call("/api/v1/keys", { json: { name: "viewer", scopes, endpoints: [mine.id] } }), created),
          ({ secret }) => secret
        )
      const viewer = yield* secretOf(["jobs:read"])
      const reader = yield* read("", viewer)
      yield* other.run(1)
      const { id } = yield* mine.run(2)
      expect((yield* reader.next).event).toMatchObject({ type: "job.submitted", endpoint: mine.id, job: id })
      const authorization = `Bearer ${viewer}`
      for (const name of [other.id, "no-such-endpoint"]) {
        yield* Effect.flatMap(call(`/api/v1/events?endpoint=${name}`, { authorization }), expectProblem(403))
      }
      const submitter = yield* secretOf(["jobs:submit"])
      yield* Effect.flatMap(call("/api/v1/events", { authorization: submitter }), expectProblem(403))
      yield* Effect.flatMap(call("/api/v1/events", { authorization: "wrong" }), expectProblem(401))
      yield* Effect.flatMap(call("/api/v1/events?endpoint=no-such-endpoint"), expectProblem(404))
      yield* Effect.flatMap(call("/api/v1/events?lastEventId=7"), expectProblem(400))
    }).pipe(Effect.scoped))
}
