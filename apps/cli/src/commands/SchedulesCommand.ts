/**
 * `stint schedules` sets, shows, pauses and runs the schedules of endpoints.
 */
import { type Schedule, type ScheduleFiring, ScheduleSpec } from "@stint/contract/Schedule"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { readInput } from "./RunCommand.ts"
import { duration, endpoint, json, time, toMillis } from "./SharedFlags.ts"
import { given, invalid, submitFlags, submitOptions } from "./SubmitFlags.ts"

const name = Argument.String("schedule").pipe(Argument.withDescription("Name of the schedule, for example nightly"))

const timeText = (millis: number | undefined): string =>
  millis === undefined ? "-" : `${new Date(millis).toISOString().slice(0, 19).replace("T", " ")} UTC`

const whenText = ({ at, cron, timeZone }: ScheduleSpec): string =>
  cron === undefined ? `once at ${timeText(at)}` : `${cron} (${timeZone})`

const nextText = ({ next, paused, waiting }: Schedule): string =>
  paused ? "paused" : waiting.length > 0 ? "waits for the previous job" : timeText(next[0])

const lastText = (last: ScheduleFiring | null): string =>
  last === null ? "-" : `${timeText(last.scheduledFor)} ${last.outcome}${last.job === undefined ? "" : ` ${last.job}`}`

const details = (schedule: Schedule): string => {
  const { endpoint, last, name, next, spec, updatedAt, updatedBy, waiting } = schedule
  const rows: ReadonlyArray<readonly [string, string]> = [
    ["schedule", `${name} of ${endpoint}`],
    ["when", whenText(spec)],
    ["input", JSON.stringify(spec.input)],
    ["overlap", spec.overlap],
    ["catch-up", spec.catchUp === "all" ? `all, at most ${spec.catchUpLimit}` : spec.catchUp],
    ...(spec.jitterMs === 0 ? [] : [["jitter", `${spec.jitterMs / 1_000} s`] as const]),
    ["set", `${timeText(updatedAt)} by ${updatedBy}`],
    ["last", lastText(last)],
    ...(last?.reason === undefined ? [] : [["", last.reason] as const]),
    ...(waiting.length === 0 ? [] : [["waiting", waiting.map(timeText).join(", ")] as const]),
    ["next", schedule.paused ? `paused; stint schedules resume ${endpoint} ${name}` : timeText(next[0])],
    ...next.slice(1).map((time) => ["", timeText(time)] as const)
  ]
  return Output.table(rows)
}

const list = Command.make(
  "list",
  { endpoint: Argument.optional(endpoint), json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    const query = given("endpoint", endpoint)
    const { schedules } = yield* call((api) => api.schedules.listSchedules({ query }))
    yield* Output.print(json, schedules, (all) =>
      all.length === 0
        ? "No schedules. Set one: stint schedules set ENDPOINT NAME --cron \"0 3 * * *\""
        : Output.table([
          ["ENDPOINT", "SCHEDULE", "WHEN", "NEXT", "LAST"],
          ...all.map((one) => [one.endpoint, one.name, whenText(one.spec), nextText(one), lastText(one.last)])
        ]))
  })
).pipe(Command.withDescription("List the schedules of all endpoints, or of one"), Command.withAlias("ls"))

const show = Command.make(
  "show",
  { endpoint, name, json },
  Effect.fnUntraced(function*({ endpoint, json, name }) {
    const found = yield* call((api) => api.schedules.getSchedule({ params: { endpoint, schedule: name } }))
    yield* Output.print(json, found, details)
  })
).pipe(Command.withDescription("Show a schedule with its last firing and its next five times"))

const { at: _at, idempotencyKey: _key, in: _in, s3Config: _s3, ...jobFlags } = submitFlags

const none = { at: Option.none(), in: Option.none(), idempotencyKey: Option.none(), s3Config: Option.none() }

const decodeSpec = Schema.decodeUnknownEffect(ScheduleSpec, { errors: "all" })

