/**
 * Builds the package in the current folder: compiles src/ to ESM with declarations in dist/. turbo runs it, dependencies first.
 *
 * `--declarations` writes only the declarations; `bundle.ts` writes the JavaScript.
 *
 * In the workspace, a package's `exports` point to its sources, so compiling one package would compile all its imports. Therefore, in this
 * script, package names resolve to the declarations in dist/ instead.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { packages, root } from "./workspace.ts"

const folder = process.cwd()
const dist = join(folder, "dist")
const config = join(folder, "node_modules/.cache/tsconfig.build.json")

rmSync(dist, { recursive: true, force: true })
mkdirSync(join(config, ".."), { recursive: true })
writeFileSync(
  config,
  JSON.stringify({
    extends: join(root, "tsconfig.base.json"),
    include: [join(folder, "src")],
    compilerOptions: {
      rootDir: join(folder, "src"),
      outDir: dist,
      declarationMap: true,
      stripInternal: true,
      noEmitOnError: true,
      emitDeclarationOnly: process.argv.includes("--declarations"),
      paths: Object.fromEntries(
        packages.flatMap(({ manifest, name, path }) =>
          Object.entries(manifest.exports ?? {}).flatMap(([key, source]) =>
            source === null ? [] : [[join(name, key), [join(path, source.replace("./src/", "dist/").replace(/\.ts$/, ".d.ts"))]]]
          )
        )
      )
    }
  })
)

const { status } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", config], { stdio: "inherit" })
process.exit(status ?? 1)
