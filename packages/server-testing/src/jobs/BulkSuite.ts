/**
 * Tests searches and bulk operations over HTTP (docs/operations/bulk.md).
 */
import { expect } from "@effect/vitest"
import { type KeyScope, NewKey } from "@stint/contract/AccessKey"
import { AuditPage } from "@stint/contract/AuditApi"
import { BulkOperation } from "@stint/contract/Bulk"
import { JobCount, SearchPage } from "@stint/contract/BulkApi"
import { JobPage } from "@stint/contract/JobList"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { type TestEndpoint, until } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const created = expectJson(201, BulkOperation)
const found = expectJson(200, BulkOperation)
const page = expectJson(200, SearchPage)
const listed = expectJson(200, Schema.Struct({ operations: Schema.Array(BulkOperation) }))

const query = (text: string) => `?query=${encodeURIComponent(text)}`

const isEnded = ({ state }: BulkOperation) => state === "done" || state === "cancelled"

/** Starts an operation and waits for its end. */
const run = Effect.fnUntraced(function*(json: Readonly<Record<string, Schema.Json>>, authorization?: string) {
  const { call } = yield* ServerTest
  const by = authorization === undefined ? {} : { authorization }
  const { id } = yield* Effect.flatMap(call("/api/v1/bulk", { json: { holdMs: 0, ...json }, ...by }), created)
  return yield* until(Effect.flatMap(call(`/api/v1/bulk/${id}`, by), found), isEnded)
})

/** Fails jobs of an endpoint, and returns their ids. */
const failJobs = Effect.fnUntraced(function*(endpoint: TestEndpoint, count: number, error = "no such city") {
  const worker = yield* endpoint.worker()
  const ids: Array<string> = []
  for (let n = 0; n < count; n++) {
    const { id } = yield* endpoint.run({ n }, { tags: ["nightly"], priority: n })
    yield* worker.next
    yield* worker.deliver(id, { error })
    ids.push(id)
  }
  return ids
})

const newKey = Effect.fnUntraced(function*(scopes: ReadonlyArray<KeyScope>, endpoints: ReadonlyArray<string>) {
  const { call } = yield* ServerTest
  const json = { name: "bulk", scopes, endpoints }
  const { key, secret } = yield* Effect.flatMap(call("/api/v1/keys", { json }), expectJson(201, NewKey))
  return { id: key.id, authorization: `Bearer ${secret}` }
})

/** Submits jobs with texts to two endpoints. `both`: the query that finds them. */
const submitTexts = Effect.fnUntraced(function*() {
  const { endpoint } = yield* ServerTest
  const [one, two] = [yield* endpoint(), yield* endpoint()]
  const { id: red } = yield* one.run({ text: "Red shoes" })
  const { id: blue } = yield* one.run({ text: "blue shoes" })
  const { id: other } = yield* two.run({ text: "red hat" })
  const both = `endpoint:${one.id} endpoint:${two.id}`
  return { one, red, blue, other, both, remove: Effect.andThen(one.purge, two.purge) }
})

const search = Effect.fnUntraced(function*(text: string, by: { readonly authorization?: string } = {}) {
  const { call } = yield* ServerTest
  const { jobs, text: state } = yield* Effect.flatMap(call(`/api/v1/jobs${query(text)}`, by), page)
  return { ids: jobs.map(({ id }) => id), text: state }
})

