/**
 * `stint plugins` shows what the packages of a project contribute, without running their code, and writes the schemas of a package's own kinds of
 * steps.
 */
import * as StintPackages from "@stint/pool-process/StintPackages"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { pathToFileURL } from "node:url"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import * as Contributions from "../plugins/Contributions.ts"
import { json } from "./SharedFlags.ts"

/** The file is not imported: the contributions are those of the project that contains it. */
const config = Flag.String("config").pipe(
  Flag.withDescription("A file of the project; default: the project in this folder. The file is not run"),
  Flag.optional
)

interface Row {
  readonly package: string
  readonly kind: "endpoint" | "stepKind" | "pipeline" | "schedule"
  readonly name: string
  readonly source: string
  readonly description?: string
}

const described = ({ description }: { readonly description?: string }) => description === undefined ? {} : { description }

/** The contributions as a list. Paths are relative to the packages. */
const rowsOf = Effect.fnUntraced(function*({ endpoints, kinds, packages, pipelines, schedules }: Contributions.Contributions) {
  const path = yield* Path.Path
  const inPackage = (name: string, file = "") => path.relative(packages.find((one) => one.name === name)?.folder ?? "", file)
  return [
    ...endpoints.map(({ declared, definition, name, package: from }): Row => ({
      package: from,
      kind: "endpoint",
      name,
      source: inPackage(from, definition.handler),
      ...described(declared)
    })),
    ...kinds.map(({ declared, export: member, module, name, package: from }): Row => ({
      package: from,
      kind: "stepKind",
      name,
      source: `${inPackage(from, module)} ${member}`,
      ...described(declared)
    })),
    ...pipelines.map(({ file, name, package: from }): Row => ({
      package: from,
      kind: "pipeline",
      name,
      source: inPackage(from, file)
    })),
    ...schedules.map(({ endpoint, name, package: from, spec }): Row => ({
      package: from,
      kind: "schedule",
      name: `${endpoint} ${name}`,
      source: spec.cron ?? (spec.at === undefined ? "" : new Date(spec.at).toISOString())
    }))
  ]
})

const list = Command.make(
  "list",
  { config, json },
  Effect.fnUntraced(function*({ config, json }) {
    const path = yield* Path.Path
    const contributions = yield* Contributions.read(path.dirname(path.resolve(Option.getOrElse(config, () => "stint.config.ts"))))
    const rows = yield* rowsOf(contributions)
    const packages = contributions.packages.map(({ folder, name, version }) => ({
      name,
      ...(version === undefined ? {} : { version }),
      folder,
      contributes: rows.filter((row) => row.package === name).map(({ package: _, ...row }) => row)
    }))
    yield* Output.print(json, { packages }, () =>
      rows.length === 0
        ? `No package of ${contributions.folder} contributes anything to Stint.`
        : Output.table([
          ["PACKAGE", "CONTRIBUTES", "NAME", "FROM", ""],
          ...rows.map((row) => [row.package, row.kind, row.name, row.source, row.description ?? ""])
        ]))
  })
).pipe(
  Command.withDescription("List what the packages of the project contribute, without running their code"),
  Command.withAlias("ls")
)

const decodeManifest = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Record(Schema.String, Schema.Json)))

const isRecord = (value: unknown): value is { readonly [key: string]: unknown } => Predicate.isObject(value)

/** The manifest with the schemas of its kinds. */
const withSchemas = (manifest: { readonly [key: string]: unknown }, schemas: ReadonlyMap<string, object>) => {
  const stint = isRecord(manifest["stint"]) ? manifest["stint"] : {}
  const contributes = isRecord(stint["contributes"]) ? stint["contributes"] : {}
  const kinds = isRecord(contributes["stepKinds"]) ? contributes["stepKinds"] : {}
  return {
    ...manifest,
    stint: {
      ...stint,
      contributes: {
        ...contributes,
        stepKinds: Object.fromEntries(
          Object.entries(kinds).map(([name, kind]) => {
            const { input: _input, options: _options, output: _output, streams: _streams, ...rest } = isRecord(kind) ? kind : {}
            return [name, { ...rest, ...schemas.get(name) }]
          })
        )
      }
    }
  }
}

const write = Command.make(
  "write",
  {
    folder: Argument.String("folder").pipe(
      Argument.withDescription("The folder of the package; default: this folder"),
      Argument.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ folder: given, json }) {
    const path = yield* Path.Path
    const fs = yield* FileSystem.FileSystem
    const folder = path.resolve(Option.getOrElse(given, () => "."))
    const { kinds, packages } = yield* Contributions.read(folder)
    const file = path.join(folder, "package.json")
    const own = packages.find((one) => one.folder === folder)
    const mine = kinds.filter((kind) => kind.package === own?.name)
    if (own === undefined || mine.length === 0) {
      return yield* new CliFailure({
        message: `${file} contributes no kinds of steps.`,
        hint: "Run the command in the folder of a package with stint.contributes.stepKinds in its package.json."
      })
    }
    const { activate, declarationOf } = yield* Effect.promise(() => import("@stint/pipelines/PipelineFile"))
    const schemas = new Map<string, object>()
    for (const { export: member, module: source, name } of mine) {
      const kind = yield* Effect.tryPromise({
        try: async () => {
          await StintPackages.addToThisProcess(import.meta.url)
          const module: unknown = await import(pathToFileURL(source).href)
          return activate({ package: own.name, name, module: isRecord(module) ? module : {}, export: member, declared: {} })
        },
        catch: (cause) =>
          new CliFailure({
            message: `The kind of step "${name}" cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
            hint: `It should be the export "${member}" of ${source}.`
          })
      })
      schemas.set(name, declarationOf(kind))
    }
    const text = yield* fs.readFileString(file)
    const after = `${JSON.stringify(withSchemas(yield* decodeManifest(text), schemas), null, 2)}\n`
    if (after !== text) yield* fs.writeFileString(file, after)
    yield* Output.print(
      json,
      { file, stepKinds: [...schemas.keys()], changed: after !== text },
      () =>
        after === text
          ? `The schemas in ${file} are up to date.`
          : `Wrote the schemas of ${[...schemas.keys()].join(", ")} to ${file}.`
    )
  })
).pipe(
  Command.withDescription("Write the JSON Schemas of this package's kinds of steps into its package.json; loads its modules")
)

/** `stint plugins` and its subcommands. */
export const plugins = Command.make("plugins").pipe(
  Command.withDescription("Plugin packages: what they contribute"),
  Command.withSubcommands([list, write])
)
