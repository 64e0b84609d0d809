/**
 * Reads a worker's output line by line.
 */
// Some generators return the rest of their work as an effect, which the caller runs later.
// @effect-diagnostics returnEffectInGen:off
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { StringDecoder } from "node:string_decoder"
import * as LogTail from "./LogTail.ts"
import * as ParsedLogLine from "./ParsedLogLine.ts"
import { maskOf, type WorkerLine, type WorkerLog } from "./WorkerLog.ts"
import type { StartRequest } from "./WorkerPool.ts"

/** The maximum length of a line. Longer lines are split, because a program may print gigabytes without a line break. Characters. */
export const MAX_LINE = 16_384

/** Splits chunks of text into lines. `end` returns the remaining text after the last line break. */
export const splitter = (): {
  readonly push: (bytes: Buffer) => ReadonlyArray<string>
  readonly end: () => ReadonlyArray<string>
} => {
  const decoder = new StringDecoder("utf8")
  let open = ""
  const cut = (line: string): ReadonlyArray<string> => {
    const text = line.endsWith("\r") ? line.slice(0, -1) : line
    const pieces: Array<string> = []
    for (let at = 0; at < text.length; at += MAX_LINE) pieces.push(text.slice(at, at + MAX_LINE))
    return pieces.length === 0 ? [""] : pieces
  }
  return {
    push: (bytes) => {
      const lines = (open + decoder.write(bytes)).split("\n")
      open = lines.pop() ?? ""
      const whole = lines.flatMap(cut)
      while (open.length >= MAX_LINE) {
        whole.push(open.slice(0, MAX_LINE))
        open = open.slice(MAX_LINE)
      }
      return whole
    },
    end: () => {
      const rest = open + decoder.end()
      open = ""
      return rest === "" ? [] : cut(rest)
    }
  }
}

/**
 * Reads a stream line by line and waits until each line has been handled, so that a slow reader slows down the writer. Returns when the stream
 * ends or fails; a broken pipe only means that the writer has exited.
 */
export const readLines = Effect.fnUntraced(
  function*(stream: AsyncIterable<unknown>, onLine: (line: string) => Effect.Effect<void>) {
    const lines = splitter()
    const chunks = stream[Symbol.asyncIterator]()
    while (true) {
      const next = yield* Effect.tryPromise(() => chunks.next()).pipe(
        Effect.orElseSucceed(() => ({ done: true, value: undefined }))
      )
      const value: unknown = next.value
      if (next.done === true || !Buffer.isBuffer(value)) break
      for (const line of lines.push(value)) yield* onLine(line)
    }
    for (const line of lines.end()) yield* onLine(line)
  }
)

/** Where the lines of a worker go. */
export interface LineSink {
  /** Writes a line to the log, with the worker's key redacted. */
  readonly write: (stream: WorkerLine["stream"], line: string) => Effect.Effect<void>
  /** The last lines, without the format of the SDK's logger. */
  readonly lastLines: () => ReadonlyArray<string>
}

/** The sink of a worker. */
export const lineSink = (
  log: WorkerLog,
  { endpoint, mask: secrets, variables, worker }:
    & Pick<WorkerLine, "endpoint" | "worker">
    & Pick<StartRequest, "variables" | "mask">
): LineSink => {
  const tail = LogTail.make()
  const mask = maskOf(variables, secrets)
  return {
    write: (stream, line) =>
      Effect.suspend(() => {
        const text = mask(line)
        tail.add(text)
        return log.write({ endpoint, worker, stream, text })
      }),
    lastLines: () => tail.lines().map((text) => ParsedLogLine.parse({ stream: "stderr", text }).message)
  }
}

/** One stream of a worker. */
export interface OutputSource {
  readonly content: AsyncIterable<unknown>
  /** Ends a read that is in progress. */
  readonly close: () => void
}

/** How long to keep reading the last lines of an exited worker while another process holds its pipes open. */
const FINAL_OUTPUT_WAIT = "1 second"

/**
 * Writes what a worker prints to the log, with its key and the endpoint's secrets redacted. The returned effect waits until its streams have ended, closes them, and
 * returns the last lines, without the format of the SDK's logger. The reading is detached from the scope, because the last lines are needed
 * even when closing the scope killed the worker.
 */
export const followOutput = Effect.fnUntraced(function*(
  log: WorkerLog,
  worker: Pick<WorkerLine, "endpoint" | "worker"> & Pick<StartRequest, "variables" | "mask">,
  sources: Readonly<Record<WorkerLine["stream"], OutputSource>>
) {
  const sink = lineSink(log, worker)
  const follow = (stream: WorkerLine["stream"]) =>
    Effect.forkDetach(readLines(sources[stream].content, (line) => sink.write(stream, line)))
  const readers = [yield* follow("stdout"), yield* follow("stderr")]
  return Effect.timeoutOption(Fiber.awaitAll(readers), FINAL_OUTPUT_WAIT).pipe(
    Effect.andThen(Fiber.interruptAll(readers)),
    Effect.andThen(Effect.sync(() => {
      sources.stdout.close()
      sources.stderr.close()
      return sink.lastLines()
    }))
  )
})
