/**
 * Stint's stores in one PostgreSQL database, for one or several nodes.
 */
import type { AuditStore } from "@stint/store/AuditStore"
import type { BatchStore } from "@stint/store/BatchStore"
import type { BuildStore } from "@stint/store/BuildStore"
import type { BulkStore } from "@stint/store/BulkStore"
import type { EndpointStore } from "@stint/store/EndpointStore"
import type { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import type { JobLogStore } from "@stint/store/JobLogStore"
import type { JobStore } from "@stint/store/JobStore"
import type { KeyStore } from "@stint/store/KeyStore"
import type { Nodes } from "@stint/store/Nodes"
import type { ReleaseStore } from "@stint/store/ReleaseStore"
import type { RunStore } from "@stint/store/RunStore"
import type { ScheduleStore } from "@stint/store/ScheduleStore"
import type { SecretStore } from "@stint/store/SecretStore"
import type { SharedSettings } from "@stint/store/SharedSettings"
import type { StoreError } from "@stint/store/StoreError"
import type { TextIndex } from "@stint/store/TextIndex"
import type { UsageStore } from "@stint/store/UsageStore"
import type { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import type { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Layer from "effect/Layer"
import * as PostgresAuditStore from "./PostgresAuditStore.ts"
import * as PostgresBuildStore from "./PostgresBuildStore.ts"
import * as PostgresBulkStore from "./PostgresBulkStore.ts"
import * as PostgresDatabase from "./PostgresDatabase.ts"
import * as PostgresEndpointStore from "./PostgresEndpointStore.ts"
import * as PostgresJobLogStore from "./PostgresJobLogStore.ts"
import * as PostgresJobStore from "./PostgresJobStore.ts"
import * as PostgresKeyStore from "./PostgresKeyStore.ts"
import * as PostgresNodes from "./PostgresNodes.ts"
import type { PostgresOpenError } from "./PostgresOpenError.ts"
import * as PostgresRunStore from "./PostgresRunStore.ts"
import * as PostgresScheduleStore from "./PostgresScheduleStore.ts"
import * as PostgresSecretStore from "./PostgresSecretStore.ts"
import * as PostgresSettings from "./PostgresSettings.ts"
import * as PostgresTextIndex from "./PostgresTextIndex.ts"
import * as PostgresUsageStore from "./PostgresUsageStore.ts"
import * as PostgresWebhookAttemptStore from "./PostgresWebhookAttemptStore.ts"
import * as PostgresWebhookSecretStore from "./PostgresWebhookSecretStore.ts"
import * as PostgresWebhookStore from "./PostgresWebhookStore.ts"

export * as Doctor from "./Doctor.ts"
export * as Import from "./Import.ts"
export * as Migrate from "./Migrate.ts"
export * as PostgresAuditStore from "./PostgresAuditStore.ts"
export * as PostgresBuildStore from "./PostgresBuildStore.ts"
export * as PostgresBulkStore from "./PostgresBulkStore.ts"
export * as PostgresDatabase from "./PostgresDatabase.ts"
export * as PostgresEndpointStore from "./PostgresEndpointStore.ts"
export * as PostgresJobLogStore from "./PostgresJobLogStore.ts"
export * as PostgresJobStore from "./PostgresJobStore.ts"
export * as PostgresKeyStore from "./PostgresKeyStore.ts"
export * as PostgresNodes from "./PostgresNodes.ts"
export * as PostgresOpenError from "./PostgresOpenError.ts"
export * as PostgresRunStore from "./PostgresRunStore.ts"
export * as PostgresScheduleStore from "./PostgresScheduleStore.ts"
export * as PostgresSecretStore from "./PostgresSecretStore.ts"
export * as PostgresSettings from "./PostgresSettings.ts"
export * as PostgresTextIndex from "./PostgresTextIndex.ts"
export * as PostgresUsageStore from "./PostgresUsageStore.ts"
export * as PostgresWebhookAttemptStore from "./PostgresWebhookAttemptStore.ts"
export * as PostgresWebhookSecretStore from "./PostgresWebhookSecretStore.ts"
export * as PostgresWebhookStore from "./PostgresWebhookStore.ts"

/** The stores in one database. */
export const layer = (
  options: PostgresDatabase.Options
): Layer.Layer<
  | JobStore
  | JobLogStore
  | BatchStore
  | BulkStore
  | BuildStore
  | ErrorGroupStore
  | TextIndex
  | RunStore
  | AuditStore
  | UsageStore
  | ScheduleStore
  | EndpointStore
  | ReleaseStore
  | KeyStore
  | SecretStore
  | WebhookStore
  | WebhookSecretStore
  | WebhookAttemptStore
  | Nodes
  | SharedSettings,
  PostgresOpenError | StoreError
> =>
  Layer.mergeAll(
    PostgresJobStore.layer,
    PostgresTextIndex.layer,
    PostgresJobLogStore.layer,
    PostgresEndpointStore.layer,
    PostgresKeyStore.layer,
    PostgresRunStore.layer,
    PostgresAuditStore.layer,
    PostgresBuildStore.layer,
    PostgresUsageStore.layer,
    PostgresScheduleStore.layer,
    PostgresBulkStore.layer,
    PostgresSecretStore.layer,
    PostgresWebhookStore.layer,
    PostgresWebhookSecretStore.layer,
    PostgresWebhookAttemptStore.layer,
    PostgresNodes.layer,
    PostgresSettings.layer
  ).pipe(Layer.provide(PostgresDatabase.layer(options)))
