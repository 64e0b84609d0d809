/**
 * The packages of this workspace, as their manifests describe them.
 */
import { globSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"

/** Public paths and the files that they lead to; null closes a path. */
export type Exports = Record<string, string | null>

/** The parts of a package.json that our scripts read. */
export interface Manifest {
  name: string
  version?: string
  private?: boolean
  description?: string
  license?: string
  type?: string
  types?: string
  typings?: string
  sideEffects?: boolean | ReadonlyArray<string>
  exports?: Exports
  bin?: Record<string, string>
  files?: ReadonlyArray<string>
  scripts?: Record<string, string>
  publishConfig?: {
    access?: string
    engines?: Record<string, string>
    exports?: Exports
    bin?: Record<string, string>
  }
  dependencies?: Record<string, string>
  devDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

/** A folder with a package.json. */
export interface Package {
  readonly name: string
  /** Absolute. */
  readonly path: string
  /** From the root, as messages name it: `packages/queue`. */
  readonly folder: string
  readonly manifest: Manifest
}

/** The folder of pnpm-workspace.yaml. */
export const root = resolve(import.meta.dirname, "..")

/** A package.json. Its shape is what check-manifests.ts is for; nothing is decoded here. */
export const readManifest = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8"))

/** The packages of the workspace in a folder, sorted by folder. The folders are those of its pnpm-workspace.yaml: `packages/*`, ... */
export const packagesOf = (root: string): ReadonlyArray<Package> => {
  const list = readFileSync(join(root, "pnpm-workspace.yaml"), "utf8").split(/^packages:$/m)[1]?.split(/^\S/m)[0] ?? ""
  const manifests = Array.from(list.matchAll(/^ *- *"?([^"\s]+)/gm), ([, pattern]) => `${pattern}/package.json`)
  return globSync(manifests, { cwd: root }).toSorted().map((file) => {
    const manifest = readManifest(join(root, file))
    return { name: manifest.name, path: join(root, dirname(file)), folder: dirname(file), manifest }
  })
}

/** Every package of this workspace. */
export const packages: ReadonlyArray<Package> = packagesOf(root)

/** Whether a registry gets what is in a folder: a library, or a program that users install. */
export const isPublished = (folder: string): boolean => /^(packages|apps)\//.test(folder)

/** Those that a registry gets. */
export const publishable: ReadonlyArray<Package> = packages.filter((one) =>
  isPublished(one.folder) && one.manifest.private !== true
)
