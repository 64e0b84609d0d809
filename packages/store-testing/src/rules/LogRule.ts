/**
 * Registers the rules for log lines as tests.
 */
import type { JobLogs } from "@stint/queue/JobLogs"
import type { JobQueue } from "@stint/queue/JobQueue"
import type { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import type { JobLogStore, LogQuotas } from "@stint/store/JobLogStore"
import type { JobStore } from "@stint/store/JobStore"
import type * as Effect from "effect/Effect"

/** The services that a rule for log lines may use. */
export type LogRuleServices = JobStore | JobLogStore | JobLogs | JobQueue | WorkerRegistry

/** Registers one rule as a test, optionally with quotas that differ from the defaults. */
export type LogRule = (
  title: string,
  body: () => Effect.Effect<void, unknown, LogRuleServices>,
  quotas?: Partial<LogQuotas>
) => void
