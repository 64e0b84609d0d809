/**
 * Reads the packages of this workspace and their manifests.
 */
import { globSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"

/** Public paths and their files. null makes a path private. */
export type Exports = Record<string, string | null>

/** The fields of a package.json that the scripts read. */
export interface Manifest {
  name: string
  version?: string
  private?: boolean
  description?: string
  keywords?: ReadonlyArray<string>
  license?: string
  repository?: { readonly type: string; readonly url: string; readonly directory?: string }
  homepage?: string
  bugs?: { readonly url: string }
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
  peerDependenciesMeta?: Record<string, { readonly optional: boolean }>
  optionalDependencies?: Record<string, string>
}

/** A folder with a package.json. */
export interface Package {
  readonly name: string
  /** Absolute. */
  readonly path: string
  /** Relative to the root, as shown in messages: `packages/queue`. */
  readonly folder: string
  readonly manifest: Manifest
}

/** The folder of pnpm-workspace.yaml. */
export const root = resolve(import.meta.dirname, "..")

/** Reads a package.json. Its shape is not decoded here; check-manifests.ts checks it. */
export const readManifest = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8"))

/** The packages of the workspace in the folder `root`, sorted by folder. pnpm-workspace.yaml lists the folders: `packages/*`, ... */
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

/** Whether the package in a folder is published: a library, or a program that users install. */
export const isPublished = (folder: string): boolean => /^(packages|apps)\//.test(folder)

/** The packages that are published. */
export const publishable: ReadonlyArray<Package> = packages.filter((one) =>
  isPublished(one.folder) && one.manifest.private !== true
)
