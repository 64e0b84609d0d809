/**
 * Finds the packages whose contributions a project uses, and reads their manifests. Does not run their code.
 *
 * ```
 *   stint.config.ts --nearest package.json--> the project --stint.plugins, or else dependencies--> node_modules/NAME/package.json
 * ```
 *
 * The project itself also contributes, so that its pipeline files may use its own kinds of steps.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import { CliFailure } from "../CliFailure.ts"
import * as Manifest from "./Manifest.ts"

/** The maximum size of a file that is read from a package. Bytes. */
const MAX_BYTES = 1_048_576

/** A package that contributes. */
export interface PluginPackage {
  readonly name: string
  readonly version: string | undefined
  /** Its folder, without symbolic links. */
  readonly folder: string
  readonly contributes: Manifest.Contributes
}

/** A project, and the packages that contribute to it. */
export interface PluginPackages {
  /** The folder of the project's package.json; without one, the folder of the configuration. */
  readonly folder: string
  readonly packages: ReadonlyArray<PluginPackage>
  /** A line for each mistake in a manifest. */
  readonly mistakes: ReadonlyArray<string>
}

/** Reads a text file of limited size; undefined when there is none. */
export const readText = Effect.fnUntraced(function*(file: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* Effect.option(fs.stat(file))
  if (Option.isNone(info) || info.value.type !== "File") return undefined
  if (Number(info.value.size) > MAX_BYTES) {
    return yield* new CliFailure({
      message: `${file} is larger than ${MAX_BYTES} bytes.`,
      hint: "Make it smaller: it is read together with the configuration."
    })
  }
  return yield* Effect.mapError(
    fs.readFileString(file),
    (cause) => new CliFailure({ message: `${file} cannot be read: ${cause.message}`, hint: "" })
  )
})

const NOTHING: Manifest.PackageJson = {}

/**
 * Reads a package.json. `isNamed`: its package is expected to contribute, or is the project. Other packages are decoded only if they may contribute,
 * because Stint must not report unrelated mistakes.
 */
const readManifest = Effect.fnUntraced(function*(file: string, isNamed: boolean) {
  const text = yield* isNamed ? readText(file) : Effect.orElseSucceed(readText(file), () => "")
  if (text === undefined) return undefined
  if (!isNamed && !text.includes("\"contributes\"")) return NOTHING
  return yield* Effect.mapError(
    Manifest.decodePackage(text),
    ({ message }) =>
      new CliFailure({ message: `${file} has mistakes: ${message}`, hint: "Correct it, or install the package again." })
  )
})

/** The folder and all folders above it. */
const upwards = Effect.fnUntraced(function*(folder: string) {
  const path = yield* Path.Path
  const found = [folder]
  for (let at = folder; path.dirname(at) !== at; at = path.dirname(at)) found.push(path.dirname(at))
  return found
})

/** The folder and the package.json of the project that contains a folder. */
const projectOf = Effect.fnUntraced(function*(folder: string) {
  const path = yield* Path.Path
  for (const at of yield* upwards(path.resolve(folder))) {
    const manifest = yield* readManifest(path.join(at, "package.json"), true)
    if (manifest !== undefined) return { folder: at, manifest }
  }
  return undefined
})

/** Whether the field `stint` is meant for this program. Another program may have the same name. */
const isOurs = (field: unknown): boolean => Predicate.isObject(field) && ("contributes" in field || "plugins" in field)

interface Field {
  readonly field: Manifest.StintField
  readonly mistakes: ReadonlyArray<string>
}

const fieldOf = (name: string, field: unknown): Effect.Effect<Field> =>
  isOurs(field)
    ? Effect.match(Manifest.decode(field), {
      onSuccess: (field): Field => ({ field, mistakes: [] }),
      onFailure: (lines) => ({ field: {}, mistakes: lines.map((line) => `${name}: ${line}`) })
    })
    : Effect.succeed({ field: {}, mistakes: [] })

/** The packages of the project that contains a folder. */
export const find = Effect.fn("PluginPackages.find")(function*(folder: string) {
  const path = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const project = yield* projectOf(folder)
  if (project === undefined) return { folder: path.resolve(folder), packages: [], mistakes: [] } satisfies PluginPackages
  const packages: Array<PluginPackage> = []
  const mistakes: Array<string> = []
  const add = Effect.fnUntraced(function*(name: string, at: string, manifest: Manifest.PackageJson) {
    const { field, mistakes: found } = yield* fieldOf(name, manifest.stint)
    mistakes.push(...found)
    if (field.contributes !== undefined) {
      packages.push({ name, version: manifest.version, folder: at, contributes: field.contributes })
    }
    return field
  })
  const { manifest } = project
  const own = yield* add(manifest.name ?? "this project", project.folder, manifest)
  const parents = yield* upwards(project.folder)
  for (const name of own.plugins ?? Object.keys(manifest.dependencies ?? {})) {
    const before = packages.length + mistakes.length
    for (const parent of parents) {
      const at = path.join(parent, "node_modules", name)
      const installed = yield* readManifest(path.join(at, "package.json"), own.plugins !== undefined)
      if (installed === undefined) continue
      // The name under which the project installs it: another version may be installed under an alias.
      yield* add(name, yield* Effect.orElseSucceed(fs.realPath(at), () => at), installed)
      if (own.plugins !== undefined && packages.length + mistakes.length === before) {
        mistakes.push(
          `${name}: stint.plugins of ${project.folder} names it, but its package.json has no stint.contributes. Remove it there.`
        )
      }
      break
    }
    if (own.plugins !== undefined && packages.length + mistakes.length === before) {
      mistakes.push(`${name}: stint.plugins of ${project.folder} names it, but it is not installed. Run: npm install ${name}`)
    }
  }
  return { folder: project.folder, packages, mistakes } satisfies PluginPackages
})
