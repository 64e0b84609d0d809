/**
 * The commands of `stint jobs` that use text queries: the search, and `retry`, `cancel` and `rerun` with `--where`.
 */
import type { BulkOperation } from "@stint/contract/Bulk"
import type { FoundJob, SearchedText } from "@stint/contract/BulkApi"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as BulkWatch from "../client/BulkWatch.ts"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { duration, endpoint, jobId, json, yes } from "./SharedFlags.ts"
import * as StatusCommand from "./StatusCommand.ts"

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const where = Flag.String("where").pipe(
  Flag.withMetavar("query"),
  Flag.withDescription("All jobs that match a query, such as 'status:failed endpoint:resize since:2h', instead of one job")
)

const hold = duration("hold").pipe(
  Flag.withDescription("With --where: how long to wait before the first change; default 10s, at most 10m"),
  Flag.optional
)

const bulkFlags = { where: where.pipe(Flag.optional), hold, yes }

/** The job that a command names. */
const oneJob = { endpoint: endpoint.pipe(Argument.optional), jobId: jobId.pipe(Argument.optional) }

interface Named {
  readonly endpoint: Option.Option<string>
  readonly jobId: Option.Option<string>
  readonly where: Option.Option<string>
}

/** The query, or the job, that the arguments name. */
const namedBy = (command: string, { endpoint, jobId, where }: Named) => {
  const job = Option.all({ endpoint, jobId })
  if (Option.isSome(where) && Option.isNone(endpoint)) return Effect.succeed({ where: where.value })
  if (Option.isSome(job) && Option.isNone(where)) return Effect.succeed(job.value)
  return Effect.fail(
    new CliFailure({
      message: Option.isSome(where) ? "--where and a job cannot be combined." : "Name a job, or all jobs that match a query.",
      hint: `stint jobs ${command} ENDPOINT JOB, or stint jobs ${command} --where 'status:failed endpoint:resize since:2h'`,
      code: "invalid-arguments"
    })
  )
}

/** `stint jobs retry`. */
export const retry = Command.make(
  "retry",
  {
    ...oneJob,
    ...bulkFlags,
    from: Flag.String("from").pipe(
      Flag.withDescription(
        "For a run of a pipeline: the node to run again, with all nodes after it. Also applies to a run that waits for another definition"
      ),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ from, hold, json, yes, ...named }) {
    const target = yield* namedBy("retry", named)
    if ("where" in target) return yield* BulkWatch.run({ action: "retry", where: target.where, hold, yes, json })
    const { endpoint, jobId } = target
    const query = Option.isSome(from) ? { from: from.value } : {}
    const receipt = yield* call((api) => api.jobs.retry({ params: { endpoint, id: jobId }, query }))
    yield* Output.print(
      json,
      receipt,
      ({ id, status }) => `${Output.inline(id)}  ${status}\nWait for it: stint status ${endpoint} ${Output.inline(id)} --wait`
    )
  })
).pipe(
  Command.withDescription("Run a FAILED or TIMED_OUT job again, under the same id; with --where, all jobs that match a query"),
  Command.withExamples([
    {
      command: "stint jobs retry --where 'status:failed endpoint:resize error:ENOSPC since:2h'",
      description: "The jobs that failed on a full disk"
    }
  ])
)

/** `stint jobs cancel`. */
export const cancel = Command.make(
  "cancel",
  { ...oneJob, ...bulkFlags, json },
  Effect.fnUntraced(function*({ hold, json, yes, ...named }) {
    const target = yield* namedBy("cancel", named)
    if ("where" in target) return yield* BulkWatch.run({ action: "cancel", where: target.where, hold, yes, json })
    return yield* StatusCommand.cancelJob({ ...target, json })
  })
).pipe(Command.withDescription("Cancel a waiting or running job; with --where, all jobs that match a query"))

/** `stint jobs rerun`. */
export const rerun = Command.make(
  "rerun",
  { where, hold, yes, json },
  (options) => BulkWatch.run({ action: "rerun", ...options })
).pipe(Command.withDescription("Submit new jobs with the inputs of all ended jobs that match a query"))

const bulkId = Argument.String("operation").pipe(Argument.withDescription("Id of the operation"))

const rowOf = (operation: BulkOperation): ReadonlyArray<string> => [
  operation.id,
  operation.state,
  timeText(operation.createdAt),
  operation.createdBy,
  `${operation.matched.more ? "over " : ""}${operation.matched.count}`,
  BulkWatch.progressOf(operation),
  `${operation.action} ${operation.query}`
]

const text = (operation: BulkOperation): string =>
  [
    Output.table([
      ["operation", operation.id],
      ["action", operation.action],
      ["query", operation.query],
      ["state", operation.state],
      ["created", `${timeText(operation.createdAt)} by ${operation.createdBy}`],
      ["starts", timeText(operation.startsAt)],
      ["matched", `${operation.matched.more ? "over " : ""}${operation.matched.count}`],
      ["so far", BulkWatch.progressOf(operation)]
    ]),
    ...operation.problems.map(({ endpoint, job, reason }) =>
      `  ${Output.inline(endpoint)} ${Output.inline(job)}: ${Output.inline(reason)}`
    )
  ].join("\n")

