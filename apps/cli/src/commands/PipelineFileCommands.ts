/**
 * `stint pipelines check` and `stint pipelines schema` work on pipeline files, without a platform and without running them.
 */
import { formatPath } from "@stint/pipelines/FileCheck"
import * as FileCheck from "@stint/pipelines/FileCheck"
import type { Mistake } from "@stint/pipelines/FileCheck"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import { CliFailure } from "../CliFailure.ts"
import * as EndpointsFile from "../config/EndpointsFile.ts"
import * as Output from "../output/Output.ts"
import * as Contributions from "../plugins/Contributions.ts"
import { json } from "./SharedFlags.ts"

const DEFAULT_CONFIG = "stint.config.ts"

const config = Flag.String("config").pipe(
  Flag.withDescription(`The configuration whose endpoints the files may run; default: ${DEFAULT_CONFIG}, if there is one`),
  Flag.optional
)

/** The kinds and endpoints that the project's pipeline files may name. Runs the configuration, but no code of packages. */
const catalog = Effect.fnUntraced(function*(given: Option.Option<string>) {
  const path = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const file = Option.getOrElse(given, () => DEFAULT_CONFIG)
  const isThere = Option.isSome(given) || (yield* Effect.orElseSucceed(fs.exists(file), () => false))
  const endpoints = isThere ? (yield* EndpointsFile.read(file)).endpoints : {}
  const contributions = yield* Contributions.read(path.dirname(path.resolve(file)))
  return Contributions.catalogOf(contributions, Object.keys(endpoints))
})

/** The mistakes in a file, each with its location. A file that cannot be read counts as one mistake. */
const mistakesIn = Effect.fnUntraced(function*(file: string, known: FileCheck.Catalog) {
  const read = yield* Effect.result(Contributions.readPipeline(file))
  if (Result.isFailure(read)) return [{ path: [], message: `${read.failure.message} ${read.failure.hint}`.trimEnd() }]
  const found = FileCheck.check(read.success, known)
  return Result.isSuccess(found) ? [] : found.failure
})

/** `stint pipelines check`. Ends with exit code 1 if it finds a mistake. */
export const check = Command.make(
  "check",
  {
    files: Argument.String("file").pipe(
      Argument.withDescription("Pipeline files, such as words.pipeline.json"),
      Argument.variadic({ min: 1 })
    ),
    config,
    json
  },
  Effect.fnUntraced(function*({ config, files, json }) {
    const known = yield* catalog(config)
    const checked = yield* Effect.forEach(
      files,
      (file) =>
        Effect.map(mistakesIn(file, known), (mistakes: ReadonlyArray<Mistake>) => ({
          file,
          mistakes: mistakes.map(({ message, path }) => ({ path: formatPath(path), message }))
        }))
    )
    yield* Output.print(
      json,
      { files: checked },
      () =>
        checked.flatMap(({ file, mistakes }) =>
          mistakes.length === 0
            ? [`${Output.inline(file)}: no mistakes`]
            : mistakes.map(({ message, path }) => Output.inline(`${file}: ${path}: ${message}`))
        ).join("\n")
    )
    const count = checked.reduce((sum, { mistakes }) => sum + mistakes.length, 0)
    if (count === 0) return
    return yield* new CliFailure({
      message: `${count} ${count === 1 ? "mistake" : "mistakes"}.`,
      hint: "Correct them; docs/learning/pipelines.md#pipelines-in-json describes the format.",
      code: "invalid-pipeline"
    })
  })
).pipe(
  Command.withDescription("Find the mistakes in pipeline files, without running them"),
  Command.withExamples([{ command: "stint pipelines check *.pipeline.json", description: "Before a commit" }])
)

/** `stint pipelines schema`. */
export const schema = Command.make(
  "schema",
  {
    output: Flag.String("output").pipe(
      Flag.withDescription("Write it to this file instead of standard output, for \"$schema\" of the pipeline files"),
      Flag.optional
    ),
    config
  },
  Effect.fnUntraced(function*({ config, output }) {
    const fs = yield* FileSystem.FileSystem
    const { fileSchema } = yield* Effect.promise(() => import("@stint/pipelines/FileSchema"))
    const text = `${JSON.stringify(fileSchema(yield* catalog(config)), null, 2)}\n`
    if (Option.isNone(output)) return yield* Output.text(text.trimEnd())
    yield* Effect.mapError(
      fs.writeFileString(output.value, text),
      ({ message }) => new CliFailure({ message: `${output.value} cannot be written: ${message}`, hint: "" })
    )
    yield* Output.text(
      `Wrote ${Output.inline(output.value)}. In a pipeline file in the same folder: "$schema": "./${output.value}"`
    )
  })
).pipe(
  Command.withDescription("Print the JSON Schema of pipeline files, with the installed kinds of steps and the endpoints"),
  Command.withExamples([
    { command: "stint pipelines schema --output pipeline.schema.json", description: "For completion in an editor" }
  ])
)
