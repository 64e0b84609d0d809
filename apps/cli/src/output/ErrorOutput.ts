/**
 * How the command line prints its errors: once, on standard error, as text, or as one line of JSON with `--json`.
 *
 * An invalid command line exits with {@link USAGE_EXIT_CODE}, every other failure with 1 (docs/reference/cli.md#exit-codes).
 */
import { escapeUnprintable } from "@stint/contract/PrintableText"
import { CliError, CliOutput } from "effect/cli"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CliFailure } from "../CliFailure.ts"

/** The exit code for an unknown command or flag, a missing argument, or an invalid value. */
export const USAGE_EXIT_CODE = 2

/** The shape of an error with `--json`, which docs/reference/cli.md documents. Later versions only add members. */
const jsonOf = ({ code = "failed", hint, issues, message, status }: Partial<CliFailure> & { readonly message: string }): string =>
  escapeUnprintable(JSON.stringify({
    error: {
      code,
      message,
      ...(hint === undefined || hint === "" ? {} : { hint }),
      ...(status === undefined ? {} : { status }),
      ...(issues === undefined ? {} : { issues })
    }
  }))

const failureOf = (error: CliError.CliError) => {
  const cause = error instanceof CliError.UserError ? error.cause : error
  return cause instanceof CliFailure ? cause : { message: error.message }
}

const plain = CliOutput.defaultFormatter({ colors: false })

const jsonFormatter: CliOutput.Formatter = {
  formatHelpDoc: (doc) => plain.formatHelpDoc(doc),
  formatCliError: (error) => plain.formatCliError(error),
  formatError: (error) => jsonOf(failureOf(error)),
  formatErrors: (errors) => plain.formatErrors(errors),
  formatVersion: (name, version) => plain.formatVersion(name, version)
}

/** Prints an invalid command line as an error and a pointer to the help. The help itself would hide the error. */
const presenter = (json: boolean): CliOutput.Presenter => ({
  present: (event) => {
    if (event._tag !== "InvalidInvocation") return CliOutput.defaultPresenter.present(event)
    const hint = `Usage: ${event.helpDoc.usage}\nSee: ${event.commandPath.join(" ")} --help`
    if (json) {
      const message = event.errors.map(({ message }) => message).join("\n")
      return Console.error(jsonOf({ code: "usage", message, hint }))
    }
    return Effect.flatMap(
      CliOutput.Formatter,
      (formatter) => Console.error(`${formatter.formatErrors(event.errors)}\n\n  ${hint.replaceAll("\n", "\n  ")}`)
    )
  }
})

/** Whether these arguments ask for JSON. */
const wantsJson = (args: ReadonlyArray<string>): boolean => {
  const end = args.indexOf("--")
  return (end === -1 ? args : args.slice(0, end)).includes("--json")
}

/** The error output for these arguments. */
export const layer = (args: ReadonlyArray<string>): Layer.Layer<never> => {
  const json = wantsJson(args)
  return Layer.merge(
    CliOutput.layerPresenter(presenter(json)),
    json ? CliOutput.layer(jsonFormatter) : Layer.empty
  )
}

/** Whether a failure is an invalid command line. */
export const isUsageError = (error: unknown): boolean => error instanceof CliError.ShowHelp && error.errors.length > 0
