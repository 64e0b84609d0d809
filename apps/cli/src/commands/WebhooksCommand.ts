/**
 * `stint webhooks`: lists and shows webhook deliveries, resends them, and prints or rotates the signing secret.
 */
import { type WebhookDeliveryDetails, type WebhookDeliveryLine, WebhookDeliveryState } from "@stint/contract/WebhooksApi"
import { Argument, Command, Flag } from "effect/cli"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { duration, endpoint, json } from "./SharedFlags.ts"

const delivery = Argument.String("delivery").pipe(
  Argument.withDescription("Id of the delivery, as `stint webhooks list` shows it")
)

const timeText = (millis: number | null): string =>
  millis === null ? "-" : new Date(millis).toISOString().slice(0, 19).replace("T", " ")

/** The outcome of a delivery. */
const lastText = ({ lastError, lastStatus }: WebhookDeliveryLine): string =>
  lastError ?? (lastStatus === null ? "-" : String(lastStatus))

const row = (line: WebhookDeliveryLine): ReadonlyArray<string> => [
  line.id,
  line.job,
  line.event,
  line.state,
  String(line.attemptCount),
  timeText(line.nextAt),
  lastText(line)
]

const list = Command.make(
  "list",
  {
    endpoint,
    job: Flag.String("job").pipe(Flag.withDescription("Only deliveries of one job"), Flag.optional),
    state: Flag.Literals("state", WebhookDeliveryState.literals).pipe(
      Flag.withDescription("Only deliveries in this state: pending, delivered or failed"),
      Flag.optional
    ),
    limit: Flag.Int("limit").pipe(Flag.withDescription("Number of deliveries, 1 to 200; default 50"), Flag.optional),
    cursor: Flag.String("cursor").pipe(Flag.withDescription("Cursor from the previous page"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ cursor, endpoint, job, json, limit, state }) {
    const query = {
      ...(Option.isSome(job) ? { job: job.value } : {}),
      ...(Option.isSome(state) ? { state: state.value } : {}),
      ...(Option.isSome(limit) ? { limit: limit.value } : {}),
      ...(Option.isSome(cursor) ? { cursor: cursor.value } : {})
    }
    const page = yield* call((api) => api.webhooks.listDeliveries({ params: { endpoint }, query }))
    yield* Output.print(json, page, ({ cursor, deliveries }) =>
      deliveries.length === 0
        ? "No deliveries. A job has one for each event of the `webhook` that it was submitted with."
        : [
          Output.table([["DELIVERY", "JOB", "EVENT", "STATE", "TRIES", "NEXT", "LAST"], ...deliveries.map(row)]),
          ...(cursor === null ? [] : ["", `More: stint webhooks list ${endpoint} --cursor ${Output.inline(cursor)}`])
        ].join("\n"))
  })
).pipe(Command.withDescription("List an endpoint's webhook deliveries, newest first; times are UTC"), Command.withAlias("ls"))

const details = (found: WebhookDeliveryDetails): string =>
  [
    Output.table([
      ["delivery", found.id],
      ["job", found.job],
      ["event", found.event],
      ["to", found.url],
      ["state", found.state],
      ["written", timeText(found.createdAt)],
      ["next attempt", timeText(found.nextAt)]
    ]),
    "",
    found.attempts.length === 0
      ? "No attempts yet."
      : Output.table([
        ["ATTEMPT", "AT", "TOOK", "STATUS", "ERROR"],
        ...found.attempts.map(({ at, durationMs, error, status }, index) => [
          String(index + 1),
          timeText(at),
          `${durationMs} ms`,
          status === null ? "-" : String(status),
          error ?? "-"
        ])
      ]),
    "",
    JSON.stringify(found.body, null, 2)
  ].join("\n")

const show = Command.make(
  "show",
  { endpoint, delivery, json },
  Effect.fnUntraced(function*({ delivery, endpoint, json }) {
    const found = yield* call((api) => api.webhooks.getDelivery({ params: { endpoint, delivery } }))
    yield* Output.print(json, found, details)
  })
).pipe(Command.withDescription("Show one delivery: its attempts and its body"))

const resend = Command.make(
  "resend",
  { endpoint, delivery, json },
  Effect.fnUntraced(function*({ delivery, endpoint, json }) {
    const resent = yield* call((api) => api.webhooks.resendDelivery({ params: { endpoint, delivery } }))
    yield* Output.print(
      json,
      resent,
      ({ id, url }) =>
        `Sending ${Output.inline(id)} to ${Output.inline(url)} again.\nSee its outcome: stint webhooks show ${endpoint} ${
          Output.inline(id)
        }`
    )
  })
).pipe(Command.withDescription("Send a delivery again, regardless of its state"))

const secret = Command.make(
  "secret",
  {
    endpoint,
    rotate: Flag.Boolean("rotate").pipe(
      Flag.withDescription("Create a new secret; the current one also signs until its grace period ends"),
      Flag.withDefault(false)
    ),
    grace: duration("grace").pipe(
      Flag.withDescription(
        "With --rotate: how long the current secret also signs; default \"24 hours\", \"0 seconds\" ends it immediately"
      ),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ endpoint, grace, json, rotate }) {
    const params = { endpoint }
    const found = rotate
      ? yield* call((api) =>
        api.webhooks.rotateSecret({
          params,
          payload: Option.isSome(grace) ? { graceMs: Math.ceil(Duration.toMillis(grace.value)) } : {}
        })
      )
      : yield* call((api) => api.webhooks.getSecret({ params }))
    yield* Output.print(json, found, ({ secret }) => Output.inline(secret))
    if (!json && found.previousUntil !== undefined) {
      yield* Output.message(`The previous secret also signs until ${timeText(found.previousUntil)} UTC.`)
    }
  })
).pipe(
  Command.withDescription("Print the signing secret of an endpoint's webhooks"),
  Command.withExamples([
    { command: "stint webhooks secret hello", description: "The secret, for the receiver's settings" },
    { command: "stint webhooks secret hello --rotate --grace \"1 hour\"", description: "A new secret; both sign for an hour" }
  ])
)

/** `stint webhooks` and its subcommands. */
export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("List, show and resend webhook deliveries; print or rotate the signing secret"),
  Command.withSubcommands([list, show, resend, secret])
)
