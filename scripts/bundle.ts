/**
 * Bundles the package in the current folder after `build.ts --declarations`: its entry point (src/index.ts) and its programs (`bin`) become
 * single files in dist/, with one chunk per lazily loaded module. The declarations become one dist/index.d.ts.
 *
 * It is for packages that users install to run something: the SDK and the command line. Loading Effect's modules one by one takes a worker
 * more than 100 ms, whereas loading one tree-shaken file takes about 10 ms. Effect takes up 61 MB when installed, and 0.5 MB in the bundle.
 *
 * The `dependencies` and `peerDependencies` of the package stay external. The bundle contains all other packages, which are in
 * `devDependencies`. A fix in one of those reaches users with the next release of Stint, so a package that handles untrusted bytes, such as
 * undici, stays external.
 *
 * dist/LICENSES.md contains the licences of the bundled packages. The source maps name each source by its package and contain only Stint's
 * own sources: with all other sources, an installed SDK would need 15 MB more.
 */
import { build } from "esbuild"
import type { BuildOptions, Plugin } from "esbuild"
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { builtinModules } from "node:module"
import { basename, dirname, join, relative, resolve } from "node:path"
import { rolldown } from "rolldown"
import { dts } from "rolldown-plugin-dts"
import type { BUNDLE_OPTIONS } from "../packages/pool-process/src/StartupChunk.ts"
import { inputPaths, singleStartupChunk } from "../packages/pool-process/src/StartupChunk.ts"
import { declarationsOf } from "./build-paths.ts"
import { externalPackages, packageOptions } from "./bundle-options.ts"
import { readManifest } from "./workspace.ts"

const folder = process.cwd()
const dist = join(folder, "dist")
const manifest = readManifest(join(folder, "package.json"))
const external = externalPackages(folder)
const bundled = Object.keys(manifest.devDependencies ?? {})
const nameOf = (specifier: string) => specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/")
const isNode = (specifier: string) => specifier.startsWith("node:") || builtinModules.includes(specifier)

const externalizePackages: Plugin = {
  name: "external-packages",
  setup: (bundler) => {
    bundler.onResolve({ filter: /^[^./]/ }, ({ importer, kind, path }) => {
      if (kind === "entry-point" || path.startsWith("#")) return undefined
      const name = nameOf(path)
      if (isNode(path) || external.includes(name)) return { path, external: true }
      if (bundled.includes(name) || importer.includes("node_modules/") || !importer.startsWith(`${folder}/`)) return undefined
      return {
        errors: [{
          text:
            `${relative(folder, importer)} imports ${path}. Add ${name} to devDependencies in package.json to bundle it, or to ` +
            "dependencies to install it with the package."
        }]
      }
    })
  }
}

/** The package folder of a file in `node_modules`. */
const packageOf = (file: string): string => {
  const end = file.lastIndexOf("node_modules/") + "node_modules/".length
  return file.slice(0, end) + nameOf(file.slice(end))
}

/** `../../worker/src/x.ts` -> `@stint/worker/src/x.ts`, so that no path depends on the folder in which the package was built. */
const publicName = (path: string): string => {
  if (path.includes("node_modules/")) return path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)
  const root = resolve(folder, "../..")
  const [, short = "", rest = path] = /^(?:packages|apps)\/([^/]+)\/(.*)$/.exec(relative(root, path)) ?? []
  return `@stint/${short}/${rest}`
}

const options: typeof BUNDLE_OPTIONS & BuildOptions = { ...packageOptions(folder), logLevel: "warning", sourcesContent: true }

const programs = Object.values(manifest.bin ?? {})
const entryPoints = ["src/index.ts", ...programs]
let localApiServer: string | undefined
const { metafile } = await build({
  ...options,
  entryPoints,
  outdir: "dist",
  chunkNames: "chunks/[name]-[hash]",
  plugins: [
    // A program starts with the single module that it loads lazily, so only a library has its own start-up chunk.
    ...(programs.length > 0 ? [] : [singleStartupChunk(join(folder, "src/index.ts"), {
      localApiServer: (path) => {
        localApiServer = path
        return "../LocalApiServer.js"
      }
    })]),
    externalizePackages
  ]
})
const inputs = [...inputPaths(metafile)]

