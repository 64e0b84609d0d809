/**
 * The shape of a rule of log lines, and what it may use.
 */
import type * as Effect from "effect/Effect"
import type { JobLogs } from "../JobLogs.ts"
import type { JobLogStore, LogShares } from "../JobLogStore.ts"
import type { JobQueue } from "../JobQueue.ts"
import type { JobStore } from "../JobStore.ts"
import type { WorkerRegistry } from "../WorkerRegistry.ts"

/** What a rule of log lines may use. */
export type LogWorld = JobStore | JobLogStore | JobLogs | JobQueue | WorkerRegistry

/** Registers one rule as a test, with shares that differ from the defaults where it says so. */
export type LogRule = (title: string, body: () => Effect.Effect<void, unknown, LogWorld>, shares?: Partial<LogShares>) => void
