/**
 * Bundles the package in the current folder after `build.ts --declarations`: src/index.ts -> dist/index.js, and a chunk for each thing that is
 * loaded only when it is used.
 *
 * For packages that start with a cold start: Effect's modules one by one cost a worker more than 100 ms, as one tree-shaken file about 10.
 * Inside are Stint's packages and Effect. All other packages stay outside, and have to be among the package's own `dependencies`, because
 * that is where they are looked for once it is installed.
 *
 * What is inside keeps its licence: dist/LICENSES.md has them.
 */
import { build } from "esbuild"
import type { Plugin } from "esbuild"
import { existsSync, globSync, readFileSync, writeFileSync } from "node:fs"
import { builtinModules } from "node:module"
import { dirname, join, relative, resolve } from "node:path"
import { BUNDLE_OPTIONS, singleStartupChunk } from "../packages/pool-process/src/StartupChunk.ts"
import { readManifest } from "./workspace.ts"

const folder = process.cwd()
const dependencies = Object.keys(readManifest(join(folder, "package.json")).dependencies ?? {})
const nameOf = (specifier: string) => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")
const isInside = (name: string) => name === "effect" || name.startsWith("@effect/") || name.startsWith("@stint/")

const externalizePackages: Plugin = {
  name: "packages-stay-outside",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^[^./]/ }, ({ importer, kind, path }) => {
      if (kind === "entry-point" || isInside(nameOf(path))) return undefined
      const isNode = path.startsWith("node:") || builtinModules.includes(path)
      if (isNode || dependencies.includes(nameOf(path))) return { path, external: true }
      return {
        errors: [{
          text: `${relative(folder, importer)} imports ${path}, which stays outside of the bundle. Add ${nameOf(path)} to the ` +
            "dependencies in package.json."
        }]
      }
    })
  }
}

const { metafile } = await build({
  ...BUNDLE_OPTIONS,
  absWorkingDir: folder,
  entryPoints: ["src/index.ts"],
  outdir: "dist",
  chunkNames: "chunks/[name]-[hash]",
  logLevel: "warning",
  plugins: [singleStartupChunk(join(folder, "src/index.ts"), () => undefined), externalizePackages]
})

/** The folder of the package that a file in `node_modules` belongs to. */
const packageOf = (file: string): string => {
  const end = file.lastIndexOf("node_modules/") + "node_modules/".length
  return file.slice(0, end) + nameOf(file.slice(end))
}

const foreign = Object.keys(metafile.inputs).map((file) => resolve(folder, file)).filter((file) => file.includes("node_modules/"))
const licences = [...new Set(foreign.map(packageOf))].toSorted().map((path) => {
  const [licence] = globSync("LICEN[CS]E*", { cwd: path })
  const file = licence === undefined ? join(dirname(path), "LICENSE") : join(path, licence)
  if (!existsSync(file)) throw new Error(`${path} is in the bundle and has no licence file to pass on.`)
  const { name, version } = readManifest(join(path, "package.json"))
  return `# ${name} ${version}\n\n${readFileSync(file, "utf8").trim()}\n`
})
writeFileSync(join(folder, "dist/LICENSES.md"), licences.join("\n"))
