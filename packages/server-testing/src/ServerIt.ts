/**
 * The environment in which the suite's tests run.
 */
import type { Vitest } from "@effect/vitest"
import type { JobLogs } from "@stint/queue/JobLogs"
import type { JobQueue } from "@stint/queue/JobQueue"
import type { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import type { ServerTest } from "./ServerTest.ts"
import type { TestModels } from "./TestModels.ts"

/** The `it` of a server under test. */
export type ServerIt = Vitest.MethodsNonLive<ServerTest | TestModels | JobLogs | JobQueue | WorkerRegistry>
