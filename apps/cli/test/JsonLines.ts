/**
 * Reads a file to which other processes append lines of JSON.
 */
import { readFile } from "node:fs/promises"

/** The values of the complete lines. Another process can be in the middle of writing the last line. */
export const read = async <Line>(file: string): Promise<ReadonlyArray<Line>> => {
  const text = await readFile(file, "utf8").catch(() => "")
  return text.split("\n").slice(0, -1).map((line) => JSON.parse(line))
}
