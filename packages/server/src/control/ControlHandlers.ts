/**
 * The control API: endpoints and the environment variables of their workers.
 */
import { Builds } from "@stint/builder/Builds"
import { Api } from "@stint/contract/Api"
import { CurrentOperator } from "@stint/contract/Authorization"
import { EndpointSpec, withImpliedLimits } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import { Conflict, problemMembers, Unavailable, WorkerNotFound } from "@stint/contract/Problem"
import { pingIntervalOf, workerEnvironment } from "@stint/contract/WorkerProtocol"
import { JobQueue } from "@stint/queue/JobQueue"
import type { Leaving } from "@stint/queue/WorkerRegistry"
import { Releases } from "@stint/releases/Releases"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { auditTarget } from "../audit/AuditMiddleware.ts"
import { AccessKeys } from "../auth/AccessKeys.ts"
import { setRetryAfter } from "../http/BodyAdmission.ts"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { PublicAddress } from "../http/PublicAddress.ts"
import { endpointFinder, mapStoreErrors, unavailable } from "../http/QueueProblems.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"
import { mapCreateErrors, mapPreviewErrors } from "./ReleaseProblems.ts"
import { workerOf } from "./WorkerView.ts"

const specHint =
  "An endpoint is a JSON object like {\"id\": \"hello\", \"source\": {\"type\": \"handler\", \"file\": \"/path/handler.ts\"}}."

const isEndpointId = Schema.is(EndpointId)

/** After how many seconds a caller should repeat a request that another node has not confirmed. */
const NODE_RETRY_AFTER = 5

const decodeGiven = decoder(EndpointSpec, specHint)
const decodeSpec = (value: unknown) => Effect.map(decodeGiven(value), (spec) => withImpliedLimits(value, spec))

export const layer = HttpApiBuilder.group(
  Api,
  "control",
  Effect.fnUntraced(function*(handlers) {
    const endpoints = yield* EndpointStore
    const releases = yield* Releases
    const builds = yield* Builds
    const queue = yield* JobQueue
    const keys = yield* AccessKeys
    const address = yield* PublicAddress
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    const read = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.flatMap(
        readText(request, limits.controlBytes, "Endpoint settings are small. Check that the body contains only settings."),
        (text) => parseJson(text, specHint)
      )

    /** The id of an endpoint that has build settings but does not exist yet, because no build has created it. Undefined otherwise. */
    const onlyInBuilds = Effect.fnUntraced(function*(id: string) {
      if (!isEndpointId(id) || (yield* mapStoreErrors(endpoints.get(id))) !== undefined) return undefined
      return yield* mapStoreErrors(
        builds.settings(id).pipe(
          Effect.as(id),
          Effect.catchTag("BuildMissing", () => Effect.succeed(undefined))
        )
      )
    })

    const removeWorker = Effect.fnUntraced(function*(endpointId: string, worker: string, leaving: Leaving) {
      const { id } = yield* findEndpoint(endpointId, true)
      const removed = yield* queue.removeWorker(id, worker, leaving).pipe(Effect.catchTags({
        StoreError: unavailable,
        WorkerMissing: () =>
          Effect.fail(
            new WorkerNotFound(problemMembers(
              `The endpoint "${id}" has no worker "${excerpt(worker)}".`,
              `It has exited, or has never called. List the workers: stint workers list ${id}.`
            ))
          ),
        NodeSilent: () =>
          Effect.andThen(
            setRetryAfter(NODE_RETRY_AFTER),
            new Unavailable(problemMembers(
              `Another node of the platform knows the worker "${
                excerpt(worker)
              }" and has not confirmed the request. It may still give it jobs.`,
              "Send the request again. If the error persists, check that all nodes run the same version and reach the database: stint doctor."
            ))
          )
      }))
      return workerOf(removed)
    })

    return handlers
      .handle("listEndpoints", () => Effect.map(mapStoreErrors(endpoints.list), (list) => ({ endpoints: list })))
      .handleRaw(
        "createEndpoint",
        Effect.fnUntraced(function*({ request }) {
          const { name: createdBy } = yield* CurrentOperator
          const spec = yield* decodeSpec(yield* read(request))
          yield* auditTarget("endpoint", spec.id)
          const { endpoint } = yield* mapCreateErrors(releases.create({ spec, createdBy }))
          return endpoint
        })
      )
      .handle("getEndpoint", ({ params }) => findEndpoint(params.endpoint, true))
      .handleRaw(
        "putEndpoint",
        Effect.fnUntraced(function*({ params, request }) {
          const value = yield* read(request)
          const spec = yield* decodeSpec(Predicate.isObject(value) ? { ...value, id: params.endpoint } : value)
          const { name: createdBy } = yield* CurrentOperator
          const { endpoint } = yield* mapPreviewErrors(
            // Only a deployment with an expected release can conflict.
            Effect.catchTag(releases.deploy({ spec, createdBy }), "ReleaseConflict", Effect.die)
          )
          return endpoint
        })
      )
      .handle(
        "deleteEndpoint",
        Effect.fnUntraced(function*({ params }) {
          const id = (yield* onlyInBuilds(params.endpoint)) ?? (yield* findEndpoint(params.endpoint, true)).id
          if ((yield* mapStoreErrors(builds.forget(id, endpoints.remove(id)))) !== "busy") return
          const depth = yield* mapStoreErrors(queue.depth(id))
          return yield* new Conflict(problemMembers(
            `The endpoint "${id}" has ${depth.waiting + depth.delayed} waiting and ${depth.running} running jobs.`,
            `Purge its queue (POST /v2/${id}/purge-queue), wait for the running jobs or cancel them, then delete the endpoint.`
          ))
        })
      )
      .handle(
        "workerEnv",
        Effect.fnUntraced(function*({ params, query }) {
          const endpoint = yield* findEndpoint(params.endpoint, true)
          return {
            variables: workerEnvironment({
              baseUrl: address.baseUrl,
              endpoint: endpoint.id,
              // RunPod's SDK sends no heartbeats when its pod id is not set (docs/spec/worker-protocol.md#heartbeat).
              worker: query.worker ?? `ext-${randomUUID()}`,
              key: Redacted.value(keys.workerKey(endpoint.id, query.worker)),
              pingIntervalMs: pingIntervalOf(endpoint.leaseMs),
              ...(query.prefix === undefined ? {} : { prefix: query.prefix })
            })
          }
        })
      )
      .handle("drainWorker", ({ params }) => removeWorker(params.endpoint, params.worker, "drain"))
      .handle("stopWorker", ({ params }) => removeWorker(params.endpoint, params.worker, "stop"))
  })
)
