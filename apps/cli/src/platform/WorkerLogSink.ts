/**
 * Routes workers' output lines to the platform's log and to the log of the job that each line belongs to.
 */
import * as ParsedLogLine from "@stint/pool/ParsedLogLine"
import { type WorkerLine, WorkerLog } from "@stint/pool/WorkerLog"
import { JobLogs } from "@stint/queue/JobLogs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { writeWorkerLine } from "../output/LogFormat.ts"

/** Writes a line where the operator sees it. */
export type WriteLine = (line: Pick<WorkerLine, "endpoint" | "text" | "worker">, parsed: ParsedLogLine.ParsedLogLine) => void

/** The sink for a pool's lines. `write`: default is the platform's log. */
export const layer = (write: WriteLine = writeWorkerLine): Layer.Layer<never, never, JobLogs> =>
  Layer.effect(
    WorkerLog,
    Effect.map(JobLogs, (logs) => ({
      write: (line) => {
        const { isLogged, ...parsed } = ParsedLogLine.parse(line)
        write(line, { isLogged, ...parsed })
        return Effect.asVoid(logs.write({ endpoint: line.endpoint, worker: line.worker, ...parsed }))
      }
    }))
  )