/** Registers the tests. `texts`: where the stores keep inputs and outputs. */
export const bulkOperations = (it: ServerIt, texts: "database" | "payload store"): void => {
  it.effect("finds and counts jobs by a text query on one or several endpoints", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [one, two] = [yield* endpoint(), yield* endpoint()]
      const [failed] = yield* failJobs(one, 1, "CUDA: out of memory")
      const { id: waiting } = yield* two.run({}, { tags: ["nightly"] })
      const ids = (text: string) =>
        Effect.map(Effect.flatMap(call(`/api/v1/jobs${query(text)}`), page), ({ jobs }) => jobs.map(({ id }) => id))
      const both = `endpoint:${one.id} endpoint:${two.id}`
      expect(yield* ids(both)).toEqual([waiting, failed])
      expect(yield* ids(`${both} error:"Out of Memory"`)).toEqual([failed])
      expect(yield* ids(`${both} tag:nightly status:waiting`)).toEqual([waiting])
      const first = yield* Effect.flatMap(call(`/api/v1/jobs${query(both)}&limit=1`), page)
      expect(first.jobs.map((job) => [job.endpoint, job.id])).toEqual([[two.id, waiting]])
      const next = yield* Effect.flatMap(call(`/api/v1/jobs${query(both)}&limit=1&cursor=${first.cursor}`), page)
      expect(next.jobs.map(({ id }) => id)).toEqual([failed])

      const requests = (text: string) => call(one.path(`requests${query(text)}`))
      const own = yield* Effect.flatMap(requests("status:failed since:1h"), expectJson(200, JobPage))
      expect(own.requests.map(({ id }) => id)).toEqual([failed])
      const count = (text: string) => Effect.flatMap(call(`/api/v1/jobs/count${query(text)}`), expectJson(200, JobCount))
      expect(yield* count(both)).toEqual({ count: 2, more: false })
      const retryable = yield* Effect.flatMap(
        call(`/api/v1/jobs/count${query(both)}&action=retry`),
        expectJson(200, JobCount)
      )
      expect(retryable).toEqual({ count: 1, more: false })
      yield* two.purge
    }))

  if (texts === "payload store") {
    it.effect("says for how many jobs a search by words is undecided, because their texts are in the payload store, and cancels none", () =>
      Effect.gen(function*() {
        const { blue, both, one, remove } = yield* submitTexts()
        for (const text of [`${both} text:red`, `${both} -input:red`]) {
          expect(yield* search(text)).toMatchObject({ ids: [], text: { undecided: 3 } })
        }
        const cancelled = yield* run({ action: "cancel", query: `${both} -input:red` })
        expect(cancelled).toMatchObject({ state: "done", matched: { count: 0, more: false }, done: 0 })
        expect((yield* one.status(blue)).status).toBe("IN_QUEUE")
        yield* remove
      }))
  } else {
    it.effect("finds and cancels jobs by the words of their inputs, within the endpoints of the key, and says how it searched", () =>
      Effect.gen(function*() {
        const { blue, both, one, other, red, remove } = yield* submitTexts()
        const found = yield* search(`${both} text:red`)
        expect(found.ids).toEqual([other, red])
        expect(found.text).toMatchObject({ from: null, characters: 16_384, undecided: 0 })
        expect((yield* search(both)).text).toBeUndefined()
        const by = yield* newKey(["jobs"], [one.id])
        expect((yield* search("text:red", by)).ids).toEqual([red])
        const cancelled = yield* run({ action: "cancel", query: `${both} -input:red` })
        expect(cancelled).toMatchObject({ state: "done", matched: { count: 1, more: false }, done: 1 })
        expect((yield* one.status(blue)).status).toBe("CANCELLED")
        expect((yield* one.status(red)).status).toBe("IN_QUEUE")
        yield* remove
      }))
  }

  it.effect("finds, counts and changes jobs by a query with NOT and OR, within the endpoints of the key", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [one, two] = [yield* endpoint(), yield* endpoint()]
      const [city, disk] = [yield* failJobs(one, 1), yield* failJobs(one, 1, "the disk is full")]
      const { id: waiting } = yield* two.run({}, { tags: ["nightly"] })
      const ids = (text: string, by: { readonly authorization?: string } = {}) =>
        Effect.map(Effect.flatMap(call(`/api/v1/jobs${query(text)}`, by), page), ({ jobs }) => jobs.map(({ id }) => id))
      expect(yield* ids(`endpoint:${one.id} -error:city`)).toEqual(disk)
      expect(yield* ids(`endpoint:${one.id} error:city OR endpoint:${two.id} NOT status:completed`)).toEqual([waiting, ...city])
      const own = yield* Effect.flatMap(call(one.path(`requests${query("error:city OR error:disk")}`)), expectJson(200, JobPage))
      expect(own.requests.map(({ id }) => id)).toEqual([...disk, ...city])
      const text = `endpoint:${one.id} -error:city OR endpoint:${two.id} status:waiting`
      const retried = yield* run({ action: "retry", query: text })
      expect(retried).toMatchObject({ state: "done", matched: { count: 1, more: false }, done: 1 })
      expect(retried.query).toBe(text)
      expect((yield* one.status(disk[0] ?? "")).status).toBe("IN_QUEUE")
      expect((yield* one.status(city[0] ?? "")).status).toBe("FAILED")

      // A limited key sees only its endpoints, may name no others in any alternative, and cannot tell whether an excluded one exists.
      const by = yield* newKey(["jobs"], [one.id])
      expect(yield* ids("-status:completed", by)).toEqual([...disk, ...city])
      expect(yield* ids(`-endpoint:${two.id}`, by)).toEqual(yield* ids("-endpoint:no-such-endpoint", by))
      const named = `/api/v1/jobs${query(`status:failed OR endpoint:${two.id}`)}`
      yield* Effect.flatMap(call(named, by), expectProblem(403))
      yield* Effect.flatMap(call(one.path(`requests${query(`tag:a OR endpoint:${two.id}`)}`)), expectProblem(400))
      yield* one.purge
      yield* two.purge
    }))

  it.effect("names the position of a mistake in a query, and says what to write", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const wrong = yield* Effect.flatMap(call(`/api/v1/jobs${query("tag:a status:faild")}`), expectProblem(400))
      expect(wrong.error).toContain("character 14")
      expect(wrong.error).toContain("failed")
      for (
        const path of [
          one.path(`requests${query("status:failed")}&tag=a`),
          one.path(`requests${query("endpoint:other")}`),
          `/api/v1/jobs${query("")}&cursor=nonsense`,
          `/api/v1/jobs/count${query("status:completed")}&action=retry`
        ]
      ) yield* Effect.flatMap(call(path), expectProblem(400))
      yield* Effect.flatMap(call(`/api/v1/jobs${query("endpoint:none")}`), expectProblem(404))
    }))

  it.effect("retries, cancels and reruns all matching jobs, and only them", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const failed = yield* failJobs(one, 3)
      const other = yield* failJobs(one, 1, "the disk is full")
      const where = `endpoint:${one.id} error:city`
      const retried = yield* run({ action: "retry", query: where })
      expect(retried).toMatchObject({ state: "done", matched: { count: 3, more: false }, done: 3, failed: 0, problems: [] })
      for (const id of failed) expect((yield* one.status(id)).status).toBe("IN_QUEUE")
      for (const id of other) expect((yield* one.status(id)).status).toBe("FAILED")

      const cancelled = yield* run({ action: "cancel", query: `endpoint:${one.id} tag:nightly` })
      expect(cancelled).toMatchObject({ state: "done", done: 3 })
      for (const id of failed) expect((yield* one.status(id)).status).toBe("CANCELLED")

      const rerun = yield* run({ action: "rerun", query: `endpoint:${one.id} tag:nightly` })
      expect(rerun).toMatchObject({ state: "done", done: 4 })
      const { jobs } = yield* Effect.flatMap(call(`/api/v1/jobs${query(`endpoint:${one.id} status:waiting`)}`), page)
      expect(jobs.map(({ priority, tags }) => `${priority} ${tags.join()}`).toSorted()).toEqual([
        "0 nightly",
        "0 nightly",
        "1 nightly",
        "2 nightly"
      ])
      const worker = yield* one.worker()
      const taken = yield* worker.next
      expect(taken.input).toEqual({ n: 2 })
      yield* worker.finish(taken.id, "done")
      yield* one.purge
    }))

  it.effect("changes nothing during the hold, and nothing once the operation has been cancelled", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const { id: job } = yield* one.run({})
      const json = { action: "cancel", query: `endpoint:${one.id}` }
      const held = yield* Effect.flatMap(call("/api/v1/bulk", { json }), created)
      expect(held).toMatchObject({ state: "held", query: `endpoint:${one.id}`, matched: { count: 1, more: false }, done: 0 })
      expect(held.startsAt - held.createdAt).toBeGreaterThanOrEqual(10_000)
      const cancel = Effect.flatMap(call(`/api/v1/bulk/${held.id}/cancel`, { method: "POST" }), found)
      expect(yield* cancel).toMatchObject({ state: "cancelled", done: 0 })
      expect(yield* cancel).toMatchObject({ state: "cancelled" })
      expect((yield* one.status(job)).status).toBe("IN_QUEUE")
      const all = yield* Effect.flatMap(call("/api/v1/bulk"), listed)
      expect(all.operations.find(({ id }) => id === held.id)).toMatchObject({ state: "cancelled" })
      yield* one.purge
    }))

  it.effect("reports the jobs that a quota does not admit, and changes the others", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint({ limits: { waitingJobs: 2 } })
      yield* failJobs(one, 3)
      const rerun = yield* run({ action: "rerun", query: `endpoint:${one.id}` })
      expect(rerun).toMatchObject({ state: "done", done: 2, failed: 1 })
      expect(rerun.problems[0]).toMatchObject({ endpoint: one.id, reason: expect.stringContaining("2 waiting jobs") })
      yield* one.purge
    }))

  it.effect("lets a limited key change only its own endpoints, and see only its own operations", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [mine, theirs] = [yield* endpoint(), yield* endpoint()]
      const [own, other] = [yield* mine.run({}), yield* theirs.run({})]
      const manager = yield* newKey(["jobs:read", "jobs:manage"], [mine.id])
      const { authorization } = manager
      const cancelled = yield* run({ action: "cancel", query: "status:waiting" }, authorization)
      expect(cancelled).toMatchObject({ state: "done", done: 1, createdBy: "the key \"bulk\"" })
      expect((yield* mine.status(own.id)).status).toBe("CANCELLED")
      expect((yield* theirs.status(other.id)).status).toBe("IN_QUEUE")

      const forbidden = { action: "cancel", query: `endpoint:${theirs.id}` }
      yield* Effect.flatMap(call("/api/v1/bulk", { json: forbidden, authorization }), expectProblem(403))
      yield* Effect.flatMap(call(`/api/v1/jobs${query(`endpoint:${theirs.id}`)}`, { authorization }), expectProblem(403))
      const seen = yield* Effect.flatMap(call(`/api/v1/jobs${query("")}`, { authorization }), page)
      expect(seen.jobs.map(({ id }) => id)).toEqual([own.id])

      const admin = yield* run({ action: "cancel", query: `endpoint:${theirs.id}` })
      yield* Effect.flatMap(call(`/api/v1/bulk/${admin.id}`, { authorization }), expectProblem(404))
      yield* Effect.flatMap(call(`/api/v1/bulk/${admin.id}/cancel`, { method: "POST", authorization }), expectProblem(404))
      const { operations } = yield* Effect.flatMap(call("/api/v1/bulk", { authorization }), listed)
      expect(operations.map(({ id }) => id)).toEqual([cancelled.id])

      const reader = yield* newKey(["jobs:read"], [mine.id])
      const json = { action: "cancel", query: "status:waiting" }
      const refused = yield* Effect.flatMap(
        call("/api/v1/bulk", { json, authorization: reader.authorization }),
        expectProblem(403)
      )
      expect(refused.error).toContain("jobs:manage")
      yield* Effect.flatMap(call(`/api/v1/jobs${query("")}`, { authorization: reader.authorization }), page)
      const submitter = yield* newKey(["jobs:submit"], [mine.id])
      yield* Effect.flatMap(
        call(`/api/v1/jobs${query("")}`, { authorization: submitter.authorization }),
        expectProblem(403)
      )
    }))

  it.effect("audits who started and who stopped an operation", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const json = { action: "retry", query: `endpoint:${one.id}` }
      const { id } = yield* Effect.flatMap(call("/api/v1/bulk", { json }), created)
      yield* Effect.flatMap(call(`/api/v1/bulk/${id}/cancel`, { method: "POST" }), found)
      const { entries } = yield* Effect.flatMap(call("/api/v1/audit?action=bulk&limit=50"), expectJson(200, AuditPage))
      expect(entries.filter(({ target }) => target === `bulk/${id}`).map(({ action, result }) => [action, result])).toEqual([
        ["bulk.cancelBulk", "done"],
        ["bulk.startBulk", "done"]
      ])
    }))

  it.effect("refuses an operation when twenty have not ended", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const start = call("/api/v1/bulk", { json: { action: "retry", query: `endpoint:${one.id}`, holdMs: 600_000 } })
      const before = yield* Effect.flatMap(call("/api/v1/bulk"), listed)
      const unended = before.operations.filter((operation) => !isEnded(operation)).length
      const held = yield* Effect.forEach(Array.from({ length: 20 - unended }), () => Effect.flatMap(start, created))
      expect((yield* Effect.flatMap(start, expectProblem(409))).error).toContain("20")
      for (const { id } of held) yield* Effect.flatMap(call(`/api/v1/bulk/${id}/cancel`, { method: "POST" }), found)
      const { id } = yield* Effect.flatMap(start, created)
      yield* Effect.flatMap(call(`/api/v1/bulk/${id}/cancel`, { method: "POST" }), found)
    }))

  it.effect("refuses an operation without a query, with an unknown action, or on jobs that the action cannot change", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      for (
        const json of [
          { action: "retry", query: " " },
          { action: "purge", query: "tag:a" },
          { action: "retry", query: "status:completed" },
          { action: "retry", query: "tag:a", holdMs: 600_001 },
          { action: "retry", query: "tag:a", hold: 1 },
          { action: "retry", query: "nonsense" },
          {}
        ]
      ) {
        const { hint } = yield* Effect.flatMap(call("/api/v1/bulk", { json }), expectProblem(400))
        expect(hint).not.toBe("")
      }
      yield* Effect.flatMap(call("/api/v1/bulk/none"), expectProblem(404))
    }))
}
