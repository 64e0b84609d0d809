import { expect, it } from "@effect/vitest"
import type { LogRecord } from "@stint/otel/LogExport"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario } from "@stint/store-testing"
import { JobLogStore, type LogEntry } from "@stint/store/JobLogStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as JobLogExport from "../src/JobLogExport.ts"

it.effect("exports the step of a pipeline with each line that a step wrote", () => {
  const records: Array<LogRecord> = []
  const exported = JobLogExport.layer({ add: (record) => void records.push(record), lose: () => {} }, undefined)
  return Effect.gen(function*() {
    const store = yield* JobLogStore
    const { submit, takeOne } = yield* Scenario.make()
    yield* submit()
    const { attempt, endpoint, id } = yield* takeOne("ann")
    const line = (message: string, step?: string): LogEntry => ({
      time: 1_790_000_000_000,
      level: "INFO",
      source: "log",
      attempt,
      worker: "ann",
      message,
      ...(step === undefined ? {} : { step })
    })
    yield* store.append([{ endpoint, job: id, missed: 0, lines: [line("small", "thumbnail[3]"), line("started")] }])
    expect(records.map(({ attributes, message }) => [message, attributes["stint.job.step"], attributes["stint.job.id"]])).toEqual(
      [
        ["small", "thumbnail[3]", id],
        ["started", undefined, id]
      ]
    )
  }).pipe(
    Effect.provide(
      Layer.mergeAll(JobQueue.layer, exported).pipe(
        Layer.provideMerge(Layer.merge(MemoryJobStore.layerWithEndpoints, WorkerRegistry.layer))
      )
    )
  )
})
