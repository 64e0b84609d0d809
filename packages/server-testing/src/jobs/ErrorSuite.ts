/**
 * Tests error groups over HTTP (docs/operations/errors.md).
 */
import { expect } from "@effect/vitest"
import { type KeyScope, NewKey } from "@stint/contract/AccessKey"
import { AuditPage } from "@stint/contract/AuditApi"
import { BulkOperation } from "@stint/contract/Bulk"
import { SearchPage } from "@stint/contract/BulkApi"
import { ErrorGroup, ErrorGroupDetail, ErrorGroupList } from "@stint/contract/ErrorGroup"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { type TestEndpoint, until } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const listed = expectJson(200, ErrorGroupList)
const detail = expectJson(200, ErrorGroupDetail)
const changed = expectJson(200, ErrorGroup)

/** Fails jobs of an endpoint, and returns their ids. */
const failJobs = Effect.fnUntraced(function*(endpoint: TestEndpoint, errors: ReadonlyArray<string>) {
  const worker = yield* endpoint.worker()
  const ids: Array<string> = []
  for (const error of errors) {
    const { id } = yield* endpoint.run({})
    yield* worker.next
    yield* worker.deliver(id, { error })
    ids.push(id)
  }
  return ids
})

const exception = (user: string) =>
  JSON.stringify({
    error_type: "TypeError",
    error_message: `no user '${user}'`,
    error_traceback: `TypeError: no user '${user}'\n    at find (/app/users.ts:${user.length}:7)`,
    hostname: "h1",
    worker_id: "w1",
    runpod_version: "1.2.3"
  })

const groupsOf = Effect.fnUntraced(function*(endpoint: string, query = "", authorization?: string) {
  const { call } = yield* ServerTest
  const by = authorization === undefined ? {} : { authorization }
  return (yield* Effect.flatMap(call(`/api/v1/errors?endpoint=${endpoint}${query}`, by), listed)).groups
})

/** The only group of an endpoint. */
const groupOf = (endpoint: string) =>
  Effect.flatMap(groupsOf(endpoint), ([group, ...others]) => {
    expect(others).toEqual([])
    return group === undefined ? Effect.die(new Error("there is no group")) : Effect.succeed(group)
  })

const newKey = Effect.fnUntraced(function*(scopes: ReadonlyArray<KeyScope>, endpoints: ReadonlyArray<string>) {
  const { call } = yield* ServerTest
  const json = { name: "errors", scopes, endpoints }
  const { secret } = yield* Effect.flatMap(call("/api/v1/keys", { json }), expectJson(201, NewKey))
  return `Bearer ${secret}`
})

