/**
 * The log of a build as Server-Sent Events (contract, Build.ts): the stored lines, then each new one, then the build after its end.
 *
 * ```
 *   store --read every 250 ms--> lines --pulled--> the connection
 *                                  ^ a full connection stops the pulls, so the server reads and buffers nothing
 * ```
 *
 * The lines come from the store and not from the running build, so that every node can serve them, even after a restart. After a few minutes,
 * the response ends without an event `end`, and the reader reconnects and continues after its last line. So a reader whose key was revoked
 * cannot read further.
 */
import type { BuildsService } from "@stint/builder/Builds"
import { Build, BuildLogLine, hasEnded } from "@stint/contract/Build"
import { BUILD_LOG_LIMIT } from "@stint/contract/BuildsApi"
import { monotonicMillis } from "@stint/queue/ClockWatch"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { dataLines } from "../jobs/JobEventStream.ts"

/** How often the log of a running build is read. It is stored at the same interval. */
const INTERVAL = "250 millis"

/** The maximum duration of a response, in milliseconds. */
export const LONGEST_MILLIS = 300_000

const encodeLine = Schema.encodeSync(Schema.fromJsonString(BuildLogLine))
const encodeBuild = Schema.encodeSync(Schema.fromJsonString(Build))

const lineEvent = (line: BuildLogLine): string => `id: ${line.number}\nevent: line\n${dataLines(encodeLine(line))}\n\n`

/** The id of the event `end`. A reader that has received it needs nothing more. */
export const END = "end"

const endEvent = (build: Build): string => `id: ${END}\nevent: end\n${dataLines(encodeBuild(build))}\n\n`

/** A build's lines after the one with the number `after`, as text. */
export const follow = (
  builds: Pick<BuildsService, "get" | "log">,
  { endpoint, number }: Pick<Build, "endpoint" | "number">,
  after: number
) =>
  Stream.unwrap(Effect.map(Clock.Clock, (clock) => {
    const until = monotonicMillis(clock) + LONGEST_MILLIS
    return Stream.paginate({ after, isWaiting: false }, (state) =>
      Effect.gen(function*() {
        if (state.isWaiting) yield* Effect.sleep(INTERVAL)
        // Read before the lines, because a build that has ended appends no more lines.
        const build = yield* builds.get(endpoint, number)
        const lines = yield* builds.log(endpoint, number, state.after, BUILD_LOG_LIMIT)
        const events = lines.map(lineEvent)
        const isComplete = lines.length < BUILD_LOG_LIMIT
        if (isComplete && hasEnded(build)) return [[...events, endEvent(build)], Option.none()] as const
        if (monotonicMillis(clock) >= until) return [events, Option.none()] as const
        return [events, Option.some({ after: lines.at(-1)?.number ?? state.after, isWaiting: isComplete })] as const
      }))
  }))
