/**
 * Error groups over all endpoints of a key.
 */
import { Api } from "@stint/contract/Api"
import { CurrentManager } from "@stint/contract/BulkApi"
import type { Endpoint } from "@stint/contract/Endpoint"
import { ErrorGroup, type ErrorGroupDetail, ErrorResolution } from "@stint/contract/ErrorGroup"
import { searchOf } from "@stint/contract/JobSearch"
import { ErrorGroupNotFound, problemMembers, type Unavailable } from "@stint/contract/Problem"
import { JobQueue } from "@stint/queue/JobQueue"
import { type ErrorGroupRecord, ErrorGroupStore, GROUP_RETENTION_MILLIS } from "@stint/store/ErrorGroupStore"
import { ERROR_PREVIEW_LENGTH } from "@stint/store/JobQuery"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { mapStoreErrors, unavailable } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"
import { errorGroupView, matchesFilter } from "./ErrorGroupView.ts"
import { searchedEndpoints } from "./JobSearchRequest.ts"
import { jobListItem } from "./JobView.ts"

const HINT = "Send nothing, or {\"release\": 12}: the last release with the fault."

const decodeResolution = decoder(ErrorResolution, HINT, { unknown: "error" })
const encode = Schema.encodeSync(ErrorGroup)

const DEFAULT_LIMIT = 50

const missing = (endpoint: string, fingerprint: string) =>
  new ErrorGroupNotFound(problemMembers(
    `The endpoint "${excerpt(endpoint)}" has no error group "${excerpt(fingerprint)}".`,
    `List them with: stint errors ${excerpt(endpoint)}. The platform keeps the 200 last seen ones, for at most 90 days.`
  ))

/** The handlers. */
export const layer = HttpApiBuilder.group(
  Api,
  "errors",
  Effect.fnUntraced(function*(handlers) {
    const errors = yield* ErrorGroupStore
    const releases = yield* ReleaseStore
    const queue = yield* JobQueue
    const limits = yield* Limits
    const findEndpoints = yield* searchedEndpoints

    /** The endpoints of a request that the key permits. */
    const permitted = Effect.fnUntraced(function*(endpoint: string | undefined) {
      const { endpoints } = yield* CurrentManager
      return yield* findEndpoints(searchOf({ endpoint: endpoint === undefined ? [] : [endpoint] }), endpoints)
    })

    /** The endpoint of a request that names one. */
    const oneEndpoint = Effect.fnUntraced(function*(id: string) {
      const [endpoint] = yield* permitted(id)
      return endpoint ?? (yield* Effect.die(new Error("a named endpoint is either found or an error")))
    })

    const found = (endpoint: string, fingerprint: string, group: ErrorGroupRecord | undefined) =>
      group === undefined ? Effect.fail(missing(endpoint, fingerprint)) : Effect.succeed(group)

    /** The first release whose failures match; undefined for an endpoint without releases, where all match. */
    const sinceOf = Effect.fnUntraced(function*(
      endpoint: Endpoint,
      wanted: string
    ): Effect.fn.Return<{ readonly release: number; readonly at: number } | undefined, Unavailable> {
      const release = wanted === "latest" ? endpoint.release : Number(wanted)
      if (release === undefined) return undefined
      // The first release of a configured endpoint may be made while its first jobs are already running.
      if (release === 1) return { release, at: 0 }
      const known = yield* mapStoreErrors(releases.get(endpoint.id, release))
      return { release, at: known === undefined ? Infinity : known.createdAt }
    })

    /** The most recent failed jobs of a group, as far as they still exist. */
    const samplesOf = (endpoint: Endpoint, group: ErrorGroupRecord) =>
      Effect.map(
        Effect.forEach(group.jobs, (id) =>
          Effect.catchTags(queue.get(endpoint.id, id), {
            StoreError: unavailable,
            JobMissing: () => Effect.succeed(undefined)
          })),
        (jobs): ErrorGroupDetail["samples"] =>
          jobs.flatMap((job) =>
            job === undefined
              ? []
              : [jobListItem({ ...job, error: job.error?.slice(0, ERROR_PREVIEW_LENGTH) ?? null, errorGroup: null }, endpoint)]
          )
      )

    return handlers
      .handle(
        "listErrors",
        Effect.fnUntraced(function*({ query: { endpoint: id, limit = DEFAULT_LIMIT, release, since = 0, sinceRelease, state } }) {
          const endpoints = yield* permitted(id)
          const from = Math.max(since, (yield* Clock.currentTimeMillis) - GROUP_RETENTION_MILLIS)
          const lists = yield* Effect.forEach(
            endpoints,
            Effect.fnUntraced(function*(endpoint) {
              const { groups, removed } = yield* mapStoreErrors(errors.list(endpoint.id, from))
              const filter = {
                state,
                release,
                since: sinceRelease === undefined ? undefined : yield* sinceOf(endpoint, sinceRelease)
              }
              // A list over many endpoints must not delay other requests.
              yield* Effect.yieldNow
              return {
                groups: groups.filter((group) => matchesFilter(group, filter)).map((group) => errorGroupView(group, endpoint)),
                removed: removed === 0 ? [] : [{ endpoint: endpoint.id, groups: removed }]
              }
            })
          )
          const all = lists.flatMap(({ groups }) => groups).sort((a, b) => b.lastSeen - a.lastSeen)
          return {
            groups: all.slice(0, limit),
            more: all.length > limit,
            removed: lists.flatMap(({ removed }) => removed)
          }
        })
      )
      .handle(
        "getError",
        Effect.fnUntraced(function*({ params: { endpoint: id, fingerprint } }) {
          const endpoint = yield* oneEndpoint(id)
          const group = yield* Effect.flatMap(
            mapStoreErrors(errors.get(endpoint.id, fingerprint)),
            (group) => found(id, fingerprint, group)
          )
          return { ...errorGroupView(group, endpoint), samples: yield* samplesOf(endpoint, group) }
        })
      )
      .handleRaw(
        "resolveError",
        Effect.fnUntraced(function*({ params: { endpoint: id, fingerprint }, request }) {
          const { name } = yield* CurrentManager
          const endpoint = yield* oneEndpoint(id)
          const text = yield* readText(request, limits.controlBytes, HINT)
          const { release } = text.trim() === "" ? {} : yield* decodeResolution(yield* parseJson(text, HINT))
          const resolution = { at: yield* Clock.currentTimeMillis, release: release ?? endpoint.release ?? null, by: name }
          const group = yield* Effect.flatMap(
            mapStoreErrors(errors.resolve(endpoint.id, fingerprint, resolution)),
            (group) => found(id, fingerprint, group)
          )
          return HttpServerResponse.jsonUnsafe(encode(errorGroupView(group, endpoint)))
        })
      )
      .handle(
        "reopenError",
        Effect.fnUntraced(function*({ params: { endpoint: id, fingerprint } }) {
          const endpoint = yield* oneEndpoint(id)
          const group = yield* Effect.flatMap(
            mapStoreErrors(errors.resolve(endpoint.id, fingerprint, null)),
            (group) => found(id, fingerprint, group)
          )
          return errorGroupView(group, endpoint)
        })
      )
  })
)
