/**
 * `stint logs` prints the log of a job. With `-f`, it follows the log until the job ends. Without a job, it searches the logs of all jobs of the
 * endpoint.
 */
import {
  type FoundLogPage,
  isLevelEnabled,
  type JobLogLine,
  LOG_LEVELS,
  type LogLevel,
  parseLogLevel
} from "@stint/contract/JobLogLine"
import { LOG_PAGE_LIMIT } from "@stint/contract/LogsApi"
import { isWithin } from "@stint/contract/NodeAddress"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as JobEventReader from "../client/JobEventReader.ts"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as LogFormat from "../output/LogFormat.ts"
import * as Output from "../output/Output.ts"
import { endpoint, jobId, queryOf, since } from "./SharedFlags.ts"

const follow = Flag.Boolean("follow").pipe(
  Flag.withAlias("f"),
  Flag.withDescription("Follow the log until the job ends"),
  Flag.withDefault(false)
)

const level = Flag.Literals("level", LOG_LEVELS.map((name) => name.toLowerCase())).pipe(
  Flag.withDescription("Lowest level to show"),
  Flag.optional
)

const step = Flag.String("step").pipe(
  Flag.withDescription("Only lines of this step of a pipeline, e.g. charge or thumbnail[3]"),
  Flag.optional
)

const contains = Flag.String("contains").pipe(
  Flag.withDescription("Only lines that contain this text, in upper or lower case"),
  Flag.withDefault("")
)

const after = Flag.Int("after").pipe(
  Flag.withDescription("Only lines after the line with this number"),
  Flag.withDefault(0)
)

const limit = Flag.Int("limit").pipe(
  Flag.withDescription("Print at most this number of lines; default for an endpoint: 100"),
  Flag.optional
)

const cursor = Flag.String("cursor").pipe(
  Flag.withDescription("Without a job: only lines before this cursor of an earlier search"),
  Flag.optional
)

const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print one JSON object per line"),
  Flag.withDefault(false)
)

/** Prints the log lines stored so far, from the line after `after`. */
const printPages = Effect.fnUntraced(function*(
  job: { readonly endpoint: string; readonly id: string },
  { after, limit, ...filter }: {
    readonly after: number
    readonly contains: string
    readonly level: LogLevel
    readonly step?: string
    readonly limit: number
  },
  print: (line: JobLogLine) => Effect.Effect<void>
) {
  let cursor = after
  let left = limit
  for (let more = true; more && left > 0;) {
    const page = yield* call((api) =>
      api.logs.logs({ params: job, query: { after: cursor, ...filter, limit: Math.min(left, LOG_PAGE_LIMIT) } })
    )
    for (const line of page.lines) yield* print(line)
    left -= page.lines.length
    cursor = page.cursor
    more = page.more
  }
})

/** `Searched 20,000 lines, back to 2026-11-22T04:12:09Z; older lines were not searched. Continue: add --cursor 1042`. */
const searchedText = ({ cursor, oldest, searched, stopped }: FoundLogPage): string | undefined => {
  if (cursor === null) return undefined
  const more = `--cursor ${Output.inline(cursor)}`
  const far = oldest === undefined ? "" : `, back to ${new Date(oldest).toISOString()}`
  return stopped === undefined
    ? `Older lines: add ${more}`
    : `Searched ${searched.toLocaleString("en")} lines${far}; older lines were not searched. Continue: add ${more}`
}

/** Prints the lines of all jobs of an endpoint, newest first. */
const search = Effect.fnUntraced(function*(
  endpoint: string,
  query: {
    readonly contains: string
    readonly level: LogLevel
    readonly since?: number
    readonly limit?: number
    readonly cursor?: string
  },
  json: boolean
) {
  const page = yield* call((api) => api.logs.searchLogs({ params: { endpoint }, query }))
  for (const line of page.lines) {
    yield* json ? Output.jsonLine(line) : Output.text(`${Output.inline(line.job)} ${LogFormat.jobLine(line)}`)
  }
  const note = searchedText(page)
  if (note !== undefined) yield* Output.message(note)
  else if (page.lines.length === 0) yield* Output.message("No line matches.")
})

export const command = Command.make(
  "logs",
  {
    endpoint,
    jobId: jobId.pipe(Argument.optional),
    follow,
    level,
    contains,
    step,
    after,
    since: since("since").pipe(
      Flag.withDescription("Without a job: only lines since this time: 2h, 7d, or 2026-11-22"),
      Flag.optional
    ),
    limit,
    cursor,
    json
  },
  Effect.fnUntraced(function*({ after, contains, cursor, endpoint, follow, jobId, json, level, limit, since, step }) {
    const minLevel = parseLogLevel(Option.getOrElse(level, () => "trace"))
    if (Option.isNone(jobId)) {
      if (follow || after > 0 || Option.isSome(step)) {
        return yield* new CliFailure({
          message: "--follow, --after and --step need a job.",
          hint: "Name it: stint logs ENDPOINT JOB. `stint jobs list ENDPOINT` lists them."
        })
      }
      return yield* search(endpoint, { contains, level: minLevel, ...queryOf({ cursor, limit, since }) }, json)
    }
    if (Option.isSome(since) || Option.isSome(cursor)) {
      return yield* new CliFailure({
        message: "--since and --cursor search the logs of all jobs of an endpoint.",
        hint: "Omit the job, or use --after with the number of a line."
      })
    }
    const job = { endpoint, id: jobId.value }
    const print = (line: JobLogLine) => json ? Output.jsonLine(line) : Output.text(LogFormat.jobLine(line))
    const ofStep = Option.isSome(step) ? { step: step.value } : {}
    if (!follow) {
      const most = Option.getOrElse(limit, () => Infinity)
      return yield* printPages(job, { after, contains, level: minLevel, limit: most, ...ofStep }, print)
    }
    const isWanted = (line: JobLogLine) =>
      isLevelEnabled(line.level, minLevel) && line.message.toLowerCase().includes(contains.toLowerCase()) &&
      (Option.isNone(step) || (line.step !== undefined && isWithin(line.step, step.value)))
    yield* JobEventReader.follow(job, ["log"], (event) => {
      if (event.event === "end") return Output.message(`The job ended as ${event.data.status}.`)
      return event.event === "log" && isWanted(event.data) ? print(event.data) : Effect.void
    })
  })
).pipe(
  Command.withDescription("Show the log of a job, or search the logs of all jobs of an endpoint"),
  Command.withExamples([
    { command: "stint logs hello 0f8fad5b-d9cb-469f-a165-70867728950e", description: "All lines of the job" },
    {
      command: "stint logs hello 0f8fad5b-d9cb-469f-a165-70867728950e --contains timeout",
      description: "The lines about timeouts"
    },
    {
      command: "stint logs hello 0f8fad5b-d9cb-469f-a165-70867728950e -f --level warn",
      description: "Warnings and errors, as they arrive"
    },
    {
      command: "stint logs gallery 0f8fad5b-d9cb-469f-a165-70867728950e --step thumbnail",
      description: "The lines of one node of a pipeline's run"
    },
    { command: "stint logs hello --contains timeout --level warn --since 1h", description: "Warnings about timeouts in any job" }
  ])
)
