/**
 * The operations on error groups (ErrorGroup.ts).
 *
 * ```
 *   /api/v1/errors                                   GET     ?endpoint ?state ?since ?release ?sinceRelease ?limit
 *   /api/v1/errors/{endpoint}/{fingerprint}          GET     with the last failed jobs
 *   /api/v1/errors/{endpoint}/{fingerprint}/resolve  POST    the fault is fixed
 *   /api/v1/errors/{endpoint}/{fingerprint}/reopen   POST    undoes the resolution
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, EndpointNotFound, ErrorGroupNotFound, Forbidden, InvalidRequest, Unavailable } from "../Problem.ts"
import { BulkAuthorization } from "./BulkApi.ts"
import { ErrorGroup, ErrorGroupDetail, ErrorGroupList, ErrorGroupState, ErrorResolution } from "./ErrorGroup.ts"
import { timeText } from "./JobList.ts"

/** The maximum number of groups in a response. */
const LIST_LIMIT = 200

const integerText = (description: string, maximum: number) =>
  Schema.String.annotate({ description }).pipe(
    Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })), SchemaTransformation.numberFromString)
  )

const params = {
  endpoint: Schema.String.annotate({ description: "The endpoint's id." }),
  fingerprint: Schema.String.annotate({ description: "The group's fingerprint." })
}

const example = {
  endpoint: "resize",
  fingerprint: "9f2b6c1d4e5a7083",
  state: "open",
  type: "TypeError",
  message: "cannot read <value> of <path>",
  frames: ["decode (image.ts)", "handler (resize.ts)"],
  count: 12,
  firstSeen: 1_790_000_000_000,
  lastSeen: 1_790_000_600_000,
  firstRelease: 12,
  releases: [{ release: 12, count: 12, firstSeen: 1_790_000_000_000, lastSeen: 1_790_000_600_000 }],
  jobs: ["0f8fad5b-d9cb-469f-a165-70867728950e"]
}

/** The operations. */
export class ErrorsApi extends HttpApiGroup.make("errors")
  .add(
    HttpApiEndpoint.get("listErrors", "/errors", {
      query: {
        endpoint: Schema.optionalKey(Schema.String.annotate({ description: "Only groups of this endpoint." })),
        state: Schema.optionalKey(ErrorGroupState.annotate({ description: "Only groups in this state." })),
        since: Schema.optionalKey(timeText("Only groups that were seen at or after this time.")),
        release: Schema.optionalKey(integerText("Only groups that were seen in this release.", Number.MAX_SAFE_INTEGER)),
        sinceRelease: Schema.optionalKey(
          Schema.String.check(Schema.isPattern(/^(?:latest|[1-9]\d{0,14})$/)).annotate({
            description:
              "Only groups that were seen in this release or a later one: its number, or `latest` for the release that each endpoint has now. " +
              "Failures of an unknown release match if they happened after this release was made."
          })
        ),
        limit: Schema.optionalKey(integerText(`The maximum number of groups: 1 to ${LIST_LIMIT}. Default: 50.`, LIST_LIMIT))
      },
      success: ErrorGroupList,
      error: [EndpointNotFound, Forbidden, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List error groups",
      description:
        "Lists the failures of all endpoints that the key permits, grouped by error, last seen first. A group outlives its " +
        "jobs by up to 90 days; an endpoint keeps its 200 last seen groups. Requires the scope `jobs:read`, `deploy` or `admin`.",
      responses: { 200: { groups: [example], more: false, removed: [] } }
    })),
    HttpApiEndpoint.get("getError", "/errors/:endpoint/:fingerprint", {
      params,
      success: ErrorGroupDetail,
      error: [EndpointNotFound, ErrorGroupNotFound, Forbidden, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get an error group",
      description: "Returns a group with its last failed jobs that still exist, in their current state."
    })),
    HttpApiEndpoint.post("resolveError", "/errors/:endpoint/:fingerprint/resolve", {
      params,
      payload: ErrorResolution,
      success: ErrorGroup,
      error: [EndpointNotFound, ErrorGroupNotFound, Forbidden, InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Resolve an error group",
      description:
        "Marks the fault as corrected after a release: by default, after the endpoint's current one. A failure of a later release, or " +
        "of an unknown one, opens the group again. Changes no job. Requires the scope `jobs:manage`.",
      request: { release: 12 },
      bodyOptional: true,
      responses: {
        200: { ...example, state: "resolved", resolved: { at: 1_790_000_700_000, by: "the key \"ops\"", release: 12 } }
      }
    })),
    HttpApiEndpoint.post("reopenError", "/errors/:endpoint/:fingerprint/reopen", {
      params,
      success: ErrorGroup,
      error: [EndpointNotFound, ErrorGroupNotFound, Forbidden, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Open an error group again",
      description: "Undoes a resolution. Requires the scope `jobs:manage`.",
      responses: { 200: example }
    }))
  )
  .middleware(BulkAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Errors", description: "Failures, grouped by error" }))
{}
