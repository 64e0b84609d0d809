/**
 * The shape of a rule of log lines, and what it may use.
 */
import type { JobLogs } from "@stint/queue/JobLogs"
import type { JobQueue } from "@stint/queue/JobQueue"
import type { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import type { JobLogStore, LogQuotas } from "@stint/store/JobLogStore"
import type { JobStore } from "@stint/store/JobStore"
import type * as Effect from "effect/Effect"

/** What a rule of log lines may use. */
export type LogWorld = JobStore | JobLogStore | JobLogs | JobQueue | WorkerRegistry

/** Registers one rule as a test, with shares that differ from the defaults where it says so. */
export type LogRule = (title: string, body: () => Effect.Effect<void, unknown, LogWorld>, quotas?: Partial<LogQuotas>) => void
