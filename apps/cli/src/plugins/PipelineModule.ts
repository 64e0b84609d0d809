/**
 * The handler of a pipeline file: a module that imports the file and the kinds of steps that it uses, and launches the worker.
 *
 * It is a handler like any other, so a pipeline file is bundled, released, compared and rolled back like code. The modules of a package are loaded
 * only by the workers that need them.
 */
import * as StintPackages from "@stint/pool-process/StintPackages"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import { createHash, randomUUID } from "node:crypto"
import { CliFailure } from "../CliFailure.ts"
import type { KindContribution } from "./Contributions.ts"

const RUNTIME = "@stint/pipelines"

/** The kinds that a pipeline file, or a step of it, uses, by name. Only `steps`, `undo`, and the parts of `all` and `branch` contain steps: other values are data. */
export const kindsIn = (json: unknown): ReadonlySet<string> => {
  if (Array.isArray(json)) return new Set(json.flatMap((one) => [...kindsIn(one)]))
  if (!Predicate.isObject(json)) return new Set()
  const own = [
    ...(Predicate.hasProperty(json, "use") && Predicate.isString(json.use) ? [json.use] : []),
    ...(Predicate.hasProperty(json, "stream") && Predicate.isString(json.stream) ? [json.stream] : [])
  ]
  const parts = [
    ...(Predicate.hasProperty(json, "all") && Predicate.isObject(json.all) ? Object.values(json.all) : []),
    ...(Predicate.hasProperty(json, "parts") && Predicate.isObject(json.parts) ? Object.values(json.parts) : []),
    ...(Predicate.hasProperty(json, "undo") && Predicate.isObject(json.undo) ? [{ use: json.undo["use"] }] : [])
  ]
  const steps = Predicate.hasProperty(json, "steps") ? [json.steps] : []
  return new Set([...own, ...[...steps, ...parts].flatMap((one) => [...kindsIn(one)])])
}

const specifier = (path: Path.Path, from: string, to: string): string => {
  const relative = path.relative(from, to).split(path.sep).join("/")
  return JSON.stringify(relative.startsWith(".") ? relative : `./${relative}`)
}

/**
 * The name of the module for a pipeline file that a configuration names. Configurations in one folder may give the same endpoint different files, and
 * the module for one file must not replace the module for another, whose workers may be running.
 */
export const nameOfConfigured = (id: string, file: string): string =>
  `${id}-${createHash("sha256").update(file).digest("hex").slice(0, 8)}`

/** What a pipeline endpoint runs. `name`: of the module. `file` and the modules of `kinds` are absolute paths; `folder` is the project's. */
export interface PipelineSource {
  readonly id: string
  readonly name: string
  readonly file: string
  readonly kinds: ReadonlyArray<KindContribution>
  readonly folder: string
}

/** Writes the module, unless it is up to date. Returns its path. */
export const write = Effect.fn("PipelineModule.write")(function*({ file, folder, id, kinds, name }: PipelineSource) {
  const path = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const places = [folder, ...StintPackages.importersFrom(import.meta.url).map((importer) => path.dirname(importer))]
  if (places.every((place) => StintPackages.linkOf(RUNTIME, place) === undefined)) {
    return yield* new CliFailure({
      message: `The endpoint "${id}" is a pipeline file, but ${RUNTIME} is not installed in ${folder}.`,
      hint: `Run there: npm install ${RUNTIME} @stint/worker effect`
    })
  }
  const directory = path.join(folder, "node_modules", ".stint")
  const entries = kinds.map(({ declared, export: member, name, package: from }, index) => {
    const { description: _, ...schemas } = declared
    return `    { package: ${JSON.stringify(from)}, name: ${JSON.stringify(name)}, module: kind${index}, export: ${
      JSON.stringify(member)
    }, declared: ${JSON.stringify(schemas)} }`
  })
  const text = [
    `// Written by Stint for the endpoint "${id}", from its pipeline file. Changes are lost.`,
    `import { launch } from "${RUNTIME}/PipelineFile"`,
    `import file from ${specifier(path, directory, file)} with { type: "json" }`,
    ...kinds.map(({ module }, index) => `import * as kind${index} from ${specifier(path, directory, module)}`),
    "",
    "launch(file, {",
    "  main: import.meta,",
    "  kinds: [",
    entries.join(",\n"),
    "  ]",
    "})",
    ""
  ].join("\n")
  const module = path.join(directory, `${name}.mjs`)
  const written = yield* Effect.orElseSucceed(fs.readFileString(module), () => undefined)
  if (written === text) return module
  // Written atomically, because another start may read or write it at the same time.
  const draft = `${module}.${randomUUID()}`
  yield* Effect.mapError(
    fs.makeDirectory(directory, { recursive: true }).pipe(
      Effect.andThen(fs.writeFileString(draft, text)),
      Effect.andThen(fs.rename(draft, module))
    ),
    ({ message }) =>
      new CliFailure({
        message: `The module of the pipeline "${id}" cannot be written: ${message}`,
        hint: `Make ${directory} writable for this user.`
      })
  )
  return module
})
