/**
 * A scenario for one test of a pipeline's runs: the pipeline with its workers, and the endpoint of its child jobs. Uses the queues under test.
 */
import { toJsonText } from "@stint/contract/Json"
import type { JobQueue } from "@stint/queue/JobQueue"
import { RunQueue, type RunRequest, type Spawn } from "@stint/queue/RunQueue"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobHead } from "@stint/store/JobRecord"
import type { JournalResult } from "@stint/store/RunStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Scenario from "./Scenario.ts"

const HASH = "a".repeat(64)

const GRAPH = toJsonText({ name: "letters", nodes: [{ address: "stamp", kind: "run" }] })

const CHILDREN = "stamps"

/** The record that starts a child job. */
export const spawn = (path = "stamp"): Spawn => ({ kind: "spawn", path, endpoint: CHILDREN, input: toJsonText({ stamp: 1 }) })

/** A run's wait without a worker, until an entry after `seen` arrives. */
export const park = (seen: number): Pick<RunRequest, "park"> => ({ park: { seen, wakeAfter: 1, until: null } })

/** The first write of an activation. */
export const start: Pick<RunRequest, "start"> = { start: { definition: HASH, ttlMs: 300_000, undo: false } }

/** The end of a run: FAILED if there is an error. */
export const finish = (error: string | null = null): Pick<RunRequest, "finish"> => ({
  finish: { output: error === null ? toJsonText("done") : null, error, cancelled: false }
})

/** The actions of a test. */
export interface RunScenario {
  readonly pipeline: Scenario.Scenario
  readonly children: Scenario.Scenario
  readonly runs: RunQueue["Service"]
  /** What the worker that has taken a run writes to it. */
  readonly write: (run: JobHead, changes: Partial<RunRequest>) => Effect.Effect<JournalResult, StoreError>
}

/** A pipeline that runs one child job. */
export const make: Effect.Effect<RunScenario, StoreError, JobQueue | RunQueue | EndpointStore> = Effect.gen(function*() {
  const endpoints = yield* EndpointStore
  const runs = yield* RunQueue
  const pipeline = yield* Scenario.make()
  const children = yield* Scenario.make({ id: CHILDREN })
  for (const { endpoint } of [pipeline, children]) yield* endpoints.put(endpoint)
  yield* runs.define(pipeline.endpoint.id, [{ hash: HASH, graph: GRAPH }])
  return {
    pipeline,
    children,
    runs,
    write: Effect.fnUntraced(function*({ attempt, endpoint, id, worker }, changes) {
      const [result] = yield* runs.journal(endpoint, worker ?? "", [{ run: id, attempt, records: [], ...changes }], 0)
      return result ?? (yield* Effect.die(new Error(`no result for ${id}`)))
    })
  }
})
