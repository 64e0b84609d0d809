/**
 * `stint events` follows the events of the platform.
 */
import { RETRY_MILLIS } from "@stint/contract/JobEvents"
import { type PlatformEvent, SentPlatformEvent } from "@stint/contract/PlatformEvent"
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { failWith, gone, isTemporary, MAX_FAILURES, NO_MORE } from "../client/EventConnection.ts"
import { call } from "../client/PlatformClient.ts"
import { readEvents } from "../client/SseReader.ts"
import * as Output from "../output/Output.ts"

/** The members at the start of a line, in this order; the others follow as `name=value`. */
const FIRST: ReadonlyArray<string> = ["type", "at", "endpoint", "job"]

/** One line: `14:00:07  job.ended  hello  JOB  status=COMPLETED`. */
export const line = (event: PlatformEvent): string => {
  const time = new Date(event.at).toISOString().slice(11, 19)
  if (event.type === "missed") {
    return `${time}  missed  ${event.count ?? "an unknown number of"} events: this reader was too slow or disconnected`
  }
  const subject = [
    "endpoint" in event ? event.endpoint ?? "-" : "-",
    ..."job" in event ? [event.job] : []
  ]
  const rest = Object.entries(event).flatMap(([name, value]) => FIRST.includes(name) ? [] : [`${name}=${String(value)}`])
  return [time, event.type.padEnd(16), ...subject, ...rest].map(Output.inline).join("  ")
}

const decode = Schema.decodeUnknownEffect(SentPlatformEvent)

const print = (json: boolean, event: PlatformEvent) => json ? Output.jsonLine(event) : Output.text(line(event))

/** Follows until the command is interrupted. After a lost connection, it resumes after the last event. */
const follow = Effect.fnUntraced(function*(endpoint: string | undefined, json: boolean) {
  let lastEventId: string | undefined
  let failures = 0
  const connect = Effect.gen(function*() {
    const query = {
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(lastEventId === undefined ? {} : { lastEventId })
    }
    const response = yield* call((api) => api.events.streamEvents({ query, responseMode: "response-only" }))
    if (response.status === NO_MORE) return false
    if (response.status !== 200) return yield* failWith(response.status, response.json)
    failures = 0
    yield* readEvents(response.stream, (event) => {
      lastEventId = event.id ?? lastEventId
      // A newer platform may send events that this version does not know.
      return Effect.matchEffect(decode(event), { onFailure: () => Effect.void, onSuccess: ({ data }) => print(json, data) })
    })
    return true
  })
  // A wrong key or endpoint is an error, not a lost connection.
  let more = yield* connect
  while (more && failures < MAX_FAILURES) {
    failures += 1
    yield* Effect.sleep(RETRY_MILLIS)
    more = yield* Effect.catchIf(connect, isTemporary, () => Effect.succeed(true))
  }
  if (!more) return
  return yield* gone
})

export const command = Command.make(
  "events",
  {
    endpoint: Flag.String("endpoint").pipe(Flag.withDescription("Only events of this endpoint"), Flag.optional),
    follow: Flag.Boolean("follow").pipe(
      Flag.withAlias("f"),
      Flag.withDescription("Accepted for clarity: events are not stored, so the command always follows them"),
      Flag.withDefault(true)
    ),
    json: Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON object per line"), Flag.withDefault(false))
  },
  ({ endpoint, json }) => follow(Option.getOrUndefined(endpoint), json)
).pipe(
  Command.withDescription("Follow the events of the platform: jobs, workers, releases, builds, webhooks, alerts"),
  Command.withExamples([
    { command: "stint events -f", description: "Everything, one line for each event" },
    { command: "stint events -f --endpoint hello --json", description: "The events of one endpoint, for a script" }
  ])
)