// esbuild also writes a chunk for a module that only removed code would load, such as the Swagger page of 2 MB.
const used = new Set<string>()
const use = (output: string): void => {
  const found = metafile.outputs[output]
  if (found === undefined || used.has(output)) return
  used.add(output)
  for (const { path } of found.imports) use(path)
}
for (const [output, { entryPoint }] of Object.entries(metafile.outputs)) {
  if (entryPoint !== undefined && entryPoints.some((entry) => relative(".", entry) === entryPoint)) use(output)
}
for (const output of Object.keys(metafile.outputs)) if (!used.has(output.replace(/\.map$/, ""))) rmSync(join(folder, output))

// The console is a separate program for browsers, which the bundle serves as files.
const CONSOLE = "@stint/console"
if (bundled.includes(CONSOLE)) cpSync(join(folder, "node_modules", CONSOLE, "dist"), join(dist, "console"), { recursive: true })

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

for (const file of globSync("**/*.js.map", { cwd: dist })) {
  const path = join(dist, file)
  const map: { sources: Array<string>; sourcesContent: Array<string | null> } = JSON.parse(readFileSync(path, "utf8"))
  map.sources = map.sources.map((source) => publicName(resolve(dirname(path), source)))
  map.sourcesContent = map.sourcesContent.map((text, index) => map.sources[index]?.startsWith("@stint/") === true ? text : null)
  writeFileSync(path, JSON.stringify(map))
}

const foreign = [
  ...new Set(inputs.map((file) => resolve(folder, file)).filter((file) => file.includes("node_modules/")).map(packageOf))
]
  .toSorted().map((path) => {
    const [file] = globSync("LICEN[CS]E*", { cwd: path })
    return {
      ...readManifest(join(path, "package.json")),
      text: file === undefined ? undefined : readFileSync(join(path, file), "utf8").trim()
    }
  })
const licences = new Map<string, Array<string>>()
for (const { license, name, text, version } of foreign) {
  // Some packages only name their licence, whose text is in other packages by the same publisher.
  const shared = foreign.find((one) =>
    one.text !== undefined && one.license === license && one.name.split("/")[0] === name.split("/")[0]
  )
  const found = text ?? shared?.text
  if (found === undefined) {
    throw new Error(
      `${name} is bundled but has no licence file. Move it to dependencies in package.json, so that it is installed instead.`
    )
  }
  licences.set(found, [...licences.get(found) ?? [], `${name} ${version}`])
}
const chapters = [...licences].map(([text, names]) => `# ${names.join(", ")}\n\n${text}\n`)
writeFileSync(join(dist, "LICENSES.md"), chapters.join("\n"))

// The declarations contain the types that the entry point shows, so that a user's compiler needs no bundled package. Of Effect's types, only
// durations and secrets are small enough.
const isEffect = (specifier: string) =>
  specifier.startsWith("effect") && !/^effect\/(Duration|Equal|Hash|Inspectable|Pipeable|Redacted|Types)$/.test(specifier)
const types = await rolldown({
  input: join(dist, "index.d.ts"),
  external: (specifier) => isNode(specifier) || external.includes(nameOf(specifier)) || isEffect(specifier),
  plugins: [
    { name: "workspace", resolveId: { order: "pre", handler: (specifier) => declarationsOf(specifier) } },
    dts({ dtsInput: true, tsconfig: false, resolver: "oxc" })
  ]
})
const { output: [{ code }] } = await types.generate({ format: "es" })
for (const file of globSync("**/*.d.ts{,.map}", { cwd: dist })) rmSync(join(dist, file))
writeFileSync(join(dist, "index.d.ts"), code)
for (const program of programs) writeFileSync(join(dist, `${basename(program, ".ts")}.d.ts`), "export {}\n")
const shown = Array.from(code.matchAll(/^import .* from "(?!node:)([^"]+)"/gm), ([, name = ""]) => name).filter((one) =>
  !external.includes(nameOf(one))
)
if (shown.length > 0) {
  throw new Error(
    `The public types of ${manifest.name} show types of ${
      shown.join(", ")
    }, which users do not install. dist/index.d.ts shows where. Describe ` +
      "these types without that package."
  )
}
