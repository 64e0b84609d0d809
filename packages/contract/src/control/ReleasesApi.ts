/**
 * The operations on releases, a part of the control API.
 *
 * ```
 *   /api/v1/endpoints/{endpoint}/releases            GET newest first   POST deploy
 *   /api/v1/endpoints/{endpoint}/releases/preview    POST what a deployment would change
 *   /api/v1/endpoints/{endpoint}/releases/{number}   GET
 *   /api/v1/endpoints/{endpoint}/rollback            POST deploy an earlier release
 *   /api/v1/endpoints/{endpoint}/promote             POST make the canary the release of all jobs
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { ControlAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, Conflict, EndpointNotFound, InvalidRequest, ReleaseNotFound, Unavailable } from "../Problem.ts"
import { Audited } from "./Audit.ts"
import { CanaryStatus, Release, ReleasePreview, ReleaseSpec, RollbackSpec } from "./Release.ts"

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }

/** The maximum number of releases in a page. */
const LIST_LIMIT = 100

const integerText = (description: string, maximum: number) =>
  Schema.String.annotate({ description }).pipe(
    Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum })), SchemaTransformation.numberFromString)
  )

const exampleSpec = { spec: { id: "hello", source: { type: "handler", file: "./handler.ts" }, workers: { min: 0, max: 3 } } }

/** The operations on releases. */
export class ReleasesApi extends HttpApiGroup.make("releases")
  .add(
    HttpApiEndpoint.get("listReleases", "/endpoints/:endpoint/releases", {
      params: endpoint,
      query: {
        limit: Schema.optionalKey(integerText(`The maximum number of releases: 1 to ${LIST_LIMIT}. Default: 20.`, LIST_LIMIT)),
        before: Schema.optionalKey(integerText("Only releases with a lower number.", Number.MAX_SAFE_INTEGER))
      },
      success: Schema.Struct({ releases: Schema.Array(Release), canary: Schema.optionalKey(CanaryStatus) }),
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List releases",
      description:
        "Lists the releases of an endpoint, newest first. The platform keeps the last 20, and always the active one. " +
        "`canary` counts how the attempts of a canary and of the active release ended."
    })),
    HttpApiEndpoint.get("getRelease", "/endpoints/:endpoint/releases/:number", {
      params: { ...endpoint, number: integerText("The release's number.", Number.MAX_SAFE_INTEGER) },
      success: Release,
      error: [EndpointNotFound, ReleaseNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get a release",
      description: "Returns a release with its settings and its state."
    })),
    HttpApiEndpoint.post("deployRelease", "/endpoints/:endpoint/releases", {
      params: endpoint,
      payload: ReleaseSpec,
      success: [Release, Release.pipe(HttpApiSchema.status(201))],
      error: [InvalidRequest, ...bodyErrors, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Deploy a release",
      description:
        "Creates a release of these settings and the handler's current code, and creates the endpoint if it does not exist. Workers of the " +
        "new release start; the earlier ones serve until one of the new ones is ready. Returns 201 with the release, 200 with the active release " +
        "when nothing differs from it, and 409 when the active release is no longer `expected`. With `canary`, a part of the jobs runs " +
        "on the release until it is promoted. It is rolled back if it fails more jobs than the active release.",
      request: { ...exampleSpec, message: "Answer in Italian" }
    })),
    HttpApiEndpoint.post("previewRelease", "/endpoints/:endpoint/releases/preview", {
      params: endpoint,
      payload: Schema.Struct({ spec: ReleaseSpec.fields.spec }),
      success: ReleasePreview,
      error: [InvalidRequest, ...bodyErrors, Unavailable]
    }).annotate(Audited, false).annotateMerge(operationDocs({
      summary: "Preview a deployment",
      description:
        "Returns the changes that deploying these settings and the handler's current code would make. Changes nothing.",
      request: exampleSpec
    })),
    HttpApiEndpoint.post("rollback", "/endpoints/:endpoint/rollback", {
      params: endpoint,
      payload: RollbackSpec,
      success: Release.pipe(HttpApiSchema.status(201)),
      error: [EndpointNotFound, ReleaseNotFound, InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Roll back",
      description:
        "Deploys an earlier release: a new release with its settings and its stored code. The handler's files are not needed. Without `to`, " +
        "the newest earlier release that was active.",
      bodyOptional: true,
      request: {}
    })),
    HttpApiEndpoint.post("promote", "/endpoints/:endpoint/promote", {
      params: endpoint,
      success: Release,
      error: [EndpointNotFound, Conflict, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Promote a canary",
      description:
        "Makes the canary the release of its endpoint: its workers replace those of the active release. Returns 409 without a canary."
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Releases", description: "Deploy endpoints, and roll them back" }))
{}
