/**
 * Describes how a worker exited.
 */
import * as ByteSize from "effect/ByteSize"
import { reportsOutOfMemory } from "./OutOfMemory.ts"

/** An exit, as observed by the pool. `log` contains the worker's last lines (see `LogTail`). */
export type WorkerExit =
  /** The program exited. */
  | { readonly _tag: "Exited"; readonly code: number; readonly log: ReadonlyArray<string> }
  /** A signal killed the worker. `outOfMemory` is true when the pool knows that memory ran out. */
  | { readonly _tag: "Killed"; readonly signal: string; readonly outOfMemory: boolean; readonly log: ReadonlyArray<string> }
  /**
   * The machine or container that the worker ran on is gone. `reason` is a sentence. `mayRun`: only the connection to the machine is known to be lost,
   * so the worker may still run; its jobs return to the queue when their leases expire.
   */
  | { readonly _tag: "Lost"; readonly reason: string; readonly log: ReadonlyArray<string>; readonly mayRun?: true }

/** Signals for exit codes above 128, as shells and container engines report them. */
const SIGNALS: Readonly<Record<number, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  4: "SIGILL",
  5: "SIGTRAP",
  6: "SIGABRT",
  7: "SIGBUS",
  8: "SIGFPE",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  15: "SIGTERM"
}

/** The signal that a shell or an init process reports with this exit code; undefined when it is an ordinary code. */
export const signalOf = (code: number): string | undefined => SIGNALS[code - 128]

/** A hint about the likely cause, as a sentence with a leading space; empty when there is none. */
const hint = (exit: WorkerExit, memoryBytes: number | undefined): string => {
  if (exit._tag === "Lost") return ""
  if (exit._tag === "Killed" && exit.outOfMemory) {
    const limit = memoryBytes === undefined
      ? ""
      : ` Its limit is ${ByteSize.format(ByteSize.bytes(memoryBytes), { system: "binary" })}.`
    return ` It was out of memory.${limit} Give it more, or fewer jobs at once.`
  }
  if (exit.log.some(reportsOutOfMemory)) return " It ran out of memory: give it more, or fewer jobs at once."
  const signal = exit._tag === "Killed" ? exit.signal : signalOf(exit.code)
  if (signal === "SIGKILL") return " If you did not kill it, the operating system may have, because memory ran out."
  if (signal === "SIGTRAP") {
    return " Node ends itself with this signal when the system refuses it memory, for example under ulimit -v."
  }
  return ""
}

/** Some sentences that describe the exit. `memoryBytes`: the worker's memory limit, if it has one. */
export const describeExit = (worker: string, exit: WorkerExit, memoryBytes?: number): string => {
  switch (exit._tag) {
    case "Exited": {
      const signal = signalOf(exit.code)
      const meaning = signal === undefined ? "" : ` (128 + ${exit.code - 128}: signal ${signal})`
      return `Worker ${worker} exited with code ${exit.code}${meaning}.${hint(exit, memoryBytes)}`
    }
    case "Killed":
      return `Worker ${worker} was killed by signal ${exit.signal}.${hint(exit, memoryBytes)}`
    case "Lost":
      return `Worker ${worker} is gone: ${exit.reason}`
  }
}

const OUTPUT = "Its last output:"
const END_OF_OUTPUT = "(end of output)"

/**
 * A sentence, followed by the worker's last lines if there are any. Another sentence can be appended. The first line is complete without the
 * others, because summaries show one of them at most.
 */
export const withLastOutput = (text: string, log: ReadonlyArray<string>): string =>
  log.length === 0 ? text : `${text}\n${OUTPUT}\n${log.map((line) => `  ${line}\n`).join("")}${END_OF_OUTPUT}`

/** A line with the message of an uncaught error, as Node (`Error: no model`) and Python (`ModuleNotFoundError: No module`) print it. */
const ERROR_LINE = /^\s*(?:Uncaught )?[\w$.]*(?:Error|Exception)\b.*:/

/**
 * The first line of a text that {@link withLastOutput} may have made, and the line of the output that most likely says why the worker ended: its
 * last error message, or else its last line.
 */
export const summaryOfExit = (text: string): string => {
  const [first = "", heading, ...rest] = text.split("\n")
  if (heading !== OUTPUT) return first
  const end = rest.indexOf(END_OF_OUTPUT)
  const output = (end === -1 ? rest : rest.slice(0, end)).filter((line) => line.trim() !== "")
  const line = output.findLast((line) => ERROR_LINE.test(line)) ?? output.at(-1)
  return line === undefined ? first : `${first} It printed: ${line.trim()}`
}
