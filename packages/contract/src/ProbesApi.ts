/**
 * The probes of the process, for service managers, containers and load balancers (docs/operations/service.md#probes). They require no key and return
 * none of the platform's data.
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { operationDocs } from "./OpenApiOperation.ts"
import { Unavailable } from "./Problem.ts"

/** The operations without a key. */
export class ProbesApi extends HttpApiGroup.make("probes")
  .add(
    HttpApiEndpoint.get("healthz", "/healthz", {
      success: Schema.Struct({ status: Schema.Literal("alive") })
    }).annotateMerge(operationDocs({
      summary: "Check that the process is alive",
      description: "Returns 200 as long as the process responds, even when its store does not work. Requires no key.",
      responses: { 200: { status: "alive" } }
    })),
    HttpApiEndpoint.get("readyz", "/readyz", {
      success: Schema.Struct({ status: Schema.Literal("ready") }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "Check that the platform is ready",
      description:
        "Returns 200 when the store responds and workers can claim jobs. Returns 503 with the reason when the store fails or does not " +
        "respond within 5 s, and while the platform shuts down. Reads the store at most once per second, however often it is called. Requires " +
        "no key.",
      responses: { 200: { status: "ready" } }
    }))
  )
  .annotateMerge(OpenApi.annotations({ title: "Probes", description: "For service managers and load balancers" }))
{}
