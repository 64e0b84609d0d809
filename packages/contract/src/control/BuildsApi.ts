/**
 * The operations on builds, a part of the control API (docs/operations/builds.md).
 *
 * ```
 *   /api/v1/endpoints/{endpoint}/build-settings            GET, PUT  how the endpoint is built
 *   /api/v1/endpoints/{endpoint}/builds                    GET       newest first
 *                                                          POST      start
 *   /api/v1/endpoints/{endpoint}/builds/{number}           GET
 *   /api/v1/endpoints/{endpoint}/builds/{number}/logs      GET       the log, even while the build runs
 *   /api/v1/endpoints/{endpoint}/builds/{number}/log-events  GET     the log as it is written, as Server-Sent Events
 *   /api/v1/endpoints/{endpoint}/builds/{number}/cancel    POST
 *   /api/v1/endpoints/{endpoint}/builds/{number}/deploy    POST      deploy the image of an earlier build
 *   /api/v1/endpoints/{endpoint}/build-hook                POST      webhooks of Git hosts, signed instead of authorized by a key
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { ControlAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, BuildNotFound, Conflict, Forbidden, InvalidRequest, Unavailable } from "../Problem.ts"
import { Build, BuildHookResult, BuildLogEvent, BuildLogLine, BuildRequest, BuildSettings } from "./Build.ts"
import { Release } from "./Release.ts"

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }

/** The maximum number of builds in a page. */
const LIST_LIMIT = 100

/** The maximum number of log lines in a page. */
export const BUILD_LOG_LIMIT = 1_000

const integerText = (description: string, minimum: number, maximum: number) =>
  Schema.String.annotate({ description }).pipe(
    Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString)
  )

const build = { ...endpoint, number: integerText("The build's number.", 1, Number.MAX_SAFE_INTEGER) }

const exampleSettings = {
  repository: "https://git.example.com/team/words.git",
  ref: "main",
  context: "worker",
  dockerfile: "worker/Dockerfile"
}

/** The operations on builds. */
export class BuildsApi extends HttpApiGroup.make("builds")
  .add(
    HttpApiEndpoint.get("getBuildSettings", "/endpoints/:endpoint/build-settings", {
      params: endpoint,
      success: BuildSettings,
      error: [BuildNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get build settings",
      description: "Returns how the endpoint is built."
    })),
    HttpApiEndpoint.put("setBuildSettings", "/endpoints/:endpoint/build-settings", {
      params: endpoint,
      payload: BuildSettings,
      success: BuildSettings,
      error: [InvalidRequest, ...bodyErrors, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Set build settings",
      description:
        "Replaces an endpoint's build settings. The endpoint need not exist yet: its first successful build creates it. Builds that have " +
        "started keep their settings.",
      request: exampleSettings
    })),
    HttpApiEndpoint.get("listBuilds", "/endpoints/:endpoint/builds", {
      params: endpoint,
      query: {
        limit: Schema.optionalKey(integerText(`The maximum number of builds: 1 to ${LIST_LIMIT}. Default: 20.`, 1, LIST_LIMIT)),
        before: Schema.optionalKey(integerText("Only builds with a lower number.", 1, Number.MAX_SAFE_INTEGER))
      },
      success: Schema.Struct({ builds: Schema.Array(Build) }),
      error: [InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List builds",
      description: "Lists the builds of an endpoint, newest first. The platform keeps the last 50."
    })),
    HttpApiEndpoint.post("startBuild", "/endpoints/:endpoint/builds", {
      params: endpoint,
      payload: BuildRequest,
      success: Build.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, ...bodyErrors, BuildNotFound, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Start a build",
      description:
        "Builds the endpoint's repository with a copy of its current build settings, and deploys the image by digest. Builds run one after the " +
        "other. Returns 409 with the reason when this platform cannot build, for example because no container engine responds.",
      bodyOptional: true,
      request: {}
    })),
    HttpApiEndpoint.get("getBuild", "/endpoints/:endpoint/builds/:number", {
      params: build,
      success: Build,
      error: [BuildNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get a build",
      description: "Returns a build with its settings and its state."
    })),
    HttpApiEndpoint.get("buildLogs", "/endpoints/:endpoint/builds/:number/logs", {
      params: build,
      query: {
        after: Schema.optionalKey(
          integerText("Only lines after this number: the `cursor` of the previous page.", 0, Number.MAX_SAFE_INTEGER)
        ),
        limit: Schema.optionalKey(
          integerText(`The maximum number of lines: 1 to ${BUILD_LOG_LIMIT}. Default: 200.`, 1, BUILD_LOG_LIMIT)
        )
      },
      success: Schema.Struct({
        lines: Schema.Array(BuildLogLine),
        /** Pass it as `after` to read more. */
        cursor: Schema.Int,
        /** Whether more lines are stored, or may follow because the build has not ended. */
        more: Schema.Boolean
      }),
      error: [BuildNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Read a build's log",
      description:
        "Returns the lines of the log, oldest first. To follow a running build, pass the `cursor` of the response as `after`, and repeat while " +
        "`more` is true. The values of secrets are masked."
    })),
    HttpApiEndpoint.get("buildLogEvents", "/endpoints/:endpoint/builds/:number/log-events", {
      params: build,
      query: {
        after: Schema.optionalKey(integerText("Only lines after this number.", 0, Number.MAX_SAFE_INTEGER))
      },
      success: HttpApiSchema.StreamSse({ events: BuildLogEvent }),
      error: [BuildNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Follow a build's log",
      description:
        "Sends the stored lines of the log, then each new line, and finally the event `end` with the build, as Server-Sent Events. The id of an event " +
        "is the line's number. A reader that sends it as `Last-Event-ID`, which takes precedence over `after`, continues after that line. A connection ends after " +
        "five minutes; reconnect unless `end` was received. After `end`, the response is 204. The values of secrets are masked.",
      parameters: [{
        name: "Last-Event-ID",
        in: "header",
        description: "The `id` of the last received event. Browsers send it automatically.",
        schema: { type: "string" },
        example: "42"
      }]
    })),
    HttpApiEndpoint.post("cancelBuild", "/endpoints/:endpoint/builds/:number/cancel", {
      params: build,
      success: Build,
      error: [BuildNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Cancel a build",
      description: "Stops a queued or running build, and returns it. Does not change a build that has ended."
    })),
    HttpApiEndpoint.post("deployBuild", "/endpoints/:endpoint/builds/:number/deploy", {
      params: build,
      success: Release.pipe(HttpApiSchema.status(201)),
      error: [BuildNotFound, InvalidRequest, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Deploy the image of a build",
      description:
        "Deploys the image of an earlier successful build with the endpoint's current settings. `rollback` also returns to earlier settings."
    }))
  )
  .middleware(ControlAuthorization)
  .add(
    HttpApiEndpoint.post("buildHook", "/endpoints/:endpoint/build-hook", {
      params: endpoint,
      payload: Schema.Json,
      success: BuildHookResult,
      error: [InvalidRequest, ...bodyErrors, Forbidden, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Receive a webhook of a Git host",
      description:
        "Receives push and release events of GitHub, GitLab and Gitea. Needs no key: the request must be signed with the secret that " +
        "`webhookSecret` of the build settings names. A release starts a build of its tag. A push to the settings' branch starts a build while " +
        "the endpoint has no successful build; afterwards only if `onPush` is true.",
      request: { ref: "refs/heads/main" }
    }))
  )
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Builds", description: "Build endpoints from Git repositories" }))
{}
