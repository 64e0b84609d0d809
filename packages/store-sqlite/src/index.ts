/**
 * All of Stint's stores in one SQLite file.
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
import type { ReleaseStore } from "@stint/store/ReleaseStore"
import type { RunStore } from "@stint/store/RunStore"
import type { ScheduleStore } from "@stint/store/ScheduleStore"
import type { SecretStore } from "@stint/store/SecretStore"
import { StoreCondition } from "@stint/store/StoreCondition"
import type { StoreError } from "@stint/store/StoreError"
import type { TextIndex } from "@stint/store/TextIndex"
import type { UsageStore } from "@stint/store/UsageStore"
import type { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import type { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { OnlineBackup } from "./OnlineBackup.ts"
import * as SpaceReclaimer from "./SpaceReclaimer.ts"
import * as SqliteAuditStore from "./SqliteAuditStore.ts"
import * as SqliteBuildStore from "./SqliteBuildStore.ts"
import * as SqliteDatabase from "./SqliteDatabase.ts"
import * as SqliteEndpointStore from "./SqliteEndpointStore.ts"
import * as SqliteJobLogStore from "./SqliteJobLogStore.ts"
import * as SqliteJobStore from "./SqliteJobStore.ts"
import * as SqliteKeyStore from "./SqliteKeyStore.ts"
import type { SqliteOpenError } from "./SqliteOpenError.ts"
import * as SqliteSecretStore from "./SqliteSecretStore.ts"
import * as SqliteUsageStore from "./SqliteUsageStore.ts"
import * as SqliteWebhookAttemptStore from "./SqliteWebhookAttemptStore.ts"
import * as SqliteWebhookSecretStore from "./SqliteWebhookSecretStore.ts"
import * as SqliteWebhookStore from "./SqliteWebhookStore.ts"

export * as SpaceReclaimer from "./SpaceReclaimer.ts"
export * as SqliteAuditStore from "./SqliteAuditStore.ts"
export * as SqliteBuildStore from "./SqliteBuildStore.ts"
export * as SqliteDatabase from "./SqliteDatabase.ts"
export * as SqliteEndpointStore from "./SqliteEndpointStore.ts"
export * as SqliteJobLogStore from "./SqliteJobLogStore.ts"
export * as SqliteJobStore from "./SqliteJobStore.ts"
export * as SqliteKeyStore from "./SqliteKeyStore.ts"
export * as SqliteOpenError from "./SqliteOpenError.ts"
export * as SqliteSecretStore from "./SqliteSecretStore.ts"
export * as SqliteUsageStore from "./SqliteUsageStore.ts"
export * as SqliteWebhookAttemptStore from "./SqliteWebhookAttemptStore.ts"
export * as SqliteWebhookSecretStore from "./SqliteWebhookSecretStore.ts"
export * as SqliteWebhookStore from "./SqliteWebhookStore.ts"

/** All stores in one file, its backups, and the layer that returns free space to the file system. */
export const layer = (
  options: SqliteDatabase.Options
): Layer.Layer<
  | JobStore
  | JobLogStore
  | BatchStore
  | BulkStore
  | ErrorGroupStore
  | TextIndex
  | RunStore
  | ScheduleStore
  | EndpointStore
  | ReleaseStore
  | BuildStore
  | AuditStore
  | UsageStore
  | KeyStore
  | SecretStore
  | WebhookStore
  | WebhookSecretStore
  | WebhookAttemptStore
  | OnlineBackup,
  SqliteOpenError | StoreError
> =>
  Layer.mergeAll(
    SqliteJobStore.layer,
    SqliteJobLogStore.layer,
    SqliteEndpointStore.layer,
    SqliteKeyStore.layer,
    SqliteSecretStore.layer,
    SqliteAuditStore.layer,
    SqliteUsageStore.layer,
    SqliteBuildStore.layer,
    SqliteWebhookStore.layer,
    SqliteWebhookSecretStore.layer,
    SqliteWebhookAttemptStore.layer,
    SpaceReclaimer.layer(),
    Layer.effect(OnlineBackup, Effect.map(SqliteDatabase.SqliteDatabase, ({ backup }) => ({ write: backup }))),
    Layer.effect(StoreCondition, Effect.map(SqliteDatabase.SqliteDatabase, ({ isLow }) => ({ isLow })))
  ).pipe(
    Layer.provide(SqliteDatabase.layer(options))
  )