/** Registers the tests. */
export const errorGroups = (it: ServerIt): void => {
  it.effect("groups failures by their error, and shows a group with its latest jobs in their current state", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const [first = "", second = "", disk] = yield* failJobs(one, [exception("ann"), exception("bobby"), "the disk is full"])
      const groups = yield* groupsOf(one.id)
      expect(groups.map(({ count, jobs }) => [count, jobs])).toEqual([[1, [disk]], [2, [second, first]]])
      const [, users] = groups
      expect(users).toMatchObject({
        endpoint: one.id,
        state: "open",
        type: "TypeError",
        message: "no user <value>",
        frames: ["find (users.ts)"]
      })
      yield* one.retry(first)
      const path = `/api/v1/errors/${one.id}/${users?.fingerprint}`
      const { samples, ...shown } = yield* Effect.flatMap(call(path), detail)
      expect(shown).toEqual(users)
      expect(samples.map(({ id, status }) => [id, status])).toEqual([[second, "FAILED"], [first, "IN_QUEUE"]])
      expect(samples[0]?.error).toContain("no user 'bobby'")

      const query = encodeURIComponent(`endpoint:${one.id} error-group:${users?.fingerprint}`)
      const found = yield* Effect.flatMap(call(`/api/v1/jobs?query=${query}`), expectJson(200, SearchPage))
      expect(found.jobs.map(({ id }) => id)).toEqual([second])
      yield* one.purge
      const json = { action: "retry", query: `endpoint:${one.id} error-group:${users?.fingerprint}`, holdMs: 0 }
      const { id } = yield* Effect.flatMap(call("/api/v1/bulk", { json }), expectJson(201, BulkOperation))
      const bulk = yield* until(
        Effect.flatMap(call(`/api/v1/bulk/${id}`), expectJson(200, BulkOperation)),
        ({ state }) => state === "done"
      )
      expect(bulk).toMatchObject({ done: 1, failed: 0 })
      expect((yield* one.status(second)).status).toBe("IN_QUEUE")
      yield* one.purge
    }))

  it.effect("shows no stack frames for an endpoint that hides tracebacks", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint({ errorTraceback: "none" })
      yield* failJobs(one, [exception("ann")])
      expect(yield* groupOf(one.id)).toMatchObject({ type: "TypeError", frames: [] })
    }))

  it.effect("finds what failed since a time, and since the last release", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      yield* failJobs(one, ["before"])
      const [before] = yield* groupsOf(one.id)
      const lastSeen = before?.lastSeen ?? 0
      const since = (query: string) => Effect.map(groupsOf(one.id, query), (groups) => groups.map(({ message }) => message))
      expect(yield* since("&sinceRelease=latest")).toEqual(["before"])
      // The endpoint's workers are external and report no release, so the times decide.
      yield* Effect.sleep(5)
      const spec = { id: one.id, source: { type: "external" }, maxAttempts: 4 }
      expect((yield* call(`/api/v1/endpoints/${one.id}`, { method: "PUT", json: spec })).status).toBe(200)
      expect((yield* call(`/api/v1/endpoints/${one.id}`)).json).toMatchObject({ release: 2 })
      expect(yield* since("&sinceRelease=latest")).toEqual([])
      yield* failJobs(one, ["after"])
      expect(yield* since("&sinceRelease=latest")).toEqual(["after"])
      expect(yield* since("&sinceRelease=2")).toEqual(["after"])
      expect(yield* since("&sinceRelease=1")).toEqual(["after", "before"])
      expect(yield* since(`&since=${lastSeen}`)).toEqual(["after", "before"])
      expect(yield* since(`&since=${lastSeen + 1}`)).toEqual(["after"])
      expect(yield* since("&release=2")).toEqual([])
      const page = yield* Effect.flatMap(call(`/api/v1/errors?endpoint=${one.id}&limit=1`), listed)
      expect([page.groups.map(({ message }) => message), page.more, page.removed]).toEqual([["after"], true, []])
    }))

  it.effect("resolves a group up to a release, and reopens it by hand or on a failure that the resolution did not expect", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      yield* failJobs(one, ["bad"])
      const { fingerprint } = yield* groupOf(one.id)
      const path = `/api/v1/errors/${one.id}/${fingerprint}`
      const resolved = yield* Effect.flatMap(call(`${path}/resolve`, { method: "POST" }), changed)
      expect(resolved).toMatchObject({ state: "resolved", resolved: { by: "the platform's API key", release: 1 } })
      expect(yield* groupsOf(one.id, "&state=open")).toEqual([])
      expect((yield* groupsOf(one.id, "&state=resolved")).map((group) => group.fingerprint)).toEqual([fingerprint])
      expect((yield* Effect.flatMap(call(`${path}/reopen`, { method: "POST" }), changed)).state).toBe("open")
      const later = yield* Effect.flatMap(call(`${path}/resolve`, { json: { release: 7 } }), changed)
      expect(later.resolved?.release).toBe(7)
      yield* failJobs(one, ["bad"])
      const again = yield* groupOf(one.id)
      expect(again).toMatchObject({ state: "open", count: 2 })
      expect(again.reopenedAt).toBe(again.lastSeen)
      expect(again).not.toHaveProperty("resolved")

      const { entries } = yield* Effect.flatMap(call("/api/v1/audit?action=errors&limit=50"), expectJson(200, AuditPage))
      expect(
        entries.filter(({ target }) => target === `endpoint/${one.id}/error/${fingerprint}`).map(({ action, result }) => [
          action,
          result
        ])
      ).toEqual([["errors.resolveError", "done"], ["errors.reopenError", "done"], ["errors.resolveError", "done"]])
    }))

  it.effect("shows a limited key only the groups of its endpoints, and lets only a key that may manage jobs resolve them", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const [mine, theirs] = [yield* endpoint(), yield* endpoint()]
      yield* failJobs(mine, ["mine"])
      yield* failJobs(theirs, ["theirs"])
      const reader = yield* newKey(["jobs:read"], [mine.id])
      const { groups } = yield* Effect.flatMap(call("/api/v1/errors", { authorization: reader }), listed)
      expect(groups.map(({ message }) => message)).toEqual(["mine"])
      const own = `/api/v1/errors/${mine.id}/${groups[0]?.fingerprint}`
      const other = `/api/v1/errors/${theirs.id}/${(yield* groupOf(theirs.id)).fingerprint}`
      yield* Effect.flatMap(call(own, { authorization: reader }), detail)
      yield* Effect.flatMap(call(`/api/v1/errors?endpoint=${theirs.id}`, { authorization: reader }), expectProblem(403))
      yield* Effect.flatMap(call(other, { authorization: reader }), expectProblem(403))
      const refused = yield* Effect.flatMap(
        call(`${own}/resolve`, { method: "POST", authorization: reader }),
        expectProblem(403)
      )
      expect(refused.error).toContain("jobs:manage")
      const manager = yield* newKey(["jobs:read", "jobs:manage"], [mine.id])
      const resolved = yield* Effect.flatMap(call(`${own}/resolve`, { method: "POST", authorization: manager }), changed)
      expect(resolved.resolved?.by).toBe("the key \"errors\"")
      for (const action of ["resolve", "reopen"]) {
        yield* Effect.flatMap(call(`${other}/${action}`, { method: "POST", authorization: manager }), expectProblem(403))
      }
      const submitter = yield* newKey(["jobs:submit"], [mine.id])
      yield* Effect.flatMap(call("/api/v1/errors", { authorization: submitter }), expectProblem(403))
    }))

  it.effect("refuses unknown endpoints and groups, and invalid filters and bodies", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint()
      yield* Effect.flatMap(call("/api/v1/errors?endpoint=nobody"), expectProblem(404))
      const unknown = `/api/v1/errors/${one.id}/0123456789abcdef`
      const { hint } = yield* Effect.flatMap(call(unknown), expectProblem(404))
      expect(hint).toContain(`stint errors ${one.id}`)
      for (const action of ["resolve", "reopen"]) {
        yield* Effect.flatMap(call(`${unknown}/${action}`, { method: "POST" }), expectProblem(404))
      }
      for (const json of [{ release: 0 }, { release: "1" }, { releases: 1 }, []]) {
        yield* Effect.flatMap(call(`${unknown}/resolve`, { json }), expectProblem(400))
      }
      for (const query of ["sinceRelease=last", "sinceRelease=0", "release=x", "since=yesterday", "state=new", "limit=201"]) {
        yield* Effect.flatMap(call(`/api/v1/errors?${query}`), expectProblem(400))
      }
    }))
}
