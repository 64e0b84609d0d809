/**
 * Bundles the package in the current folder after `build.ts --declarations`: src/index.ts becomes dist/index.js, with one chunk per lazily
 * loaded module.
 *
 * It is for packages on the cold-start path. Loading Effect's modules one by one takes a worker more than 100 ms, and loading one
 * tree-shaken file takes about 10 ms. The bundle contains Stint's packages and Effect. All other packages stay external and must be in the
 * package's own `dependencies`, because Node resolves them from that package once it is installed.
 *
 * dist/LICENSES.md contains the licences of the bundled packages.
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
  name: "external-packages",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^[^./]/ }, ({ importer, kind, path }) => {
      if (kind === "entry-point" || isInside(nameOf(path))) return undefined
      const isNode = path.startsWith("node:") || builtinModules.includes(path)
      if (isNode || dependencies.includes(nameOf(path))) return { path, external: true }
      return {
        errors: [{
          text: `${relative(folder, importer)} imports ${path}, which is not bundled. Add ${nameOf(path)} to ` +
            "dependencies in package.json."
        }]
      }
    })
  }
}

const options = { ...BUNDLE_OPTIONS, absWorkingDir: folder, logLevel: "warning" } as const

let localApiServer: string | undefined
const { metafile } = await build({
  ...options,
  entryPoints: ["src/index.ts"],
  outdir: "dist",
  chunkNames: "chunks/[name]-[hash]",
  plugins: [
    singleStartupChunk(join(folder, "src/index.ts"), {
      localApiServer: (path) => {
        localApiServer = path
        return "../LocalApiServer.js"
      }
    }),
    externalizePackages
  ]
})
const inputs = Object.keys(metafile.inputs)

// Loaded by worker-local's chunk, with its own copy of Effect.
if (localApiServer !== undefined) {
  const { metafile } = await build({
    ...options,
    splitting: false,
    entryPoints: [localApiServer],
    outfile: "dist/LocalApiServer.js",
    plugins: [externalizePackages]
  })
  inputs.push(...Object.keys(metafile.inputs))
}

/** The package folder of a file in `node_modules`. */
const packageOf = (file: string): string => {
  const end = file.lastIndexOf("node_modules/") + "node_modules/".length
  return file.slice(0, end) + nameOf(file.slice(end))
}

const foreign = inputs.map((file) => resolve(folder, file)).filter((file) => file.includes("node_modules/"))
const licences = [...new Set(foreign.map(packageOf))].toSorted().map((path) => {
  const [licence] = globSync("LICEN[CS]E*", { cwd: path })
  const file = licence === undefined ? join(dirname(path), "LICENSE") : join(path, licence)
  if (!existsSync(file)) {
    throw new Error(`${path} is bundled but has no licence file. Make it an external dependency, or add its licence.`)
  }
  const { name, version } = readManifest(join(path, "package.json"))
  return `# ${name} ${version}\n\n${readFileSync(file, "utf8").trim()}\n`
})
writeFileSync(join(folder, "dist/LICENSES.md"), licences.join("\n"))
