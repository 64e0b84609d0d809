/**
 * The sink for workers' output lines.
 *
 * The default writes each line to the platform's log at level Info, annotated with `endpoint`, `worker` and `stream`. Provide another sink
 * to store lines by job (`ParsedLogLine`, `JobLogs`) or to send them elsewhere. Lines are never dropped: a slow sink slows down the worker
 * that is printing, but no other worker.
 */
import type { EndpointId, WorkerId } from "@stint/contract/Ids"
import { WorkerVariable } from "@stint/contract/WorkerProtocol"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** One line, without its line break. Very long lines arrive in pieces. */
export interface WorkerLine {
  readonly endpoint: EndpointId
  readonly worker: WorkerId
  readonly stream: "stdout" | "stderr"
  readonly text: string
}

/** The shortest key that is redacted, because shorter keys would match ordinary words. Characters. */
const SHORTEST_KEY = 8

export interface WorkerLog {
  readonly write: (line: WorkerLine) => Effect.Effect<void>
}

/**
 * Redacts the worker's key in its output, and the endpoint's secrets with `mask`. Pools apply it to every line before it is shortened, stored
 * or written, because the last lines appear in job errors, which callers read.
 */
export const maskOf = (
  variables: Readonly<Record<string, string>>,
  mask: (text: string) => string = (text) => text
): (line: string) => string => {
  const keys = Object.entries(variables)
    .filter(([name, value]) => name.endsWith(WorkerVariable.apiKey) && value.length >= SHORTEST_KEY)
    .map(([, value]) => value)
  const secrets = [...new Set(keys)]
  return (line) => mask(secrets.reduce((text, secret) => text.replaceAll(secret, "[the worker's key]"), line))
}

export const WorkerLog: Context.Reference<WorkerLog> = Context.Reference("@stint/pool/WorkerLog", {
  defaultValue: (): WorkerLog => ({
    write: ({ endpoint, stream, text, worker }) => Effect.annotateLogs(Effect.logInfo(text), { endpoint, worker, stream })
  })
})
