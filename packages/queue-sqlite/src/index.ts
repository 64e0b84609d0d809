/**
 * Stint's jobs and endpoints in one SQLite file.
 */
import type { BatchStore } from "@stint/queue/BatchStore"
import type { EndpointStore } from "@stint/queue/EndpointStore"
import type { JobLogStore } from "@stint/queue/JobLogStore"
import type { JobStore } from "@stint/queue/JobStore"
import type { KeyStore } from "@stint/queue/KeyStore"
import type { QueueError } from "@stint/queue/QueueError"
import type { WebhookAttemptStore } from "@stint/queue/WebhookAttemptStore"
import type { WebhookSecretStore } from "@stint/queue/WebhookSecretStore"
import type { WebhookStore } from "@stint/queue/WebhookStore"
import * as Layer from "effect/Layer"
import * as SpaceReclaimer from "./SpaceReclaimer.ts"
import * as SqliteDatabase from "./SqliteDatabase.ts"
import * as SqliteEndpointStore from "./SqliteEndpointStore.ts"
import * as SqliteJobLogStore from "./SqliteJobLogStore.ts"
import * as SqliteJobStore from "./SqliteJobStore.ts"
import * as SqliteKeyStore from "./SqliteKeyStore.ts"
import type { SqliteOpenError } from "./SqliteOpenError.ts"
import * as SqliteWebhookAttemptStore from "./SqliteWebhookAttemptStore.ts"
import * as SqliteWebhookSecretStore from "./SqliteWebhookSecretStore.ts"
import * as SqliteWebhookStore from "./SqliteWebhookStore.ts"

export * as SpaceReclaimer from "./SpaceReclaimer.ts"
export * as SqliteDatabase from "./SqliteDatabase.ts"
export * as SqliteEndpointStore from "./SqliteEndpointStore.ts"
export * as SqliteJobLogStore from "./SqliteJobLogStore.ts"
export * as SqliteJobStore from "./SqliteJobStore.ts"
export * as SqliteKeyStore from "./SqliteKeyStore.ts"
export * as SqliteOpenError from "./SqliteOpenError.ts"
export * as SqliteWebhookAttemptStore from "./SqliteWebhookAttemptStore.ts"
export * as SqliteWebhookSecretStore from "./SqliteWebhookSecretStore.ts"
export * as SqliteWebhookStore from "./SqliteWebhookStore.ts"

/** Everything in one: all stores over one file, and the duty that keeps the file small. */
export const layer = (
  options: SqliteDatabase.Options
): Layer.Layer<
  JobStore | JobLogStore | BatchStore | EndpointStore | KeyStore | WebhookStore | WebhookSecretStore | WebhookAttemptStore,
  SqliteOpenError | QueueError
> =>
  Layer.mergeAll(
    SqliteJobStore.layer,
    SqliteJobLogStore.layer,
    SqliteEndpointStore.layer,
    SqliteKeyStore.layer,
    SqliteWebhookStore.layer,
    SqliteWebhookSecretStore.layer,
    SqliteWebhookAttemptStore.layer,
    SpaceReclaimer.layer()
  ).pipe(
    Layer.provide(SqliteDatabase.layer(options))
  )
