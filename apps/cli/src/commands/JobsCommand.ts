/**
 * `stint jobs` finds, lists, changes, purges and follows jobs. It also contains `status`, `cancel` and `logs`, which also exist at the top level.
 */
import { JobStatus } from "@stint/contract/Job"
import { JobEventKind } from "@stint/contract/JobEvents"
import type { ListedJob } from "@stint/contract/JobList"
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as JobEventReader from "../client/JobEventReader.ts"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import * as BulkCommands from "./BulkCommands.ts"
import * as LogsCommand from "./LogsCommand.ts"
import { endpoint, jobId, json, time } from "./SharedFlags.ts"
import * as StatusCommand from "./StatusCommand.ts"

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const secondsText = (millis: number | undefined): string => millis === undefined ? "-" : `${(millis / 1000).toFixed(2)} s`

/** The last column: the error's first line, or when the job may start. */
const noteOf = ({ error, startAt }: ListedJob): string =>
  startAt === undefined ? (error ?? "").split("\n", 1)[0]?.slice(0, 60) ?? "" : `starts ${timeText(startAt)}`

const rowOf = (job: ListedJob): ReadonlyArray<string> => [
  job.id,
  job.status,
  timeText(job.createdAt),
  secondsText(job.delayTime),
  secondsText(job.executionTime),
  String(job.attempt),
  job.release === undefined ? "-" : String(job.release),
  String(job.priority),
  job.tags.join(", "),
  noteOf(job)
]

const list = Command.make(
  "list",
  {
    endpoint,
    status: Flag.Literals("status", JobStatus.literals).pipe(Flag.withDescription("Only jobs with this status"), Flag.optional),
    tag: Flag.String("tag").pipe(Flag.withDescription("Only jobs with this tag"), Flag.optional),
    createdAfter: time("created-after").pipe(Flag.withDescription("Only jobs submitted at or after this time"), Flag.optional),
    createdBefore: time("created-before").pipe(Flag.withDescription("Only jobs submitted before this time"), Flag.optional),
    query: Flag.String("query").pipe(
      Flag.withDescription(
        "Only jobs that match a query, such as 'status:failed error:\"out of memory\"', instead of the other filters"
      ),
      Flag.optional
    ),
    limit: Flag.Int("limit").pipe(Flag.withDescription("Number of jobs, 1 to 200; default 50"), Flag.optional),
    cursor: Flag.String("cursor").pipe(Flag.withDescription("Cursor from the previous page"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ createdAfter, createdBefore, cursor, endpoint, json, limit, query: text, status, tag }) {
    const query = {
      ...(Option.isSome(status) ? { status: status.value } : {}),
      ...(Option.isSome(tag) ? { tag: tag.value } : {}),
      ...(Option.isSome(createdAfter) ? { createdAfter: createdAfter.value } : {}),
      ...(Option.isSome(createdBefore) ? { createdBefore: createdBefore.value } : {}),
      ...(Option.isSome(text) ? { query: text.value } : {}),
      ...(Option.isSome(limit) ? { limit: limit.value } : {}),
      ...(Option.isSome(cursor) ? { cursor: cursor.value } : {})
    }
    const page = yield* call((api) => api.jobs.requests({ params: { endpoint }, query }))
    yield* Output.print(json, page, ({ cursor, requests }) =>
      [
        requests.length === 0
          ? "No jobs."
          : Output.table([
            ["JOB", "STATUS", "SUBMITTED", "WAITED", "RAN", "ATTEMPT", "RELEASE", "PRIORITY", "TAGS", ""],
            ...requests.map(rowOf)
          ]),
        ...(cursor === null ? [] : ["", `More: repeat the command with --cursor ${Output.inline(cursor)}`])
      ].join("\n"))
  })
).pipe(
  Command.withDescription("List an endpoint's jobs, newest first; times are UTC"),
  Command.withAlias("ls"),
  Command.withExamples([
    { command: "stint jobs list hello --status FAILED", description: "The failed jobs with their errors" },
    { command: "stint jobs list hello --tag nightly --created-after 2026-11-22", description: "The jobs with a tag since a date" }
  ])
)

const purge = Command.make(
  "purge",
  { endpoint, json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    const purged = yield* call((api) => api.jobs.purgeQueue({ params: { endpoint } }))
    yield* Output.print(
      json,
      purged,
      ({ removed }) => `Cancelled ${removed} waiting ${removed === 1 ? "job" : "jobs"} of "${endpoint}". Running jobs continue.`
    )
  })
).pipe(Command.withDescription("Cancel every waiting job of an endpoint, including those with a start time"))

const events = Command.make(
  "events",
  {
    endpoint,
    jobId,
    kind: Flag.Literals("kind", JobEventKind.literals).pipe(
      Flag.withDescription("Only events of this kind: status, progress, chunk, log; repeatable. The end event is always printed"),
      Flag.atLeast(0)
    ),
    after: Flag.String("after").pipe(Flag.withDescription("Only events after the event with this id"), Flag.optional)
  },
  Effect.fnUntraced(function*({ after, endpoint, jobId, kind }) {
    yield* JobEventReader.follow(
      { endpoint, id: jobId },
      kind.length === 0 ? JobEventKind.literals : [...new Set(kind)],
      Output.jsonLine,
      Option.getOrUndefined(after)
    )
  })
).pipe(Command.withDescription("Print a job's events as they happen, one JSON object per line, until it ends"))

/** `stint jobs` and its subcommands. */
export const jobs = Command.make("jobs", BulkCommands.searchFlags, BulkCommands.search).pipe(
  Command.withDescription("Jobs: find with a query, list, status, cancel, retry, rerun, purge, logs, events"),
  Command.withExamples([
    {
      command: "stint jobs 'status:failed endpoint:resize since:2h error:\"out of memory\"'",
      description: "The jobs that match a query, newest first; times are UTC"
    }
  ]),
  Command.withSubcommands([
    list,
    StatusCommand.status,
    BulkCommands.cancel,
    BulkCommands.retry,
    BulkCommands.rerun,
    BulkCommands.bulk,
    purge,
    LogsCommand.command,
    events
  ])
)
