/**
 * Builds the package in the current folder: compiles src/ to ESM with declarations in dist/. turbo runs it, dependencies first.
 *
 * `--declarations` writes only the declarations; `bundle.ts` writes the JavaScript.
 *
 * The names of workspace packages resolve to their declarations (`build-paths.ts`), because otherwise compiling one package would compile all
 * its imports.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { declarationPaths } from "./build-paths.ts"
import { root } from "./workspace.ts"

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
      paths: Object.fromEntries(Object.entries(declarationPaths).map(([specifier, file]) => [specifier, [file]]))
    }
  })
)

const { status } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", config], { stdio: "inherit" })
process.exit(status ?? 1)
