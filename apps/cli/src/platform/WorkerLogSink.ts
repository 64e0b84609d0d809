/**
 * Where the lines go that workers print: to the platform's own log, and to the job that each belongs to.
 */
import * as ParsedLogLine from "@stint/pool/ParsedLogLine"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { JobLogs } from "@stint/queue/JobLogs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeWorkerLine } from "../output/LogFormat.ts"

/** The sink of a pool's lines. */
export const layer: Layer.Layer<never, never, JobLogs> = Layer.effect(
  WorkerLog,
  Effect.map(JobLogs, (logs) => ({
    write: (line) => {
      const { isLogged, ...parsed } = ParsedLogLine.parse(line)
      writeWorkerLine(line, { isLogged, ...parsed })
      return Effect.asVoid(logs.write({ endpoint: line.endpoint, worker: line.worker, ...parsed }))
    }
  }))
)
