/**
 * The control API, for operators and the CLI (docs/spec/endpoints.md#control-api).
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { ControlAuthorization } from "../Authorization.ts"
import { WorkerId } from "../Ids.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, Conflict, EndpointNotFound, InvalidRequest, Unavailable, WorkerNotFound } from "../Problem.ts"
import { Audited } from "./Audit.ts"
import { Endpoint, EndpointSpec } from "./Endpoint.ts"
import { WorkerOverview } from "./OverviewApi.ts"

const worker = {
  endpoint: Schema.String.annotate({ description: "The endpoint's id." }),
  worker: Schema.String.annotate({ description: "The worker's id." })
}

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }

/** The environment variables of an external worker. */
export const WorkerEnv = Schema.Struct({ variables: Schema.Record(Schema.String, Schema.String) })
export type WorkerEnv = typeof WorkerEnv.Type

/** The operations on endpoints and their workers. */
export class ControlApi extends HttpApiGroup.make("control")
  .add(
    HttpApiEndpoint.get("listEndpoints", "/endpoints", {
      success: Schema.Struct({ endpoints: Schema.Array(Endpoint) }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "List endpoints",
      description: "Lists all endpoints with their settings."
    })),
    HttpApiEndpoint.post("createEndpoint", "/endpoints", {
      payload: EndpointSpec,
      success: Endpoint.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, ...bodyErrors, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Create an endpoint",
      description: "Only `id` and `source` are required; every setting has a default. Returns 409 if the id already exists.",
      request: { id: "hello", source: { type: "handler", file: "./handler.ts" }, workers: { min: 0, max: 3 } }
    })),
    HttpApiEndpoint.get("getEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      success: Endpoint,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get an endpoint",
      description: "Returns an endpoint with its settings."
    })),
    HttpApiEndpoint.put("putEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      payload: EndpointSpec,
      success: Endpoint,
      error: [InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Create or replace an endpoint",
      description: "Missing settings use their defaults. Existing jobs keep the limits that were set when they were submitted.",
      request: { id: "hello", source: { type: "handler", file: "./handler.ts" }, workers: { min: 0, max: 3 } }
    })),
    HttpApiEndpoint.delete("deleteEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      success: HttpApiSchema.NoContent,
      error: [EndpointNotFound, InvalidRequest, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Delete an endpoint",
      description: "Deletes an endpoint and its ended jobs. Returns 409 while jobs wait or run."
    })),
    HttpApiEndpoint.get("workerEnv", "/endpoints/:endpoint/worker-env", {
      params: endpoint,
      query: {
        prefix: Schema.optionalKey(
          Schema.Literals(["PLATFORM_", "RUNPOD_"]).annotate({
            description: "Only the variables with this prefix. Default: both."
          })
        ),
        worker: Schema.optionalKey(
          WorkerId.annotate({
            description:
              "The worker's id. The key is then valid only for this worker. Default: the key that all workers of the endpoint share."
          })
        )
      },
      success: WorkerEnv,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotate(Audited, true).annotateMerge(operationDocs({
      summary: "Get the environment of an external worker",
      description:
        "Returns the environment variables that a worker needs if the platform does not start it: URLs and a key of this endpoint, and a new " +
        "worker id. Two workers must not share an id, so request the variables once for each worker.",
      responses: { 200: { variables: { PLATFORM_ENDPOINT_ID: "hello", PLATFORM_POD_ID: "ext-...", PLATFORM_AI_API_KEY: "..." } } }
    })),
    HttpApiEndpoint.post("drainWorker", "/endpoints/:endpoint/workers/:worker/drain", {
      params: worker,
      success: WorkerOverview,
      error: [EndpointNotFound, WorkerNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Drain a worker",
      description:
        "The worker takes no more jobs, finishes its running ones, and exits. The platform starts another one if the endpoint needs it. " +
        "A worker that the platform did not start (`external`) gets no more jobs; end its process yourself."
    })),
    HttpApiEndpoint.post("stopWorker", "/endpoints/:endpoint/workers/:worker/stop", {
      params: worker,
      success: WorkerOverview,
      error: [EndpointNotFound, WorkerNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Stop a worker",
      description:
        "Kills the worker. Each of its jobs loses an attempt: it runs again, or fails if no attempt is left. A worker that the platform did " +
        "not start (`external`) loses its jobs, is told to stop them, and gets no more; end its process yourself."
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Control", description: "Manage endpoints" }))
{}
