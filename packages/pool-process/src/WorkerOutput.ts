/**
 * Reads a worker's output line by line.
 */
import * as Effect from "effect/Effect"
import type { Readable } from "node:stream"
import { StringDecoder } from "node:string_decoder"

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
export const readLines = Effect.fnUntraced(function*(stream: Readable, onLine: (line: string) => Effect.Effect<void>) {
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
})
