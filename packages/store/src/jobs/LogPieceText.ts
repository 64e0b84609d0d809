/**
 * The text of a piece of a job's log, for stores that keep each piece as one row.
 */
import * as Schema from "effect/Schema"
import { LogEntry, type LogLine } from "./JobLogStore.ts"

const { attempt, ended, level, message, release, source, step, time, worker } = LogEntry.fields

/**
 * A line, as an array, because property names would be repeated in each line. The last three are the release, the step and the end of an attempt; null
 * where a later one follows. Lines of earlier versions have none of them.
 */
const Cells = Schema.Tuple([
  time,
  level,
  source,
  attempt,
  worker,
  Schema.Int,
  message,
  Schema.optionalKey(Schema.NullOr(release.schema)),
  Schema.optionalKey(Schema.NullOr(step.schema)),
  ended
])

const decodeCells = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Array(Cells)))

/** The text of the lines. `chunkOf`: the number of chunks that an attempt had written before its line. */
export const pieceText = (lines: ReadonlyArray<LogEntry>, chunkOf: (attempt: number) => number): string =>
  JSON.stringify(lines.map((line): typeof Cells.Encoded => {
    const { attempt, ended, level, message, release, source, step, time, worker } = line
    const chunk = chunkOf(attempt)
    if (ended !== undefined) {
      return [time, level, source, attempt, worker, chunk, message, release ?? null, step ?? null, ended]
    }
    if (step !== undefined) return [time, level, source, attempt, worker, chunk, message, release ?? null, step]
    return release === undefined
      ? [time, level, source, attempt, worker, chunk, message]
      : [time, level, source, attempt, worker, chunk, message, release]
  }))

/** The lines in a text. The last line has the number `last`. */
export const linesOf = (text: string, last: number): ReadonlyArray<LogLine> => {
  const cells = decodeCells(text)
  return cells.map(([time, level, source, attempt, worker, chunk, message, release, step, ended], index) => ({
    number: last - cells.length + index + 1,
    time,
    level,
    source,
    attempt,
    worker,
    chunk,
    message,
    ...(release === undefined || release === null ? {} : { release }),
    ...(step === undefined || step === null ? {} : { step }),
    ...(ended === undefined ? {} : { ended })
  }))
}
