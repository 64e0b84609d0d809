/**
 * The control API: what operators, the CLI and the console use.
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { ControlAuthorization } from "./Authorization.ts"
import { Endpoint, EndpointSpec } from "./Endpoint.ts"
import { Conflict, EndpointNotFound, InvalidRequest, PayloadTooLarge, Unavailable } from "./Problem.ts"

const endpoint = { endpoint: Schema.String }

/** The variables of a worker that joins from outside. */
export const WorkerEnv = Schema.Struct({ variables: Schema.Record(Schema.String, Schema.String) })
export type WorkerEnv = typeof WorkerEnv.Type

export class ControlApi extends HttpApiGroup.make("control")
  .add(
    HttpApiEndpoint.get("listEndpoints", "/endpoints", {
      success: Schema.Struct({ endpoints: Schema.Array(Endpoint) }),
      error: Unavailable
    }),
    HttpApiEndpoint.post("createEndpoint", "/endpoints", {
      payload: EndpointSpec,
      success: Endpoint.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, PayloadTooLarge, Conflict, Unavailable]
    }),
    HttpApiEndpoint.get("getEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      success: Endpoint,
      error: [EndpointNotFound, Unavailable]
    }),
    HttpApiEndpoint.put("putEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      payload: EndpointSpec,
      success: Endpoint,
      error: [InvalidRequest, PayloadTooLarge, Unavailable]
    }),
    HttpApiEndpoint.delete("deleteEndpoint", "/endpoints/:endpoint", {
      params: endpoint,
      success: HttpApiSchema.NoContent,
      error: [EndpointNotFound, Conflict, Unavailable]
    }),
    HttpApiEndpoint.get("workerEnv", "/endpoints/:endpoint/worker-env", {
      params: endpoint,
      query: { prefix: Schema.optionalKey(Schema.Literals(["PLATFORM_", "RUNPOD_"])) },
      success: WorkerEnv,
      error: [EndpointNotFound, InvalidRequest, Unavailable]
    })
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Control", description: "Endpoints and their workers" }))
{}
