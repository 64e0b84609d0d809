/**
 * `stint top` shows the queues and workers of every endpoint, live.
 */
import { Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import process from "node:process"
import * as Output from "../output/Output.ts"
import { type EndpointHealth, healthOfAll } from "./HealthCommand.ts"
import { duration } from "./SharedFlags.ts"

const HEADING = ["ENDPOINT", "QUEUED", "RUNNING", "ENDED/S", "FAILED", "IDLE", "BUSY", "STARTING", "THROTTLED", "UNHEALTHY"]

/** The data of one read. */
interface Reading {
  readonly at: number
  readonly endpoints: ReadonlyArray<EndpointHealth>
}

/** Ended jobs per second since the previous read. If jobs were removed in between, the value can be negative, and then counts as unknown. */
const rateOf = ({ endpoint, jobs }: EndpointHealth, at: number, before: Reading | undefined): string => {
  const earlier = before?.endpoints.find((one) => one.endpoint === endpoint)?.jobs
  if (before === undefined || earlier === undefined || at <= before.at) return "-"
  const ended = jobs.completed + jobs.failed - earlier.completed - earlier.failed
  return ended < 0 ? "-" : (ended / (at - before.at) * 1_000).toFixed(1)
}

/** The table. Endpoints with problems come first, then those with the most waiting jobs. */
export const format = ({ at, endpoints }: Reading, before: Reading | undefined): string => {
  const trouble = ({ workers }: EndpointHealth) => workers.unhealthy + workers.throttled
  const rows = endpoints.toSorted((a, b) =>
    trouble(b) - trouble(a) || b.jobs.inQueue - a.jobs.inQueue || a.endpoint.localeCompare(b.endpoint)
  ).map((one) => [
    one.endpoint,
    String(one.jobs.inQueue),
    String(one.jobs.inProgress),
    rateOf(one, at, before),
    String(one.jobs.failed),
    String(one.workers.idle),
    String(one.workers.running),
    String(one.workers.initializing),
    String(one.workers.throttled),
    String(one.workers.unhealthy)
  ])
  return endpoints.length === 0
    ? "No endpoints yet. Create one: stint endpoints create NAME --handler FILE"
    : Output.table([HEADING, ...rows])
}

/** Moves to the top left corner and clears the screen. */
const CLEAR = "\u001b[H\u001b[2J"

const read = Effect.all({ at: Clock.currentTimeMillis, endpoints: healthOfAll })

/** `stint top`. In a terminal, it repeats until it is interrupted; elsewhere it prints once. */
export const command = Command.make(
  "top",
  {
    interval: duration("interval").pipe(
      Flag.withDescription("Time between two reads; default 2s"),
      Flag.withDefault("2 seconds")
    )
  },
  Effect.fnUntraced(function*({ interval }) {
    if (!process.stdout.isTTY) return yield* Output.text(format(yield* read, undefined))
    let before: Reading | undefined
    yield* Effect.repeat(
      Effect.gen(function*() {
        const now = yield* read
        process.stdout.write(CLEAR)
        yield* Output.text(
          `${new Date(now.at).toISOString().slice(11, 19)} UTC, every ${
            Duration.format(Duration.fromInputUnsafe(interval))
          }. Stop with Ctrl-C.\n`
        )
        yield* Output.text(format(now, before))
        before = now
      }),
      Schedule.spaced(interval)
    )
  })
).pipe(Command.withDescription("Show the queues and workers of every endpoint, live; problems first"))
