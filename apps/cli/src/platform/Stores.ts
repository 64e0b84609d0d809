/**
 * The stores of a platform.
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
import type { TextIndex } from "@stint/store/TextIndex"
import type { UsageStore } from "@stint/store/UsageStore"
import type { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import type { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import type { WebhookStore } from "@stint/store/WebhookStore"

/** All stores of a platform. */
export type Stores =
  | JobStore
  | JobLogStore
  | BatchStore
  | BulkStore
  | ErrorGroupStore
  | TextIndex
  | EndpointStore
  | ReleaseStore
  | RunStore
  | AuditStore
  | UsageStore
  | ScheduleStore
  | BuildStore
  | KeyStore
  | SecretStore
  | WebhookStore
  | WebhookSecretStore
  | WebhookAttemptStore
