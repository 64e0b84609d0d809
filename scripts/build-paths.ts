/**
 * The built declarations of the workspace's packages. Their `exports` point to the sources, so that the workspace needs no build; the build
 * of a package reads the declarations of the other packages instead.
 */
import { join } from "node:path"
import { packages } from "./workspace.ts"

/** Public paths (`@stint/store/JobRecord`) and their files in dist/. */
export const declarationPaths: Readonly<Record<string, string>> = Object.fromEntries(
  packages.flatMap(({ manifest, name, path }) =>
    Object.entries(manifest.exports ?? {}).flatMap(([key, source]) =>
      source === null ? [] : [[join(name, key), join(path, source.replace("./src/", "dist/").replace(/\.ts$/, ".d.ts"))]]
    )
  )
)

/** The declarations of a public path; undefined for packages outside the workspace. */
export const declarationsOf = (specifier: string): string | undefined => declarationPaths[specifier]