const set = Command.make(
  "set",
  {
    endpoint,
    name,
    cron: Flag.String("cron").pipe(
      Flag.withDescription("When to fire: minute, hour, day of the month, month, day of the week; or @daily"),
      Flag.optional
    ),
    timeZone: Flag.String("time-zone").pipe(
      Flag.withDescription("The time zone of --cron, e.g. Europe/Berlin; default UTC"),
      Flag.optional
    ),
    at: time("at").pipe(
      Flag.withDescription("Fire once instead: 2026-11-22T14:00:00Z, or \"2026-11-22 14:00\" in local time"),
      Flag.optional
    ),
    input: Flag.String("input").pipe(Flag.withDescription("The input of each job, as JSON; default {}"), Flag.optional),
    inputFile: Flag.String("input-file").pipe(
      Flag.withDescription("A file with the input, as JSON; - reads standard input"),
      Flag.optional
    ),
    overlap: Flag.Literals("overlap", ["skip", "queue", "replace", "allow"]).pipe(
      Flag.withDescription("While the previous job has not ended: skip (default), queue, replace or allow"),
      Flag.optional
    ),
    catchUp: Flag.Literals("catch-up", ["none", "last", "all"]).pipe(
      Flag.withDescription("Which missed firings still fire after the platform was down: none, last (default) or all"),
      Flag.optional
    ),
    catchUpLimit: Flag.Int("catch-up-limit").pipe(
      Flag.withDescription("With --catch-up all: at most this many, 1 to 100; default 10"),
      Flag.optional
    ),
    jitter: duration("jitter").pipe(
      Flag.withDescription("Delay each firing by a varying time below this, at most 1h"),
      Flag.optional
    ),
    ...jobFlags,
    json
  },
  Effect.fnUntraced(
    function*(
      { at, catchUp, catchUpLimit, cron, endpoint, input, inputFile, jitter, json, name, overlap, timeZone, ...flags }
    ) {
      const options = yield* submitOptions({ ...flags, ...none })
      const isGiven = Option.isSome(input) || Option.isSome(inputFile)
      const payload = yield* Effect.mapError(
        decodeSpec({
          ...options,
          ...(isGiven ? { input: yield* readInput(input, inputFile) } : {}),
          ...given("cron", cron),
          ...given("timeZone", timeZone),
          ...given("at", at),
          ...given("overlap", overlap),
          ...given("catchUp", catchUp),
          ...given("catchUpLimit", catchUpLimit),
          ...given("jitterMs", Option.map(jitter, toMillis))
        }),
        invalid("The schedule", "stint schedules set --help, or docs/learning/schedules.md")
      )
      const schedule = yield* call((api) => api.schedules.putSchedule({ params: { endpoint, schedule: name }, payload }))
      yield* Output.print(json, schedule, details)
    }
  )
).pipe(
  Command.withDescription("Create a schedule, or replace all its settings"),
  Command.withExamples([
    {
      command: "stint schedules set report nightly --cron \"0 3 * * *\" --time-zone Europe/Berlin",
      description: "Every night at three"
    },
    {
      command: "stint schedules set report launch --at \"2026-12-01 09:00\" --input '{\"to\":\"all\"}'",
      description: "Once, local time"
    }
  ])
)

const remove = Command.make(
  "remove",
  { endpoint, name },
  Effect.fnUntraced(function*({ endpoint, name }) {
    yield* call((api) => api.schedules.deleteSchedule({ params: { endpoint, schedule: name } }))
    yield* Output.text(`Removed the schedule "${name}" of ${endpoint}. Jobs that it has submitted continue.`)
  })
).pipe(Command.withDescription("Remove a schedule"), Command.withAlias("rm"))

const pause = Command.make(
  "pause",
  { endpoint, name, json },
  Effect.fnUntraced(function*({ endpoint, json, name }) {
    const paused = yield* call((api) => api.schedules.pauseSchedule({ params: { endpoint, schedule: name } }))
    yield* Output.print(json, paused, () => `Paused. It fires again after: stint schedules resume ${endpoint} ${name}`)
  })
).pipe(Command.withDescription("Stop a schedule from firing until it is resumed"))

const resume = Command.make(
  "resume",
  { endpoint, name, json },
  Effect.fnUntraced(function*({ endpoint, json, name }) {
    const resumed = yield* call((api) => api.schedules.resumeSchedule({ params: { endpoint, schedule: name } }))
    yield* Output.print(json, resumed, ({ next }) => `Resumed. Its next time is ${timeText(next[0])}.`)
  })
).pipe(Command.withDescription("Let a paused schedule fire again; times that have passed are dropped"))

const run = Command.make(
  "run",
  { endpoint, name, json },
  Effect.fnUntraced(function*({ endpoint, json, name }) {
    const receipt = yield* call((api) => api.schedules.runSchedule({ params: { endpoint, schedule: name } }))
    yield* Output.print(
      json,
      receipt,
      ({ id, status }) => `${Output.inline(id)}  ${status}\nFollow it with: stint status ${endpoint} ${Output.inline(id)}`
    )
  })
).pipe(Command.withDescription("Submit the job of a schedule now; its times do not change"))

/** `stint schedules` and its subcommands. */
export const schedules = Command.make("schedules").pipe(
  Command.withDescription("Schedules: submit jobs at the times of a cron expression, or once at a given time"),
  Command.withSubcommands([list, show, set, remove, pause, resume, run])
)
