/**
 * The guards as middleware for the `HttpApi`.
 */
import { jobScopeOf } from "@stint/contract/AccessKey"
import {
  AgentAuthorization,
  ControlAuthorization,
  CurrentAgentKey,
  CurrentCaller,
  CurrentEndpoint,
  CurrentOperator,
  JobsAuthorization,
  KeysAuthorization,
  WorkerAuthorization
} from "@stint/contract/Authorization"
import { BulkAuthorization, CurrentManager } from "@stint/contract/BulkApi"
import { OpenAiAuthorization } from "@stint/contract/OpenAiApi"
import { CurrentViewer, ViewerAuthorization } from "@stint/contract/OverviewApi"
import { bulkGuardOf } from "@stint/contract/Permission"
import { EndpointNotFound, Forbidden, TooManyRequests, Unauthorized, Unavailable } from "@stint/contract/Problem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerRequest, HttpServerRespondable } from "effect/http"
import type { HttpApiEndpoint } from "effect/http-api"
import * as Layer from "effect/Layer"
import * as OpenAiErrorResponse from "../openai/OpenAiErrorResponse.ts"
import { parseWorkerUrl } from "../workers/WorkerUrl.ts"
import type { WorkerIdentity } from "./AccessKeys.ts"
import { AuthGuards } from "./AuthGuards.ts"

/** The operation of a call: the path segment after the endpoint. GET and POST of the same path are one operation. */
const operationOf = ({ path }: HttpApiEndpoint.Top): string => path.split("/")[3] ?? ""

const endpointId = Effect.map(HttpRouter.params, ({ endpoint = "" }) => endpoint)

const layerJobs = Layer.effect(
  JobsAuthorization,
  Effect.map(AuthGuards, ({ caller }) => ({
    key: (respond, { credential, endpoint }) =>
      Effect.flatMap(
        endpointId,
        (id) =>
          caller(
            (found, by) =>
              respond.pipe(
                Effect.provideService(CurrentEndpoint, found),
                Effect.provideService(CurrentCaller, { key: by.id, isAdmin: by.scopes.includes("admin"), limits: by.limits })
              ),
            credential,
            id,
            operationOf(endpoint),
            jobScopeOf(endpoint.identifier)
          )
      )
  }))
)

/** What the key of the current worker's request proves. */
export const CurrentWorkerIdentity: Context.Reference<WorkerIdentity> = Context.Reference<WorkerIdentity>(
  "@stint/server/CurrentWorkerIdentity",
  { defaultValue: () => "endpoint" }
)

const rejections = [Unauthorized, Forbidden, TooManyRequests, EndpointNotFound, Unavailable] as const

const isRejection = (error: unknown): error is InstanceType<(typeof rejections)[number]> =>
  rejections.some((rejection) => error instanceof rejection)

/** The guard of the jobs API, with errors in OpenAI's format. */
const layerOpenAi = Layer.effect(
  OpenAiAuthorization,
  Effect.map(JobsAuthorization, ({ key }) => ({
    key: (respond, options) =>
      Effect.catchIf(
        key(respond, options),
        isRejection,
        (rejection) => Effect.succeed(OpenAiErrorResponse.response(OpenAiErrorResponse.ofProblem(rejection)))
      )
  }))
)

/**
 * Sends the 429 for too many wrong keys. Only the jobs API declares this status, because its operations also have rate limits; on the other APIs no
 * caller with a valid key receives it.
 */
const isThrottle = (error: unknown): error is TooManyRequests => error instanceof TooManyRequests

const sendThrottle = (error: TooManyRequests) => HttpServerRespondable.toResponse(error)

const layerControl = Layer.effect(
  ControlAuthorization,
  Effect.map(AuthGuards, ({ operator }) => ({
    key: (respond, { credential }) =>
      Effect.catchIf(
        operator((by) => Effect.provideService(respond, CurrentOperator, { key: by.id, name: by.name }), credential, "deploy"),
        isThrottle,
        sendThrottle
      )
  }))
)

const layerKeys = Layer.effect(
  KeysAuthorization,
  Effect.map(AuthGuards, ({ operator }) => ({
    key: (respond, { credential }) =>
      Effect.catchIf(
        operator((by) => Effect.provideService(respond, CurrentOperator, { key: by.id, name: by.name }), credential, "admin"),
        isThrottle,
        sendThrottle
      )
  }))
)

const layerViewer = Layer.effect(
  ViewerAuthorization,
  Effect.map(AuthGuards, ({ viewer }) => ({
    key: (respond, { credential }) =>
      Effect.flatMap(HttpRouter.params, ({ endpoint }) =>
        Effect.catchIf(
          viewer(
            ({ endpoints, id, scopes }) =>
              Effect.provideService(respond, CurrentViewer, { endpoints, key: id, isAdmin: scopes.includes("admin") }),
            credential,
            "overview",
            endpoint
          ),
          isThrottle,
          sendThrottle
        ))
  }))
)

const layerBulk = Layer.effect(
  BulkAuthorization,
  Effect.map(AuthGuards, ({ manager, viewer }) => ({
    key: (respond, { credential, endpoint, group }) => {
      const guard = bulkGuardOf(endpoint.identifier) === "viewer" ? viewer : manager
      return Effect.catchIf(
        guard(
          ({ endpoints, id, limits, name }) =>
            Effect.provideService(respond, CurrentManager, { key: id, name, endpoints, limits }),
          credential,
          group.identifier === "errors" ? "error groups" : "bulk operations"
        ),
        isThrottle,
        sendThrottle
      )
    }
  }))
)

const layerWorker = Layer.effect(
  WorkerAuthorization,
  Effect.map(AuthGuards, ({ worker }) => ({
    key: (respond, { credential }) =>
      Effect.flatMap(
        Effect.all({ params: HttpRouter.params, request: HttpServerRequest.HttpServerRequest }),
        ({ params: { endpoint = "", id, worker: name = "" }, request }) =>
          Effect.catchIf(
            worker(
              (identity) => Effect.provideService(respond, CurrentWorkerIdentity, identity),
              credential,
              endpoint,
              // Some SDKs append a query to the last segment (WorkerUrl.ts). In a URL with a job, the worker is not the last segment.
              id === undefined ? parseWorkerUrl(request.url).last : name
            ),
            isThrottle,
            sendThrottle
          )
      )
  }))
)

const layerAgent = Layer.effect(
  AgentAuthorization,
  Effect.map(AuthGuards, ({ agent }) => ({
    key: (respond, { credential }) =>
      Effect.catchIf(
        agent(({ endpoints, id }) => Effect.provideService(respond, CurrentAgentKey, { id, endpoints }), credential),
        isThrottle,
        sendThrottle
      )
  }))
)

/** All guards. */
export const layer: Layer.Layer<
  | JobsAuthorization
  | OpenAiAuthorization
  | BulkAuthorization
  | ControlAuthorization
  | KeysAuthorization
  | ViewerAuthorization
  | WorkerAuthorization
  | AgentAuthorization,
  never,
  AuthGuards
> = Layer.mergeAll(
  layerOpenAi.pipe(Layer.provideMerge(layerJobs)),
  layerBulk,
  layerControl,
  layerKeys,
  layerViewer,
  layerWorker,
  layerAgent
)
