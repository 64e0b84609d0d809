/**
 * The control API of releases.
 */
import { Api } from "@stint/contract/Api"
import { CurrentOperator } from "@stint/contract/Authorization"
import type { EndpointSpec } from "@stint/contract/Endpoint"
import { withImpliedLimits } from "@stint/contract/Endpoint"
import { Release, ReleaseSpec, RollbackSpec } from "@stint/contract/Release"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { Releases } from "@stint/releases/Releases"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { auditTarget } from "../audit/AuditMiddleware.ts"
import { Limits } from "../http/Limits.ts"
import { endpointFinder, mapStoreErrors } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"
import { mapDeployErrors, mapPreviewErrors, mapPromoteErrors, mapReleaseErrors } from "./ReleaseProblems.ts"

const specHint =
  "A deployment is a JSON object like {\"spec\": {\"source\": {\"type\": \"handler\", \"file\": \"/path/handler.ts\"}}, \"message\": \"why\"}."
const rollbackHint = "The body may be empty, or a JSON object like {\"to\": 3, \"message\": \"why\"}."

const decodeDeployment = decoder(ReleaseSpec, specHint)
const decodeRollback = decoder(RollbackSpec, rollbackHint)
const encodeRelease = Schema.encodeSync(Release)

/** The default of `limit` when releases are listed. */
const DEFAULT_LIMIT = 20

export const layer = HttpApiBuilder.group(
  Api,
  "releases",
  Effect.fnUntraced(function*(handlers) {
    const releases = yield* Releases
    const { canaries } = yield* WorkerRegistry
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    const read = (request: HttpServerRequest.HttpServerRequest, hint: string, whenEmpty?: string) =>
      Effect.flatMap(
        readText(request, limits.controlBytes, "Endpoint settings are small. Check that the body contains only settings."),
        (text) => parseJson(whenEmpty !== undefined && text.trim() === "" ? whenEmpty : text, hint)
      )

    /** The body of a deployment. The id comes from the path. */
    const readDeployment = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, id: string) {
      const value = yield* read(request, specHint)
      const given = Predicate.hasProperty(value, "spec") && Predicate.isObject(value.spec) ? { ...value.spec, id } : undefined
      const { canary, expected, message, spec } = yield* decodeDeployment(
        given === undefined || !Predicate.isObject(value) ? value : { ...value, spec: given }
      )
      const settings: EndpointSpec = withImpliedLimits(given, spec)
      return { spec: settings, message, expected, canary }
    })

    return handlers
      .handle(
        "listReleases",
        Effect.fnUntraced(function*({ params, query: { before, limit = DEFAULT_LIMIT } }) {
          const { id } = yield* findEndpoint(params.endpoint, true)
          const page = { limit, ...(before === undefined ? {} : { before }) }
          const list = yield* mapStoreErrors(releases.list(id, page))
          const share = canaries.shareOf(id)
          const results = canaries.resultsOf(id)
          if (share === undefined || results === undefined) return { releases: list }
          return { releases: list, canary: { release: share.release, percent: share.percent, ...results } }
        })
      )
      .handle(
        "getRelease",
        Effect.fnUntraced(function*({ params }) {
          const { id } = yield* findEndpoint(params.endpoint, true)
          return yield* mapReleaseErrors(releases.get(id, params.number))
        })
      )
      .handleRaw(
        "deployRelease",
        Effect.fnUntraced(function*({ params, request }) {
          const { name: createdBy } = yield* CurrentOperator
          const deployment = yield* readDeployment(request, params.endpoint)
          const { isNew, release } = yield* mapDeployErrors(releases.deploy({ ...deployment, createdBy }))
          yield* auditTarget("release", release.number)
          return HttpServerResponse.jsonUnsafe(encodeRelease(release), { status: isNew ? 201 : 200 })
        })
      )
      .handleRaw(
        "previewRelease",
        Effect.fnUntraced(function*({ params, request }) {
          const { spec } = yield* readDeployment(request, params.endpoint)
          return yield* mapPreviewErrors(releases.preview(spec))
        })
      )
      .handleRaw(
        "rollback",
        Effect.fnUntraced(function*({ params, request }) {
          const { name: createdBy } = yield* CurrentOperator
          const { message, to } = yield* decodeRollback(yield* read(request, rollbackHint, "{}"))
          const endpoint = yield* findEndpoint(params.endpoint, true)
          const release = yield* mapReleaseErrors(releases.rollback({ endpoint, createdBy, to, message }))
          yield* auditTarget("release", release.number)
          return release
        })
      )
      .handle(
        "promote",
        Effect.fnUntraced(function*({ params }) {
          const { id } = yield* findEndpoint(params.endpoint, true)
          return yield* mapPromoteErrors(releases.promote(id))
        })
      )
  })
)
