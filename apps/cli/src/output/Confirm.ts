/**
 * Asks the user of a terminal before a command changes something.
 */
import * as Effect from "effect/Effect"
import process from "node:process"
import { createInterface } from "node:readline"
import { CliFailure } from "../CliFailure.ts"

/** The question, and whether the user has already answered it. */
export interface Question {
  /** Such as `Deploy?`. */
  readonly text: string
  /** `--yes`. */
  readonly yes: boolean
  /** `--json`: its reader is a program. */
  readonly json: boolean
}

/** Whether an answer means yes. Anything else means no. */
export const isYes = (answer: string): boolean => /^\s*y(es)?\s*$/i.test(answer)

/** One line of standard input; empty at its end. The terminal's mode does not change, so Ctrl-C is a signal as usual. */
const ask = (text: string): Effect.Effect<string> =>
  Effect.callback((resume) => {
    const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: false })
    lines.once("line", (line) => {
      resume(Effect.succeed(line))
      // Otherwise, the open standard input would keep the process alive.
      lines.close()
    })
    lines.once("close", () => resume(Effect.succeed("")))
    process.stderr.write(`${text} [y/N] `)
    return Effect.sync(() => lines.close())
  })

/** Whether the user agrees. Fails without a terminal, and with `--json`. */
export const confirm = ({ json, text, yes }: Question): Effect.Effect<boolean, CliFailure> => {
  if (yes) return Effect.succeed(true)
  if (json || !process.stdin.isTTY || !process.stderr.isTTY) {
    return Effect.fail(
      new CliFailure({
        message: "Nothing was changed: the change needs a confirmation.",
        hint: "Add --yes. Without it, the command asks, which requires a terminal and no --json.",
        code: "not-confirmed"
      })
    )
  }
  return Effect.map(ask(text), isYes)
}
