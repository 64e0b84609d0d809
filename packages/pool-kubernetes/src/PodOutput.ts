/**
 * Reads the output of a worker's container, and forwards each line once.
 *
 * The API sends each line with its time. After a lost connection, the platform reads again from the second of the last line (after
 * a restart, from the beginning of the output), and skips the lines that it has already forwarded:
 *
 * ```
 *   10:00:01.5 a | 10:00:01.7 b --connection lost--> since 10:00:01: a, b skipped, c forwarded
 * ```
 *
 * The API sends both streams as one. By default, the node keeps the last 10 MB of a container's output, and none of a deleted pod.
 */
import { type LineSink, splitter } from "@stint/pool/WorkerOutput"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import { isRefused, type KubernetesError } from "./KubernetesError.ts"
import type { PodsApi } from "./PodsApi.ts"

/** How soon to read again. */
const RETRY = "500 millis"

/** How long to read a stream before the next one continues from its last line. This also ends a connection that broke silently. */
const FOLLOW_LIMIT = "10 minutes"

/** How long the rest of an ended container's output may take. */
const LAST_LINES_LIMIT = "10 seconds"

/** The time of the last forwarded line, and the number of forwarded lines with this time. */
export interface OutputPosition {
  readonly time: string
  readonly lines: number
}

const LINE = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d) ?(.*)$/s

/** A time in a form that sorts as text. All times of a container have the same zone. */
const sortable = (seconds: string, fraction = ""): string => `${seconds}.${fraction.padEnd(9, "0")}`

export interface PodOutput {
  /** Reads until it is interrupted or {@link finish} is called. Survives lost connections. */
  readonly follow: Effect.Effect<void>
  /** Reads the rest of an ended container's output. */
  readonly finish: (following: Fiber.Fiber<void>) => Effect.Effect<void>
}

/** `onPosition` is called after each chunk. */
export const make = (
  api: PodsApi,
  name: string,
  sink: LineSink,
  start: OutputPosition | undefined,
  onPosition: (position: OutputPosition) => void
): PodOutput => {
  let position: OutputPosition = start ?? { time: "", lines: 0 }
  let since: string | undefined
  let hasEnded = false
  let isForbidden = false

  const read = Effect.fnUntraced(function*(follow: boolean) {
    const lines = splitter()
    const from = position
    /** The number of lines with the time of `from`. */
    let repeated = 0
    let isNew = true
    const write = Effect.fnUntraced(function*(line: string) {
      const [, seconds, fraction, zone, text = line] = LINE.exec(line) ?? []
      // A line without a time is the rest of a long line.
      if (seconds !== undefined) {
        const time = sortable(seconds, fraction)
        if (time === from.time) repeated += 1
        isNew = time > from.time || (time === from.time && repeated > from.lines)
        if (isNew) {
          position = { time, lines: position.time === time ? position.lines + 1 : 1 }
          since = seconds + (zone ?? "Z")
        }
      }
      if (isNew) yield* sink.write("stdout", text)
    }, Effect.uninterruptible)
    yield* api.logs(
      name,
      { follow, since },
      Effect.fnUntraced(function*(chunk) {
        for (const line of lines.push(chunk)) yield* write(line)
        yield* Effect.sync(() => {
          try {
            onPosition(position)
          } catch {
            // The disk is full. After a restart, the platform reads these lines again.
          }
        })
      })
    )
    for (const line of lines.end()) yield* write(line)
  })

  return {
    follow: read(true).pipe(
      Effect.timeoutOption(FOLLOW_LIMIT),
      Effect.catch((error: KubernetesError) => {
        if (isRefused(error, 403) && !isForbidden) {
          isForbidden = true
          return Effect.logWarning(
            `The output of pod ${name} cannot be read. ${error.message} The platform's role needs the permission get on pods/log.`
          )
        }
        // 400: the container does not run yet. 404: the pod is gone.
        return Effect.logDebug(`The output of pod ${name} was interrupted. ${error.message}`)
      }),
      Effect.repeat({ while: () => !hasEnded, schedule: Schedule.spaced(RETRY) }),
      Effect.asVoid
    ),
    finish: Effect.fnUntraced(function*(following) {
      hasEnded = true
      yield* Effect.timeoutOption(Fiber.await(following), LAST_LINES_LIMIT)
      yield* Fiber.interrupt(following)
      yield* Effect.ignore(Effect.timeoutOption(read(false), LAST_LINES_LIMIT))
    })
  }
}
