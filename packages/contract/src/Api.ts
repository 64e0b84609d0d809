/**
 * The platform's HTTP API. The server implements it; the OpenAPI document and typed clients are derived from it.
 */
import { HttpApi, OpenApi } from "effect/http-api"
import { BatchApi } from "./batches/BatchApi.ts"
import { ControlApi } from "./control/ControlApi.ts"
import { KeysApi } from "./control/KeysApi.ts"
import { WebhooksApi } from "./control/WebhooksApi.ts"
import { JobsApi } from "./jobs/JobsApi.ts"
import { LogsApi } from "./jobs/LogsApi.ts"
import { documentWildcards, OpenAiApi } from "./OpenAiApi.ts"
import { WorkerApi } from "./workers/WorkerApi.ts"

export class Api extends HttpApi.make("stint")
  .add(JobsApi)
  .add(LogsApi)
  .add(BatchApi)
  .add(OpenAiApi)
  .add(WorkerApi)
  .add(ControlApi)
  .add(KeysApi)
  .add(WebhooksApi)
  .annotateMerge(OpenApi.annotations({
    title: "Stint",
    version: "2",
    description: "Typed serverless jobs on your own machines",
    transform: documentWildcards
  }))
{}
