/**
 * `stint init` writes a new project. It asks nothing, and never changes an existing file.
 */
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import manifest from "../../package.json" with { type: "json" }
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import * as Clone from "../project/Clone.ts"
import { type PackageSource, projectFiles } from "../project/ProjectFiles.ts"
import { json } from "./SharedFlags.ts"

/** A name for package.json: lower case, without characters that npm rejects. */
const packageNameOf = (folder: string): string =>
  folder.toLowerCase().replaceAll(/[^a-z0-9_.-]+/g, "-").replace(/^[._-]+/, "").slice(0, 214) || "my-app"

/** Entries of a new repository. A project may be written next to them. */
const HARMLESS = new Set([".git", ".DS_Store"])

const sourceFor = Effect.fnUntraced(function*(folder: string): Effect.fn.Return<
  PackageSource,
  never,
  FileSystem.FileSystem | Path.Path
> {
  const path = yield* Path.Path
  const clone = yield* Clone.root
  return clone === undefined
    ? { _tag: "Registry", version: manifest.version }
    : { _tag: "Clone", path: path.relative(folder, clone).replaceAll("\\", "/") }
})

/** Creates the folder `given`. Fails if it is not empty. Returns its real path, to which relative links refer. */
const makeFolder = Effect.fnUntraced(function*(given: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const folder = path.resolve(given)
  const fail = (cause: { readonly message: string }) =>
    new CliFailure({
      message: `The folder ${folder} cannot be used: ${cause.message}`,
      hint: "Name another one: stint init my-app"
    })
  yield* Effect.mapError(fs.makeDirectory(folder, { recursive: true }), fail)
  const entries = (yield* Effect.mapError(fs.readDirectory(folder), fail)).filter((name) => !HARMLESS.has(name)).toSorted()
  if (entries.length > 0) {
    const others = entries.length > 3 ? `, and ${entries.length - 3} more` : ""
    return yield* new CliFailure({
      message: `The folder ${folder} is not empty: it contains ${entries.slice(0, 3).join(", ")}${others}.`,
      hint: `Empty it, or name a new folder: stint init ${path.join(given, "my-app")}`
    })
  }
  return yield* Effect.mapError(fs.realPath(folder), fail)
})

export const command = Command.make(
  "init",
  {
    folder: Argument.String("folder").pipe(Argument.withDescription("A new or empty folder for the project")),
    effect: Flag.Boolean("effect").pipe(
      Flag.withDescription("Write the handler as an Effect program with Schemas instead of a function"),
      Flag.withDefault(false)
    ),
    json
  },
  Effect.fnUntraced(function*({ effect, folder, json }) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const target = yield* makeFolder(folder)
    const files = projectFiles({
      name: packageNameOf(path.basename(target)),
      form: effect ? "effect" : "function",
      source: yield* sourceFor(target)
    })
    for (const [name, text] of Object.entries(files)) {
      yield* Effect.mapError(
        fs.writeFileString(path.join(target, name), text, { flag: "wx" }),
        (cause) =>
          new CliFailure({
            message: `${path.join(target, name)} cannot be written: ${cause.message}`,
            hint: "Delete the folder and run the command again, or name another folder."
          })
      )
    }
    yield* Output.print(json, { folder: target, files: Object.keys(files) }, () =>
      [
        `Created ${folder} with the endpoint "words". Next:`,
        "",
        `  cd ${folder}`,
        "  npm install",
        "  npm run dev        serves it, and reloads it on every save",
        "  npm test           runs its test",
        "",
        "The handler is in words.ts."
      ].join("\n"))
  })
).pipe(
  Command.withDescription("Create a project with one typed endpoint and its test"),
  Command.withExamples([
    { command: "stint init my-app", description: "A handler that is a function" },
    { command: "stint init my-app --effect", description: "A handler that is an Effect program" }
  ])
)
