/**
 * Routes workers' output lines to the platform's log and to the log of the job that each line belongs to.
 *
 * The level of the platform's log (`--log-level`) applies to workers' lines, too. Text that a worker prints has the level INFO, or WARN if it is
 * printed on standard error. A job's log contains every line.
 */
import type { LogLevel as ContractLogLevel } from "@stint/contract/JobLogLine"
import * as ParsedLogLine from "@stint/pool/ParsedLogLine"
import { type WorkerLine, WorkerLog } from "@stint/pool/WorkerLog"
import { JobLogs } from "@stint/queue/JobLogs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as LogLevel from "effect/LogLevel"
import * as References from "effect/References"
import { writeWorkerLine } from "../output/LogFormat.ts"

const LEVELS: Readonly<Record<ContractLogLevel, LogLevel.LogLevel>> = {
  TRACE: "Trace",
  DEBUG: "Debug",
  INFO: "Info",
  WARN: "Warn",
  ERROR: "Error"
}

/** Writes a line where the operator sees it. */
export type WriteLine = (line: Pick<WorkerLine, "endpoint" | "text" | "worker">, parsed: ParsedLogLine.ParsedLogLine) => void

/** The sink for a pool's lines. `write`: default is the platform's log. */
export const layer = (write: WriteLine = writeWorkerLine): Layer.Layer<never, never, JobLogs> =>
  Layer.effect(
    WorkerLog,
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const minimum = yield* References.MinimumLogLevel
      const isEnabled = (level: ContractLogLevel) => LogLevel.isGreaterThanOrEqualTo(LEVELS[level], minimum)
      return {
        write: (line) => {
          const { isLogged, ...parsed } = ParsedLogLine.parse(line)
          if (isEnabled(parsed.level)) write(line, { isLogged, ...parsed })
          return Effect.asVoid(logs.write({ endpoint: line.endpoint, worker: line.worker, ...parsed }))
        }
      }
    })
  )
