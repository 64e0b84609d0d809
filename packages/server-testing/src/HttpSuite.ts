/**
 * The HTTP conformance suite: tests the wire protocol from outside, against the real server with the given stores.
 *
 * ```ts
 * suite("memory", ServerTest.layerMemory)
 * ```
 */
import { describe, layer } from "@effect/vitest"
import * as PlatformEvents from "@stint/queue/PlatformEvents"
import * as Layer from "effect/Layer"
import { authorization } from "./auth/AuthorizationSuite.ts"
import { keyOwnership } from "./auth/KeyOwnershipSuite.ts"
import { keys } from "./auth/KeySuite.ts"
import { rateLimits } from "./auth/RateLimitSuite.ts"
import { scopes } from "./auth/ScopeSuite.ts"
import { alerts } from "./control/AlertSuite.ts"
import { audits } from "./control/AuditSuite.ts"
import { backups } from "./control/BackupSuite.ts"
import { builds } from "./control/BuildSuite.ts"
import { control } from "./control/ControlSuite.ts"
import { platformEvents } from "./control/EventSuite.ts"
import { histories } from "./control/HistorySuite.ts"
import { models } from "./control/ModelSuite.ts"
import { overviews } from "./control/OverviewSuite.ts"
import { releases } from "./control/ReleaseSuite.ts"
import { schedules } from "./control/ScheduleSuite.ts"
import { secrets } from "./control/SecretSuite.ts"
import { usage } from "./control/UsageSuite.ts"
import { webhooks } from "./control/WebhookSuite.ts"
import { workerRemovals } from "./control/WorkerRemovalSuite.ts"
import { badInput } from "./http/BadInputSuite.ts"
import { connections } from "./http/ConnectionSuite.ts"
import { disconnects } from "./http/DisconnectSuite.ts"
import { encodings } from "./http/EncodingSuite.ts"
import { probes } from "./http/ProbeSuite.ts"
import { routes } from "./http/RouteSuite.ts"
import { batches } from "./jobs/BatchSuite.ts"
import { bulkOperations } from "./jobs/BulkSuite.ts"
import { callerLimits } from "./jobs/CallerLimitSuite.ts"
import { cancelsAndRetries } from "./jobs/CancelRetrySuite.ts"
import { errorGroups } from "./jobs/ErrorSuite.ts"
import { explanations } from "./jobs/ExplainSuite.ts"
import { events } from "./jobs/JobEventSuite.ts"
import { jobLists } from "./jobs/JobListSuite.ts"
import { logs } from "./jobs/LogSuite.ts"
import { statusCalls } from "./jobs/StatusSuite.ts"
import { streams } from "./jobs/StreamSuite.ts"
import { submitOptions } from "./jobs/SubmitOptionSuite.ts"
import { submits } from "./jobs/SubmitSuite.ts"
import { openAiErrors } from "./openai/OpenAiErrorSuite.ts"
import { openAiStreams } from "./openai/OpenAiStreamSuite.ts"
import { openAi } from "./openai/OpenAiSuite.ts"
import { runFeatures } from "./runs/RunFeatureSuite.ts"
import { runCallers } from "./runs/RunSuite.ts"
import * as ServerTest from "./ServerTest.ts"
import { chunks } from "./workers/ChunkSuite.ts"
import { handlerSchemas } from "./workers/HandlerSchemaSuite.ts"
import { jobDoneBatches } from "./workers/JobDoneBatchSuite.ts"
import { jobDone } from "./workers/JobDoneSuite.ts"
import { jobTakes } from "./workers/JobTakeSuite.ts"
import { runJournals } from "./workers/RunJournalSuite.ts"
import { workerIdentity } from "./workers/WorkerIdentitySuite.ts"

/** What the suite expects of the server. */
export interface SuiteOptions extends Pick<ServerTest.Options, "fastPath"> {
  /** Where the stores keep inputs and outputs. A search by words finds only texts in the database. Default: "database". */
  readonly texts?: "database" | "payload store"
}

/** Registers the suite. One server serves all tests; each test has its own endpoints. */
export const suite = <E>(
  name: string,
  stores: Layer.Layer<ServerTest.Stores, E>,
  { texts = "database", ...server }: SuiteOptions = {}
): void => {
  const layerServer = ServerTest.layer({ ...server, stores }).pipe(Layer.provide(PlatformEvents.layer()))
  layer(layerServer, { excludeTestServices: true })(`HTTP over ${name}`, (it) => {
    describe("submit", () => submits(it))
    describe("submit options", () => submitOptions(it))
    describe("limits for callers", () => callerLimits(it))
    describe("job lists", () => jobLists(it))
    describe("bulk operations", () => bulkOperations(it, texts))
    describe("error groups", () => errorGroups(it))
    describe("batches", () => batches(it))
    describe("job events", () => events(it))
    describe("job logs", () => logs(it))
    describe("explain", () => explanations(it))
    describe("status", () => statusCalls(it))
    describe("cancel and retry", () => cancelsAndRetries(it))
    describe("job streams", () => streams(it))
    describe("OpenAI", () => openAi(it))
    describe("OpenAI streams", () => openAiStreams(it))
    describe("OpenAI errors", () => openAiErrors(it))
    describe("job-take", () => jobTakes(it))
    describe("job-done and ping", () => jobDone(it))
    describe("job-done-batch", () => jobDoneBatches(it))
    describe("chunks", () => chunks(it))
    describe("run-journal", () => runJournals(it))
    describe("schemas of handlers", () => handlerSchemas(it))
    describe("runs", () => runCallers(it))
    describe("runs as jobs", () => runFeatures(it))
    describe("worker identity", () => workerIdentity(it))
    describe("authorization", () => authorization(it))
    describe("keys", () => keys(it))
    describe("scopes", () => scopes(it))
    describe("ownership", () => keyOwnership(it))
    describe("rate limits", () => rateLimits(it))
    describe("control API", () => control(it))
    describe("releases", () => releases(it))
    describe("overview", () => overviews(it))
    describe("history", () => histories(it))
    describe("workers", () => workerRemovals(it))
    describe("events of the platform", () => platformEvents(it))
    describe("alerts", () => alerts(it))
    describe("webhooks", () => webhooks(it))
    describe("schedules", () => schedules(it))
    describe("secrets", () => secrets(it))
    describe("models", () => models(it))
    describe("builds", () => builds(it))
    describe("audit", () => audits(it))
    describe("usage", () => usage(it))
    describe("backups", () => backups(it))
    describe("bad input", () => badInput(it))
    describe("compressed bodies", () => encodings(it))
    describe("routes", () => routes(it))
    describe("probes", () => probes(it))
    describe("connections", () => connections(it))
    describe("disconnects", () => disconnects(it))
  })
}
