/**
 * The control API of builds, and the webhooks of Git hosts.
 */
import type { BuildFailed, BuildMissing } from "@stint/builder/BuildError"
import { Builds } from "@stint/builder/Builds"
import * as GitWebhook from "@stint/builder/GitWebhook"
import { Api } from "@stint/contract/Api"
import { CurrentOperator } from "@stint/contract/Authorization"
import { Build, BuildRequest, BuildSettings, hasEnded } from "@stint/contract/Build"
import { EndpointId } from "@stint/contract/Ids"
import { BuildNotFound, Conflict, Forbidden, InvalidRequest, problemMembers, type Unavailable } from "@stint/contract/Problem"
import { Secrets } from "@stint/secrets/Secrets"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { auditTarget } from "../audit/AuditMiddleware.ts"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { invalidEventId, mapStoreErrors, unavailable } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"
import { sseResponse } from "../jobs/JobEventStream.ts"
import { lastEventIdOf } from "../jobs/JobsHandlers.ts"
import * as BuildLogStream from "./BuildLogStream.ts"

const settingsHint =
  "Build settings are a JSON object like {\"repository\": \"https://git.example.com/team/words.git\", \"context\": \"worker\"}."
const requestHint = "The body may be empty, or a JSON object like {\"ref\": \"main\", \"message\": \"why\"}."

// A misspelled setting would otherwise silently build something else.
const decodeSettings = decoder(BuildSettings, settingsHint, { unknown: "error" })
const decodeRequest = decoder(BuildRequest, requestHint)
const encodeBuild = Schema.encodeSync(Build)
const isEndpointId = Schema.is(EndpointId)

const DEFAULT_LIMIT = 20

const DEFAULT_LINES = 200

const missing = ({ endpoint, number }: BuildMissing) =>
  new BuildNotFound(
    number === undefined
      ? problemMembers(
        `The endpoint "${excerpt(endpoint)}" has no build settings.`,
        `Set them: PUT /api/v1/endpoints/${endpoint}/build-settings, or stint builds settings ${endpoint} --repository URL`
      )
      : problemMembers(
        `The endpoint "${excerpt(endpoint)}" has no build ${number}.`,
        `GET /api/v1/endpoints/${endpoint}/builds lists the stored ones: the last 50.`
      )
  )

const refused = ({ hint, problem }: BuildFailed) => new Conflict(problemMembers(problem, hint))

const mapErrors = <A, R>(
  effect: Effect.Effect<A, BuildMissing | StoreError, R>
): Effect.Effect<A, BuildNotFound | Unavailable, R> =>
  Effect.catchTags(effect, { StoreError: unavailable, BuildMissing: (error) => Effect.fail(missing(error)) })

const mapStartErrors = <A, R>(
  effect: Effect.Effect<A, BuildFailed | BuildMissing | StoreError, R>
): Effect.Effect<A, BuildNotFound | Conflict | Unavailable, R> =>
  Effect.catchTags(effect, {
    StoreError: unavailable,
    BuildMissing: (error) => Effect.fail(missing(error)),
    BuildFailed: (error) => Effect.fail(refused(error))
  })