const listBulk = Command.make(
  "list",
  { json },
  Effect.fnUntraced(function*({ json }) {
    const found = yield* call((api) => api.bulk.listBulk())
    yield* Output.print(json, found, ({ operations }) =>
      operations.length === 0
        ? "No bulk operations."
        : Output.table([["OPERATION", "STATE", "CREATED", "BY", "MATCHED", "SO FAR", "WHAT"], ...operations.map(rowOf)]))
  })
).pipe(Command.withDescription("List the newest bulk operations; times are UTC"))

const showBulk = Command.make(
  "show",
  { operation: bulkId, json },
  Effect.fnUntraced(function*({ json, operation }) {
    yield* Output.print(json, yield* call((api) => api.bulk.getBulk({ params: { bulk: operation } })), text)
  })
).pipe(Command.withDescription("Show a bulk operation and its progress"))

const cancelBulk = Command.make(
  "cancel",
  { operation: bulkId, json },
  Effect.fnUntraced(function*({ json, operation }) {
    yield* Output.print(json, yield* call((api) => api.bulk.cancelBulk({ params: { bulk: operation } })), text)
  })
).pipe(
  Command.withDescription("Cancel a bulk operation during its hold, or stop it; jobs that it has already changed stay changed")
)

/** `stint jobs bulk` and its subcommands. */
export const bulk = Command.make("bulk").pipe(
  Command.withDescription("Bulk operations started by retry, cancel and rerun with --where"),
  Command.withSubcommands([listBulk, showBulk, cancelBulk])
)

const foundRow = (job: FoundJob): ReadonlyArray<string> => [
  job.endpoint,
  job.id,
  job.status,
  timeText(job.createdAt),
  job.release === undefined ? "-" : String(job.release),
  job.tags.join(", "),
  (job.error ?? "").split("\n", 1)[0]?.slice(0, 60) ?? ""
]

/** What a search for words did not find, and why it is slow. */
const notesOf = ({ characters, from, index, undecided }: SearchedText): ReadonlyArray<string> => {
  const notes = [
    ...(undecided === 0 ? [] : [
      `${undecided} ${
        undecided === 1 ? "job is" : "jobs are"
      } left out: their inputs, outputs or errors are in the payload store or longer than ${characters} ` +
      "characters, and the beginning does not decide whether they match."
    ]),
    ...(index === "building" ? ["The index of words is being built. Until then, a page reads at most 2,000 jobs."] : []),
    ...(index === "none" ? ["There is no index of words. A page reads at most 2,000 jobs."] : []),
    ...(from === null || index !== "ready"
      ? []
      : [`Jobs from before ${timeText(from)} are not in the index of words. A page reads at most 2,000 of them.`])
  ]
  return notes.length === 0 ? [] : ["", ...notes]
}

/** The arguments of `stint jobs 'QUERY'`. */
export const searchFlags = {
  query: Argument.String("query").pipe(
    Argument.withDescription(
      "Terms such as status:failed endpoint:resize NOT tag:nightly since:2h error:\"out of memory\" text:\"red shoes\" OR ...; default: all jobs"
    ),
    Argument.optional
  ),
  limit: Flag.Int("limit").pipe(Flag.withDescription("Number of jobs, 1 to 200; default 50"), Flag.optional),
  cursor: Flag.String("cursor").pipe(Flag.withDescription("Cursor from the previous page"), Flag.optional),
  json
}

/** `stint jobs 'QUERY'`. */
export const search = Effect.fnUntraced(function*({ cursor, json, limit, query }: {
  readonly query: Option.Option<string>
  readonly limit: Option.Option<number>
  readonly cursor: Option.Option<string>
  readonly json: boolean
}) {
  const page = yield* call((api) =>
    api.bulk.searchJobs({
      query: {
        ...(Option.isSome(query) ? { query: query.value } : {}),
        ...(Option.isSome(limit) ? { limit: limit.value } : {}),
        ...(Option.isSome(cursor) ? { cursor: cursor.value } : {})
      }
    })
  )
  yield* Output.print(json, page, ({ cursor, jobs, text }) =>
    [
      jobs.length > 0
        ? Output.table([["ENDPOINT", "JOB", "STATUS", "SUBMITTED", "RELEASE", "TAGS", ""], ...jobs.map(foundRow)])
        : cursor === null
        ? "No jobs."
        : "No jobs on this page.",
      ...(text === undefined ? [] : notesOf(text)),
      ...(cursor === null ? [] : ["", `More: repeat the command with --cursor ${Output.inline(cursor)}`])
    ].join("\n"))
})
