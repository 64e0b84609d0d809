/**
 * Exports the log lines of jobs as log records. Wraps the store of job logs, and exports the lines that it has stored.
 *
 * With traces, a record has the trace of its job and the span of its attempt, so that a viewer shows the lines of a span.
 */
import type { BatchExport } from "@stint/otel/BatchExport"
import type { LogRecord } from "@stint/otel/LogExport"
import { JobLogStore, type LogBatch } from "@stint/store/JobLogStore"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TraceIds from "./TraceIds.ts"

/** The records of stored lines. `spanOf`: the span of an attempt. */
const recordsOf = (
  { endpoint, job, lines }: LogBatch,
  spanOf: (attempt: number) => LogRecord["span"]
): ReadonlyArray<LogRecord> =>
  lines.map(({ attempt, level, message, release, source, step, time, worker }) => ({
    time,
    level,
    message,
    span: spanOf(attempt),
    attributes: {
      "messaging.message.id": job,
      "stint.endpoint": endpoint,
      "stint.job.id": job,
      "stint.job.attempt": attempt,
      "stint.job.step": step,
      "stint.worker.id": worker ?? undefined,
      "stint.release": release,
      "stint.log.source": source,
      "log.iostream": source === "stdout" || source === "stderr" ? source : undefined
    }
  }))

/** The store of job logs, exported. `sampler`: that of the platform's traces; undefined without traces. */
export const layer = (
  records: BatchExport<LogRecord>,
  sampler: TraceIds.Sampler | undefined
): Layer.Layer<JobLogStore, never, JobLogStore | JobStore> =>
  Layer.effect(
    JobLogStore,
    Effect.gen(function*() {
      const store = yield* JobLogStore
      const jobs = yield* JobStore

      const spansOf = Effect.fnUntraced(function*({ endpoint, job }: LogBatch) {
        const context = sampler === undefined
          ? undefined
          : yield* Effect.orElseSucceed(jobs.traceOf(endpoint, job), () => undefined)
        const trace = context === undefined || sampler === undefined ? undefined : TraceIds.traceOf(job, context, sampler)
        return (attempt: number) =>
          trace?.sampled === true ? { traceId: trace.traceId, spanId: TraceIds.attemptSpan(job, attempt) } : undefined
      })

      const add = Effect.fnUntraced(function*(batch: LogBatch) {
        if (batch.lines.length === 0) return
        for (const record of recordsOf(batch, yield* spansOf(batch))) records.add(record)
      })

      return JobLogStore.of({
        ...store,
        append: (batches) => Effect.tap(store.append(batches), Effect.forEach(batches, add, { discard: true }))
      })
    })
  )
