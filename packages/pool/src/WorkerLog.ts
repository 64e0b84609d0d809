/**
 * Where the lines go that workers print.
 *
 * The default writes each to the platform's own log at level Info, annotated with `endpoint`, `worker` and `stream`. Provide another
 * one to keep them by job (`ParsedLogLine`, `JobLogs`) or to send them elsewhere. A slow sink slows the worker that prints, and no other: lines are not dropped.
 */
import type { EndpointId, WorkerId } from "@stint/contract/Ids"
import { WorkerVariable } from "@stint/contract/WorkerProtocol"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** One line, without its line break. Very long ones come in pieces. */
export interface WorkerLine {
  readonly endpoint: EndpointId
  readonly worker: WorkerId
  readonly stream: "stdout" | "stderr"
  readonly text: string
}

/** Shorter keys are not hidden: every word of a log would look like one. */
const SHORTEST_KEY = 8

export interface WorkerLog {
  readonly write: (line: WorkerLine) => Effect.Effect<void>
}

/**
 * Hides the worker's key in what it prints. Pools pass every line through it before it is kept or written: last lines end up in the errors
 * of jobs, which callers read.
 */
export const maskOf = (variables: Readonly<Record<string, string>>): (line: string) => string => {
  const keys = Object.entries(variables)
    .filter(([name, value]) => name.endsWith(WorkerVariable.apiKey) && value.length >= SHORTEST_KEY)
    .map(([, value]) => value)
  const secrets = [...new Set(keys)]
  return (line) => secrets.reduce((text, secret) => text.replaceAll(secret, "[the worker's key]"), line)
}

export const WorkerLog: Context.Reference<WorkerLog> = Context.Reference("@stint/pool/WorkerLog", {
  defaultValue: (): WorkerLog => ({
    write: ({ endpoint, stream, text, worker }) => Effect.annotateLogs(Effect.logInfo(text), { endpoint, worker, stream })
  })
})
