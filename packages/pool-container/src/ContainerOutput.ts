/**
 * Reads the output of a container from the engine, and forwards each line once.
 *
 * The engine stores the output of a container. After a lost connection or a restart, the platform reads the output from its
 * beginning, and skips the bytes that it has already forwarded:
 *
 * ```
 *   position 1200 --connection lost--> read from the beginning, skip 1200 bytes, forward the rest
 * ```
 *
 * The engine keeps {@link STORED_BYTES} per container. Beyond that it drops the oldest output, so a position is no longer
 * valid, and unread lines are lost.
 */
import type { LineSink } from "@stint/pool/WorkerOutput"
import { splitter } from "@stint/pool/WorkerOutput"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import type { Engine } from "./Engine.ts"
import { EngineRefused } from "./EngineError.ts"
import { demultiplexer, type OutputPart } from "./LogFrames.ts"

/** How much output of a container the engine stores. */
export const STORED_BYTES = 64 * 1024 * 1024

/** The number of forwarded bytes of each stream. */
export interface OutputPosition {
  stdout: number
  stderr: number
}

/** How soon to try again after a lost connection. */
const RETRY = "500 millis"

/** The time limit for reading the last lines of an ended container. */
const LAST_LINES_LIMIT = "10 seconds"

/** How long to wait for the engine to end the stream of an ended container, if the stream cannot be read again. */
const STREAM_END_LIMIT = "2 seconds"

export interface ContainerOutput {
  /** Reads until the container ends, across lost connections. */
  readonly follow: Effect.Effect<void>
  /** Reads the rest of an ended container's output, and ends the last line of each stream. */
  readonly finish: (following: Fiber.Fiber<void>) => Effect.Effect<void>
}

/** Calls `onPosition` after each part. `position` is where reading starts; it is updated. */
export const make = (
  engine: Engine,
  container: string,
  sink: LineSink,
  position: OutputPosition,
  onPosition: (position: OutputPosition) => void
): ContainerOutput => {
  const lines = { stdout: splitter(), stderr: splitter() }
  const isComplete = () => position.stdout + position.stderr < STORED_BYTES

  const handOver = ({ bytes, stream }: OutputPart) =>
    Effect.forEach(lines[stream].push(bytes), (line) => sink.write(stream, line), { discard: true }).pipe(
      Effect.andThen(Effect.sync(() => {
        position[stream] += bytes.length
        try {
          onPosition(position)
        } catch {
          // The disk is full: a later platform reads these lines again.
        }
      })),
      // After an interruption between two lines of a part, the first line would be forwarded twice.
      Effect.uninterruptible
    )

  const read = Effect.fnUntraced(function*(follow: boolean) {
    const skip = { ...position }
    const frames = demultiplexer()
    yield* engine.logs(container, follow, (chunk) =>
      Effect.try({
        try: () => frames(chunk),
        catch: (cause) => new EngineRefused({ status: 0, problem: cause instanceof Error ? cause.message : String(cause) })
      }).pipe(Effect.flatMap((parts) =>
        Effect.forEach(parts, ({ bytes, stream }) => {
          const skipped = Math.min(skip[stream], bytes.length)
          skip[stream] -= skipped
          return skipped === bytes.length ? Effect.void : handOver({ stream, bytes: bytes.subarray(skipped) })
        }, { discard: true })
      )))
  })

  return {
    follow: Effect.suspend(() => isComplete() ? read(true) : Effect.void).pipe(
      Effect.retry({ while: (error) => error._tag === "EngineUnreachable", schedule: Schedule.spaced(RETRY) }),
      Effect.catch((error) => Effect.logWarning(`The output of container ${container} cannot be read. ${error.message}`))
    ),
    finish: Effect.fnUntraced(function*(following) {
      if (!isComplete()) yield* Effect.timeoutOption(Fiber.await(following), STREAM_END_LIMIT)
      yield* Fiber.interrupt(following)
      if (isComplete()) yield* Effect.ignore(Effect.timeoutOption(read(false), LAST_LINES_LIMIT))
      for (const stream of ["stdout", "stderr"] as const) {
        for (const line of lines[stream].end()) yield* sink.write(stream, line)
      }
    })
  }
}
