/**
 * Searches over all endpoints of a key, and bulk operations.
 */
import { Api } from "@stint/contract/Api"
import { type BulkAction, BulkOperation, BulkSpec, COUNT_LIMIT, DEFAULT_HOLD_MILLIS } from "@stint/contract/Bulk"
import { CurrentManager, type SearchedText } from "@stint/contract/BulkApi"
import type { EndpointId } from "@stint/contract/Ids"
import { BulkNotFound, Conflict, InvalidRequest, problemMembers } from "@stint/contract/Problem"
import { TEXT_LENGTH } from "@stint/contract/SearchText"
import { type BulkCaller, BulkJobs, type BulkMissing } from "@stint/queue/BulkJobs"
import { JobQueue } from "@stint/queue/JobQueue"
import { cursorOf, cursorText, type SearchedTexts } from "@stint/queue/JobSearches"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { auditTarget } from "../audit/AuditMiddleware.ts"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { mapListErrors, mapStoreErrors, unavailable } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"
import { parsedQuery, searchedEndpoints } from "./JobSearchRequest.ts"
import { jobListItem } from "./JobView.ts"

const HINT = "Send {\"action\": \"retry\", \"query\": \"status:failed endpoint:resize since:2h\"}. Actions: retry, cancel, rerun."

const decodeSpec = decoder(BulkSpec, HINT, { unknown: "error" })
const encode = Schema.encodeSync(BulkOperation)

const missing = ({ id }: BulkMissing) =>
  new BulkNotFound(problemMembers(
    `There is no bulk operation "${excerpt(id)}", or this key may not see it.`,
    "List them with: stint jobs bulk. The platform keeps the newest 1,000."
  ))

const mapErrors = <A, R>(effect: Effect.Effect<A, StoreError | BulkMissing, R>) =>
  Effect.catchTags(effect, { StoreError: unavailable, BulkMissing: (error) => Effect.fail(missing(error)) })

const STATUSES = { retry: "FAILED or TIMED_OUT", cancel: "IN_QUEUE or IN_PROGRESS", rerun: "ended" } as const

const pointless = (action: BulkAction) =>
  new InvalidRequest({
    ...problemMembers(
      `The query names no status in which ${action} can change a job. It changes jobs that are ${STATUSES[action]}.`,
      "Remove the term status: the operation then selects the jobs that it can change."
    ),
    errors: [{ path: ["query"], message: `expected a status in which ${action} changes a job` }]
  })

/** The caller in the form that bulk operations store. */
const callerOf = ({ endpoints, key, limits, name }: CurrentManager["Service"]): BulkCaller => ({
  key,
  name,
  endpoints,
  ...(limits === undefined ? {} : { limits })
})

const searchedText = ({ behind, from, state, undecided }: SearchedTexts): SearchedText => ({
  index: state,
  from,
  behind,
  characters: TEXT_LENGTH,
  undecided
})

/** The handlers. */
export const layer = HttpApiBuilder.group(
  Api,
  "bulk",
  Effect.fnUntraced(function*(handlers) {
    const bulk = yield* BulkJobs
    const queue = yield* JobQueue
    const limits = yield* Limits
    const findEndpoints = yield* searchedEndpoints

    const scopeOf = Effect.fnUntraced(function*(text: string | undefined) {
      const { endpoints: permitted } = yield* CurrentManager
      const search = yield* parsedQuery(text ?? "")
      const endpoints = new Map((yield* findEndpoints(search, permitted)).map((one) => [one.id, one] as const))
      const ids: ReadonlyArray<EndpointId> = [...endpoints.keys()]
      return { endpoints, scope: { endpoints: ids, search, now: yield* Clock.currentTimeMillis } }
    })

    return handlers
      .handle(
        "searchJobs",
        Effect.fnUntraced(function*({ query: { cursor, limit, query } }) {
          const { endpoints, scope } = yield* scopeOf(query)
          const after = yield* mapListErrors(cursorOf(cursor))
          const { jobs, next, text } = yield* mapStoreErrors(queue.search({ ...scope, limit, after }))
          return {
            jobs: jobs.map((job) => ({
              endpoint: job.endpoint,
              ...jobListItem(job, endpoints.get(job.endpoint) ?? { errorTraceback: "none" })
            })),
            cursor: cursorText(next),
            ...(text === undefined ? {} : { text: searchedText(text) })
          }
        })
      )
      .handle(
        "countJobs",
        Effect.fnUntraced(function*({ query: { action, query } }) {
          const { scope } = yield* scopeOf(query)
          if (action === undefined) return yield* mapStoreErrors(queue.count(scope, COUNT_LIMIT))
          const by = callerOf(yield* CurrentManager)
          return yield* Effect.catchTags(bulk.count({ action, search: scope.search, by }), {
            StoreError: unavailable,
            BulkPointless: () => Effect.fail(pointless(action))
          })
        })
      )
      .handle(
        "listBulk",
        Effect.fnUntraced(function*() {
          const caller = callerOf(yield* CurrentManager)
          return { operations: yield* mapStoreErrors(bulk.list(caller)) }
        })
      )
      .handleRaw(
        "startBulk",
        Effect.fnUntraced(function*({ request }) {
          const by = callerOf(yield* CurrentManager)
          const text = yield* readText(request, limits.controlBytes, "A query has at most 1,000 characters.")
          const { action, holdMs = DEFAULT_HOLD_MILLIS, query } = yield* decodeSpec(yield* parseJson(text, HINT))
          if (query.trim() === "") {
            return yield* new InvalidRequest({
              ...problemMembers(
                "The query is empty, so it would match every job.",
                "Name the jobs, for example with endpoint:NAME or status:failed."
              ),
              errors: [{ path: ["query"], message: "expected at least one term" }]
            })
          }
          const { scope: { search } } = yield* scopeOf(query)
          const started = yield* bulk.start({ action, search, holdMs, by }).pipe(
            Effect.catchTags({
              StoreError: unavailable,
              BulkPointless: () => Effect.fail(pointless(action)),
              BulkBusy: ({ limit }) =>
                Effect.fail(
                  new Conflict(problemMembers(
                    `${limit} bulk operations have not ended, the most that may be held or running.`,
                    "Wait for one, or cancel one: stint jobs bulk."
                  ))
                )
            })
          )
          yield* auditTarget("bulk", started.id)
          return HttpServerResponse.jsonUnsafe(encode(started), { status: 201 })
        })
      )
      .handle(
        "getBulk",
        Effect.fnUntraced(function*({ params }) {
          const caller = callerOf(yield* CurrentManager)
          return yield* mapErrors(bulk.get(params.bulk, caller))
        })
      )
      .handle(
        "cancelBulk",
        Effect.fnUntraced(function*({ params }) {
          const caller = callerOf(yield* CurrentManager)
          return yield* mapErrors(bulk.cancel(params.bulk, caller))
        })
      )
  })
)
