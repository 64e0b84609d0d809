/**
 * Finds jobs of all endpoints by a text query (JobSearch.ts), and runs bulk operations on them (Bulk.ts).
 *
 * ```
 *   /api/v1/jobs                  GET     ?query ?limit ?cursor
 *   /api/v1/jobs/count            GET     ?query ?action
 *   /api/v1/bulk                  GET     the operations, newest first
 *                                 POST    create one
 *   /api/v1/bulk/{bulk}           GET     its progress
 *   /api/v1/bulk/{bulk}/cancel    POST    cancel it, or stop it
 * ```
 */
import * as Context from "effect/Context"
import { HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { security } from "../Authorization.ts"
import type { KeyEndpoints } from "../control/AccessKey.ts"
import type { KeyLimits } from "../control/Quota.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import {
  bodyErrors,
  BulkNotFound,
  Conflict,
  EndpointNotFound,
  Forbidden,
  InvalidRequest,
  Unauthorized,
  Unavailable
} from "../Problem.ts"
import { BulkAction, BulkOperation, BulkSpec } from "./Bulk.ts"
import { ListedJob, ListQuery, SearchText } from "./JobList.ts"

/** The key of a request to the operations of this group. */
export class CurrentManager extends Context.Service<CurrentManager, {
  readonly key: string
  /** For messages, such as `the key "ci"`. */
  readonly name: string
  readonly endpoints: KeyEndpoints | ReadonlyArray<string>
  readonly limits?: KeyLimits | undefined
}>()("@stint/contract/CurrentManager") {}

/** Requires a key that can read jobs; changes require the scope `jobs:manage` (`jobScopeOf`). */
export class BulkAuthorization extends HttpApiMiddleware.Service<BulkAuthorization, { provides: CurrentManager }>()(
  "@stint/contract/BulkAuthorization",
  { security, error: [Unauthorized, Forbidden] }
) {}

/** A job and its endpoint. */
export const FoundJob = Schema.Struct({ endpoint: Schema.String, ...ListedJob.fields })
export type FoundJob = typeof FoundJob.Type

/** How a query was compared with the texts of jobs. Absent for a query that does not search for words. */
export const SearchedText = Schema.Struct({
  /** `ready`: the index of words contains the jobs. `building`, `none`: the page read the jobs one by one. */
  index: Schema.Literals(["ready", "building", "none"]),
  /** Jobs from before this time are read one by one, because the index has reached its maximum size. Null: it contains all. */
  from: Schema.NullOr(Schema.Natural),
  /** The number of changed jobs that the index does not contain yet. They are read one by one. */
  behind: Schema.Natural,
  /** The number of characters of each input, output and error that are compared. */
  characters: Schema.Natural,
  /**
   * The number of jobs that the page leaves out because it is unknown whether they match: a text is longer than `characters`, or in the payload
   * store, and the compared part decides nothing.
   */
  undecided: Schema.Natural
})
export type SearchedText = typeof SearchedText.Type

/** One page of a search, newest first. */
export const SearchPage = Schema.Struct({
  /** May contain fewer jobs than `limit`, or none, even though more pages follow: check `cursor`. */
  jobs: Schema.Array(FoundJob),
  /** The cursor of the next page. Null at the end. */
  cursor: Schema.NullOr(Schema.String),
  text: Schema.optionalKey(SearchedText)
})
export type SearchPage = typeof SearchPage.Type

/** A number of jobs. */
export const JobCount = Schema.Struct({
  count: Schema.Natural,
  /** Counting stopped there: at least as many jobs match. */
  more: Schema.Boolean
})
export type JobCount = typeof JobCount.Type

const bulk = { bulk: Schema.String.annotate({ description: "The operation's id." }) }

const ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
const QUERY = "status:failed endpoint:resize since:2h"
const example = {
  id: ID,
  action: "retry",
  query: QUERY,
  state: "held",
  createdAt: 1_790_000_000_000,
  createdBy: "the key \"ops\"",
  startsAt: 1_790_000_010_000,
  matched: { count: 512, more: false },
  done: 0,
  skipped: { changed: 0, missing: 0, endpoint: 0 },
  failed: 0,
  problems: []
}

const { cursor, limit } = ListQuery

/** The operations. */
export class BulkApi extends HttpApiGroup.make("bulk")
  .add(
    HttpApiEndpoint.get("searchJobs", "/jobs", {
      query: { query: Schema.optionalKey(SearchText), limit, cursor },
      success: SearchPage,
      error: [EndpointNotFound, Forbidden, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Find jobs",
      description:
        "Lists the jobs that match a text query, of all endpoints that the key permits, newest first, without payloads. Terms: `endpoint`, `status`, " +
        "`release`, `tag`, `worker`, `batch`, `error`, `input`, `output`, `text`, `since` and `before`. A page examines at most 2,000 jobs, so it may be " +
        "empty before the end: continue with `cursor` until it is null. For a query with words, `text` says how complete the search is. Requires the scope `jobs:read`, `deploy` or `admin`."
    })),
    HttpApiEndpoint.get("countJobs", "/jobs/count", {
      query: {
        query: Schema.optionalKey(SearchText),
        action: Schema.optionalKey(BulkAction.annotate({ description: "Only jobs that this bulk action can change." }))
      },
      success: JobCount,
      error: [EndpointNotFound, Forbidden, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Count jobs",
      description:
        "Counts the jobs that match a text query, up to 10,000 matching or 50,000 examined jobs. Requires the scope `jobs:read`, `deploy` or `admin`.",
      responses: { 200: { count: 512, more: false } }
    })),
    HttpApiEndpoint.get("listBulk", "/bulk", {
      success: Schema.Struct({ operations: Schema.Array(BulkOperation) }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "List bulk operations",
      description:
        "Lists the newest 200 bulk operations, newest first. A key that is limited to endpoints sees only its own operations."
    })),
    HttpApiEndpoint.post("startBulk", "/bulk", {
      payload: BulkSpec,
      success: BulkOperation.pipe(HttpApiSchema.status(201)),
      error: [EndpointNotFound, Forbidden, InvalidRequest, ...bodyErrors, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Change all matching jobs",
      description:
        "Creates an operation that retries, cancels or reruns all jobs that match a text query and were submitted before it, on the endpoints that " +
        "the key permits. Nothing is changed during `holdMs`, 10 s by default; until then the operation can be cancelled without effect. The platform then " +
        "changes the jobs, newest first, each of them once, even if it restarts in between. Requires the scope `jobs:manage`.",
      request: { action: "retry", query: QUERY, holdMs: 10_000 },
      responses: { 201: example }
    })),
    HttpApiEndpoint.get("getBulk", "/bulk/:bulk", {
      params: bulk,
      success: BulkOperation,
      error: [BulkNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get a bulk operation",
      description: "Returns a bulk operation with its progress.",
      responses: { 200: { ...example, state: "running", done: 120 } }
    })),
    HttpApiEndpoint.post("cancelBulk", "/bulk/:bulk/cancel", {
      params: bulk,
      success: BulkOperation,
      error: [BulkNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Cancel a bulk operation",
      description:
        "Cancels a held operation, so that no job is changed, or stops a running one: jobs that it has already changed stay changed. " +
        "Returns an operation that has ended unchanged. Requires the scope `jobs:manage`.",
      responses: { 200: { ...example, state: "cancelled" } }
    }))
  )
  .middleware(BulkAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Bulk operations", description: "Find jobs, and change all that match" }))
{}
