/**
 * The batch object of responses and webhooks (docs/spec/batches.md#batch-object).
 */
import type { Batch } from "@stint/contract/Batch"
import { type JsonText, toJsonText } from "@stint/contract/Json"
import type { BatchRecord } from "./BatchMachine.ts"

/** The batch object. */
export const toWireBatch = (batch: BatchRecord): Batch => ({
  id: batch.id,
  endpointId: batch.endpoint,
  status: batch.status,
  requestTotal: batch.total,
  requestInProgress: batch.running,
  requestCompleted: batch.completed,
  requestFailed: batch.failed + batch.cancelled,
  requestCancelled: batch.cancelled,
  ...(batch.status === "FINALIZED" && batch.notEnqueued > 0 ? { requestHeld: batch.notEnqueued } : {}),
  createdAt: batch.createdAt,
  ...(batch.finalizedAt === null ? {} : { finalizedAt: batch.finalizedAt }),
  ...(batch.endedAt === null ? {} : { completedAt: batch.endedAt }),
  ...(batch.name === null ? {} : { name: batch.name }),
  ...(batch.webhook === null ? {} : { webhook: batch.webhook })
})

/** The body of a batch's webhook. */
export const batchJson = (batch: BatchRecord): JsonText => toJsonText(toWireBatch(batch))
