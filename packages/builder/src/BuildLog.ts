/**
 * The log of a running build: masks secrets, and stores lines in groups.
 *
 * A log of more than {@link MAX_BYTES} keeps its beginning and its last lines, because the last lines contain the error.
 */
import type { Build, BuildLogLine } from "@stint/contract/Build"
import type { BuildStore } from "@stint/store/BuildStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"

/** The size of a log, in characters, beyond which lines are omitted. */
const MAX_BYTES = 2 * 1024 * 1024

/** The number of last lines of a longer log that are stored when the build ends. */
const LAST_LINES = 200

/** How often new lines are stored. */
const INTERVAL = "250 millis"

export interface BuildLog {
  /** Appends lines. */
  readonly write: (text: string) => void
  /** Stores all lines. Called at the end of the build. */
  readonly finish: Effect.Effect<void>
}

type Line = Omit<BuildLogLine, "number">

/** The log of a build. Lines are stored while the scope is open. If the store fails, lines are lost, but the build continues. */
export const make = Effect.fnUntraced(function*(
  store: BuildStore["Service"],
  { endpoint, number }: Pick<Build, "endpoint" | "number">,
  mask: (text: string) => string,
  maxBytes = MAX_BYTES
): Effect.fn.Return<BuildLog, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  let waiting: Array<Line> = []
  let last: Array<Line> = []
  let leftOut = 0
  let bytes = 0

  const flush = Effect.suspend(() => {
    const lines = waiting
    waiting = []
    return lines.length === 0 ? Effect.void : store.appendLog(endpoint, number, lines)
  }).pipe(
    Effect.catch((error) =>
      Effect.logWarning(`Lines of the log of build ${number} of ${endpoint} were not stored: ${error.message}`)
    ),
    Effect.uninterruptible
  )

  yield* Effect.forkScoped(Effect.repeat(flush, Schedule.spaced(INTERVAL)))

  return {
    write: (text) => {
      for (const one of mask(text).split("\n")) {
        const line = { time: clock.currentTimeMillisUnsafe(), text: one }
        bytes += one.length
        if (bytes <= maxBytes) {
          waiting.push(line)
          continue
        }
        last.push(line)
        if (last.length > LAST_LINES) {
          last.shift()
          leftOut += 1
        }
      }
    },
    finish: Effect.suspend(() => {
      const time = clock.currentTimeMillisUnsafe()
      if (leftOut > 0) waiting.push({ time, text: `[${leftOut} lines omitted: a log has at most ${maxBytes} characters]` })
      waiting.push(...last)
      last = []
      return flush
    })
  }
})
