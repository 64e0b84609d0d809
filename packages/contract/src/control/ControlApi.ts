/**
 * The control API: what operators, the CLI and the console use.
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { ControlAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { Conflict, EndpointNotFound, InvalidRequest, PayloadTooLarge, Unavailable } from "../Problem.ts"
import { Endpoint, EndpointSpec } from "./Endpoint.ts"

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }

/** The variables of a worker that joins from outside. */
export const WorkerEnv = Schema.Struct({ variables: Schema.Record(Schema.String, Schema.String) })
export type WorkerEnv = typeof WorkerEnv.Type

export class ControlApi extends HttpApiGroup.make("control")
  .add(
    HttpApiEndpoint.get("listEndpoints", "/endpoints", {
      success: Schema.Struct({ endpoints: Schema.Array(Endpoint) }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "All endpoints",
      description: "Every endpoint with its settings."
    })),
    HttpApiEndpoint.post("createEndpoint", "/endpoints", {
      payload: EndpointSpec,
      success: Endpoint.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, PayloadTooLarge, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Create an endpoint",
      description: "Only `id` and `source` are required; every setting has a default. An id that is taken is refused " +
        "with 409.",
      request: { id: "hello", source: { type: "handler", file: "./handler.ts" }, workers: { min: 0, max: 3 } }
    })),
    HttpApiEndpoint.get("getEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      success: Endpoint,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "An endpoint",
      description: "One endpoint with its settings."
    })),
    HttpApiEndpoint.put("putEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      payload: EndpointSpec,
      success: Endpoint,
      error: [InvalidRequest, PayloadTooLarge, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Create or replace an endpoint",
      description: "Settings that are left out take their defaults. Jobs that are there already keep the limits that " +
        "they were submitted under.",
      request: { id: "hello", source: { type: "handler", file: "./handler.ts" }, workers: { min: 0, max: 3 } }
    })),
    HttpApiEndpoint.delete("deleteEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      success: HttpApiSchema.NoContent,
      error: [EndpointNotFound, InvalidRequest, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Delete an endpoint",
      description: "Refused with 409 while jobs of it wait or run. Its ended jobs go with it."
    })),
    HttpApiEndpoint.get("workerEnv", "/endpoints/:endpoint/worker-env", {
      params: endpoint,
      query: {
        prefix: Schema.optionalKey(
          Schema.Literals(["PLATFORM_", "RUNPOD_"]).annotate({ description: "Only the names with this prefix. Default: both." })
        )
      },
      success: WorkerEnv,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Variables of a worker",
      description: "What a worker that joins from outside has to have in its environment: addresses and a key of this " +
        "endpoint. With `prefix` only one of the two sets of names.",
      answers: { 200: { variables: { PLATFORM_ENDPOINT_ID: "hello", PLATFORM_AI_API_KEY: "..." } } }
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Control", description: "Endpoints and their workers" }))
{}
