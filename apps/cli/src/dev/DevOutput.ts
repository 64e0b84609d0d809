/**
 * What `stint dev` prints while jobs run: one line for each job that ends, and the handler's own output.
 *
 * ```
 *   14:03:21  words  COMPLETED in 12 ms  sync-01a2…
 *   14:03:24  words  FAILED in 3 ms  sync-01a3…  TypeError: text is undefined
 *   14:03:24  words  | loading the model
 * ```
 *
 * The worker SDK's lines about itself (fitness checks, start, stop) are omitted, because every save starts a worker.
 */
import { escapeLine, escapeUnprintable } from "@stint/contract/PrintableText"
import type { JobHead } from "@stint/store/JobRecord"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import process from "node:process"
import type { Observer } from "../platform/Platform.ts"

/** The worker SDK's lines about its own process. */
const ABOUT_WORKER = /^(?:Fitness checks passed: |Worker \S+ takes jobs of endpoint |Stopping: )/

/** The shortest wait for a worker that is reported. Milliseconds. */
const LONG_WAIT = 100

/** The maximum length of an error in a job's line, in characters. The traceback is in the job itself. */
const SHOWN_ERROR = 200

const decodeException = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ error_type: Schema.String, error_message: Schema.String }))
)

/** `<class 'TypeError'>` of the wire format as `TypeError`. */
const typeName = (text: string): string => /^<class '(.+)'>$/.exec(text)?.[1] ?? text

const errorText = (error: string): string =>
  Option.match(decodeException(error), {
    onNone: () => error,
    onSome: ({ error_message, error_type }) => `${typeName(error_type)}: ${error_message}`
  })

const duration = (millis: number): string => millis < 10_000 ? `${millis} ms` : `${(millis / 1000).toFixed(1)} s`

/** The line for a job whose attempt ended at `now`, in milliseconds since 1970. */
export const jobLine = (
  { createdAt, endpoint, finishedAt, id, startedAt, status }: Pick<
    JobHead,
    "createdAt" | "endpoint" | "finishedAt" | "id" | "startedAt" | "status"
  >,
  error: string | null,
  now: number
): string => {
  const outcome = status === "IN_QUEUE" ? "attempt failed" : status
  const ran = startedAt === null ? "" : ` in ${duration((finishedAt ?? now) - startedAt)}`
  const waited = startedAt !== null && startedAt - createdAt >= LONG_WAIT
    ? ` after a wait of ${duration(startedAt - createdAt)}`
    : ""
  const why = error === null ? "" : `  ${escapeLine(errorText(error)).slice(0, SHOWN_ERROR)}`
  return `${endpoint}  ${outcome}${ran}${waited}  ${id}${why}`
}

const write = (text: string, at: Date): void => {
  const lines = escapeUnprintable(text).replaceAll(/\n(?!\n)/g, `\n${" ".repeat(10)}`)
  process.stdout.write(`${at.toLocaleTimeString("en-GB")}  ${lines}\n`)
}

/** Prints text after the current time. Further lines are indented. */
export const print = (text: string): Effect.Effect<void> =>
  Effect.map(Clock.currentTimeMillis, (now) => write(text, new Date(now)))

/** Prints jobs, and what handlers print. */
export const observer: Observer = {
  attemptEnded: (job, error) => Effect.map(Clock.currentTimeMillis, (now) => write(jobLine(job, error, now), new Date(now))),
  workerPrinted: ({ endpoint }, { isLogged, job, level, message }) => {
    if (isLogged && job === undefined && ABOUT_WORKER.test(message)) return
    const shownLevel = isLogged && level !== "INFO" ? `${level} ` : ""
    write(`${endpoint}  | ${shownLevel}${message}`, new Date())
  }
}