export const layer = HttpApiBuilder.group(
  Api,
  "builds",
  Effect.fnUntraced(function*(handlers) {
    const builds = yield* Builds
    const secrets = yield* Secrets
    const limits = yield* Limits

    const read = (request: HttpServerRequest.HttpServerRequest, hint: string, whenEmpty?: string) =>
      Effect.flatMap(
        readText(request, limits.controlBytes, "Build settings are small. Check that the body contains only settings."),
        (text) => parseJson(whenEmpty !== undefined && text.trim() === "" ? whenEmpty : text, hint)
      )

    /** The id in a path. The endpoint need not exist yet. */
    const idOf = (text: string) =>
      isEndpointId(text) ? Effect.succeed(text) : Effect.fail(
        new InvalidRequest(problemMembers(
          `"${excerpt(text)}" is not an endpoint id.`,
          "Use 1 to 63 letters, digits, - or _, starting with a letter or a digit."
        ))
      )

    return handlers
      .handle("getBuildSettings", ({ params }) => Effect.flatMap(idOf(params.endpoint), (id) => mapErrors(builds.settings(id))))
      .handleRaw(
        "setBuildSettings",
        Effect.fnUntraced(function*({ params, request }) {
          const id = yield* idOf(params.endpoint)
          const settings = yield* decodeSettings(yield* read(request, settingsHint))
          yield* builds.saveSettings(id, settings).pipe(
            Effect.catchTags({ StoreError: unavailable, BuildFailed: (error) => Effect.fail(refused(error)) })
          )
          return settings
        })
      )
      .handle(
        "listBuilds",
        Effect.fnUntraced(function*({ params, query: { before, limit = DEFAULT_LIMIT } }) {
          return { builds: yield* mapStoreErrors(builds.list(yield* idOf(params.endpoint), { limit, before })) }
        })
      )
      .handleRaw(
        "startBuild",
        Effect.fnUntraced(function*({ params, request }) {
          const { name: createdBy } = yield* CurrentOperator
          const endpoint = yield* idOf(params.endpoint)
          const { message, ref } = yield* decodeRequest(yield* read(request, requestHint, "{}"))
          const build = yield* mapStartErrors(builds.start({ endpoint, createdBy, trigger: "manual", ref, message }))
          yield* auditTarget("build", build.number)
          return HttpServerResponse.jsonUnsafe(encodeBuild(build), { status: 201 })
        })
      )
      .handle(
        "getBuild",
        Effect.fnUntraced(function*({ params }) {
          return yield* mapErrors(builds.get(yield* idOf(params.endpoint), params.number))
        })
      )
      .handle(
        "buildLogs",
        Effect.fnUntraced(function*({ params, query: { after = 0, limit = DEFAULT_LINES } }) {
          const endpoint = yield* idOf(params.endpoint)
          // Read before the lines, because a build that has ended appends no more lines.
          const build = yield* mapErrors(builds.get(endpoint, params.number))
          const lines = yield* mapStoreErrors(builds.log(endpoint, params.number, after, limit))
          return { lines, cursor: lines.at(-1)?.number ?? after, more: lines.length === limit || !hasEnded(build) }
        })
      )
      .handleRaw(
        "buildLogEvents",
        Effect.fnUntraced(function*({ params, query: { after = 0 }, request }) {
          const endpoint = yield* idOf(params.endpoint)
          // Runs before the stream starts, while an error status can still be sent.
          yield* mapErrors(builds.get(endpoint, params.number))
          const last = lastEventIdOf(request, undefined)
          if (last === BuildLogStream.END) return HttpServerResponse.empty({ status: 204 })
          if (last !== undefined && !/^\d{1,15}$/.test(last)) return yield* invalidEventId(last)
          const from = last === undefined ? after : Number(last)
          return sseResponse(BuildLogStream.follow(builds, { endpoint, number: params.number }, from), limits.heartbeatMs)
        })
      )
      .handle(
        "cancelBuild",
        Effect.fnUntraced(function*({ params }) {
          const { name } = yield* CurrentOperator
          return yield* mapErrors(builds.cancel(yield* idOf(params.endpoint), params.number, name))
        })
      )
      .handle(
        "deployBuild",
        Effect.fnUntraced(function*({ params }) {
          const { name } = yield* CurrentOperator
          return yield* mapStartErrors(builds.deploy(yield* idOf(params.endpoint), params.number, name))
        })
      )
      .handleRaw(
        "buildHook",
        Effect.fnUntraced(function*({ params, request }) {
          // The same response for an unknown endpoint and a wrong signature, so that callers without a key learn nothing about endpoints.
          const unsigned = new Forbidden(problemMembers(
            "The webhook is not signed with the endpoint's secret.",
            "Set the same secret at the Git host and in the build settings: stint builds settings ENDPOINT --webhook-secret NAME. A webhook needs the " +
              "header X-Hub-Signature-256, X-Gitea-Signature or X-Gitlab-Token."
          ))
          // Hosts list many commits with the names of the changed files, so this limit is higher than the one for settings.
          const text = yield* readText(request, limits.runBytes, "Webhooks are small. Check that the Git host sends only JSON.")
          if (!isEndpointId(params.endpoint)) return yield* unsigned
          const endpoint = params.endpoint
          const settings = yield* builds.settings(endpoint).pipe(
            Effect.catchTag("BuildMissing", () => Effect.fail(unsigned)),
            Effect.catchTag("StoreError", unavailable)
          )
          const name = settings.webhookSecret
          if (name === undefined) return yield* unsigned
          const found = secrets.variablesOf({ id: endpoint, env: { secret: { secret: name } } })
          const secret = found._tag === "Resolved" ? found.env["secret"] : undefined
          if (secret === undefined || !GitWebhook.isSigned(request.headers, text, secret)) return yield* unsigned
          const event = GitWebhook.read(
            request.headers,
            yield* parseJson(text, "The body must be JSON: choose application/json at the Git host.")
          )
          if (event === undefined) return yield* unsigned
          const { reason, ref } = GitWebhook.decide(event, settings, yield* mapStoreErrors(builds.hasSucceeded(endpoint)))
          if (ref === undefined) return { reason: reason.replace("ENDPOINT", endpoint) }
          const { number } = yield* builds.start({
            endpoint,
            createdBy: `a webhook of ${event.host}`,
            trigger: event._tag === "Release" ? "release" : "push",
            ref,
            message: reason
          }).pipe(
            Effect.catchTag("BuildMissing", () => Effect.fail(unsigned)),
            Effect.catchTag("BuildFailed", (error) => Effect.fail(refused(error))),
            Effect.catchTag("StoreError", unavailable)
          )
          yield* auditTarget("build", number)
          return { build: number, reason }
        })
      )
  })
)
