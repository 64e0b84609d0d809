/**
 * The platform's HTTP API. The server implements it; the OpenAPI document and typed clients are derived from it.
 */
import { HttpApi, OpenApi } from "effect/http-api"
import { BatchApi } from "./batches/BatchApi.ts"
import { AgentCallsApi, AgentsApi } from "./control/AgentsApi.ts"
import { AlertsApi } from "./control/AlertsApi.ts"
import { AuditedOperations } from "./control/Audit.ts"
import { AuditApi } from "./control/AuditApi.ts"
import { BackupApi } from "./control/BackupApi.ts"
import { BuildsApi } from "./control/BuildsApi.ts"
import { ControlApi } from "./control/ControlApi.ts"
import { EventsApi } from "./control/EventsApi.ts"
import { HistoryApi } from "./control/HistoryApi.ts"
import { KeysApi } from "./control/KeysApi.ts"
import { ModelsApi } from "./control/ModelsApi.ts"
import { OverviewApi } from "./control/OverviewApi.ts"
import { ReleasesApi } from "./control/ReleasesApi.ts"
import { SchedulesApi } from "./control/SchedulesApi.ts"
import { SecretsApi } from "./control/SecretsApi.ts"
import { UsageApi } from "./control/UsageApi.ts"
import { WebhooksApi } from "./control/WebhooksApi.ts"
import { BulkApi } from "./jobs/BulkApi.ts"
import { ErrorsApi } from "./jobs/ErrorsApi.ts"
import { JobsApi } from "./jobs/JobsApi.ts"
import { LogsApi } from "./jobs/LogsApi.ts"
import { documentWildcards, OpenAiApi } from "./OpenAiApi.ts"
import { ProbesApi } from "./ProbesApi.ts"
import { RunsApi } from "./runs/RunsApi.ts"
import { WorkerApi } from "./workers/WorkerApi.ts"

/** Markdown, for the first section of the API reference. */
const DESCRIPTION = [
  "Typed serverless jobs on your own machines.",
  "Send a key in the header `Authorization`, as `Bearer KEY` or without a prefix. On the platform's machine, `stint keys print` prints the platform's key.",
  "Every error is an RFC 9457 problem with two additional members: `error` says what is wrong, and `hint` says what to do.",
  "When a rate limit applies, every response has the headers `RateLimit`, with the remaining calls, and `RateLimit-Policy`. A call over " +
  "the limit gets a 429 with `Retry-After`, in seconds.",
  "The same description for tools: [/openapi.json](/openapi.json)."
].join("\n\n")

export class Api extends HttpApi.make("stint")
  .add(JobsApi)
  .add(LogsApi)
  .add(RunsApi)
  .add(BatchApi)
  .add(BulkApi)
  .add(ErrorsApi)
  .add(OpenAiApi)
  .add(WorkerApi)
  .add(ControlApi)
  .add(ReleasesApi)
  .add(BuildsApi)
  .add(KeysApi)
  .add(SchedulesApi)
  .add(SecretsApi)
  .add(ModelsApi)
  .add(WebhooksApi)
  .add(OverviewApi)
  .add(HistoryApi)
  .add(EventsApi)
  .add(AgentsApi)
  .add(AgentCallsApi)
  .add(AlertsApi)
  .add(AuditApi)
  .add(UsageApi)
  .add(BackupApi)
  .add(ProbesApi)
  .middleware(AuditedOperations)
  .annotateMerge(OpenApi.annotations({
    title: "Stint",
    version: "2",
    description: DESCRIPTION,
    transform: documentWildcards
  }))
{}
