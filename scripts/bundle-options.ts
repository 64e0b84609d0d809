/**
 * The esbuild options for a package that becomes a program or a library in few files: `bundle.ts` publishes it with them, and the tests of the
 * command bundle the command with them.
 */
import type { BuildOptions } from "esbuild"
import { join } from "node:path"
import { BUNDLE_OPTIONS } from "../packages/pool-process/src/StartupChunk.ts"
import { readManifest } from "./workspace.ts"

/** The packages that stay outside of the bundle of the package in `folder`: users install them with it. */
export const externalPackages = (folder: string): Array<string> => {
  const { dependencies, peerDependencies } = readManifest(join(folder, "package.json"))
  return Object.keys({ ...dependencies, ...peerDependencies })
}

/** The options for the package in `folder`. */
export const packageOptions = (folder: string) =>
  ({
    ...BUNDLE_OPTIONS,
    absWorkingDir: folder,
    mainFields: ["module", "main"],
    // A module with a top-level `await` cannot be loaded by `require`.
    supported: { "top-level-await": false },
    // CommonJS packages need `require`. The banner declares no other name, because a bundler that reads this bundle renames only `require`. It
    // is also valid in old versions of Node, so that a program can say which version it needs.
    banner: { js: `const require = globalThis.process.getBuiltinModule?.("node:module").createRequire(import.meta.url);` }
  }) satisfies BuildOptions
