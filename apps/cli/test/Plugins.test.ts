/**
 * Contributions of packages: read without running code, with every mistake named (`Plugins.long.test.ts` runs them on a platform).
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { execFile } from "node:child_process"
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import process from "node:process"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as Contributions from "../src/plugins/Contributions.ts"
import * as PipelineModule from "../src/plugins/PipelineModule.ts"
import * as Project from "../src/plugins/Project.ts"
import * as SchedulePlan from "../src/plugins/SchedulePlan.ts"
import { SOURCE } from "./BuiltCommand.ts"
import { runCommand } from "./CommandInProcess.ts"
import { EXAMPLES } from "./PlatformProcess.ts"

const execute = promisify(execFile)

const WORDS = join(EXAMPLES, "plugins/words")

let root = ""
let count = 0

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "stint-plugins-"))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const write = async (file: string, content: unknown) => {
  await mkdir(dirname(file), { recursive: true })
  await writeFile(file, typeof content === "string" ? content : JSON.stringify(content))
}

/** Importing this module is an error, so nothing that only reads contributions may do so. */
const LOADED = "globalThis.loadedContribution = true\nthrow new Error(\"the package was loaded\")\n"

/** A project with packages: their `stint` fields, and files by path. Returns its folder. */
const project = async (
  packages: Readonly<Record<string, unknown>>,
  files: Readonly<Record<string, unknown>> = {},
  own: object = {}
): Promise<string> => {
  const folder = join(root, `${++count}`)
  await write(join(folder, "package.json"), {
    name: "shop",
    dependencies: Object.fromEntries(Object.keys(packages).map((name) => [name, "1.0.0"])),
    ...own
  })
  await write(join(folder, "stint.config.mjs"), "export default { endpoints: { mail: { external: true } } }")
  for (const [name, contributes] of Object.entries(packages)) {
    const at = join(folder, "node_modules", name)
    await write(join(at, "package.json"), { name, version: "1.2.3", type: "module", stint: { contributes } })
    await write(join(at, "main.js"), LOADED)
    await write(join(at, "main.ts"), LOADED)
  }
  for (const [file, content] of Object.entries(files)) await write(join(folder, file), content)
  return folder
}

const run = <A, E extends { readonly message: string; readonly hint: string }>(
  effect: Effect.Effect<A, E, NodeServices.NodeServices>
): Promise<A | string> =>
  Effect.runPromise(
    Effect.match(effect, {
      onSuccess: (value): A | string => value,
      onFailure: ({ hint, message }) => `${message}\n${hint}`
    }).pipe(Effect.provide(NodeServices.layer))
  )

/** The mistakes of a project. */
const mistakesOf = async (folder: string): Promise<ReadonlyArray<string>> => {
  const found = await run(Project.load(join(folder, "stint.config.mjs")))
  if (!Predicate.isString(found)) return []
  return found.replaceAll(folder, "PROJECT").split("\n").slice(1).map((line) => line.trim())
}

const kind = { module: "./main.js", export: "Split" }

const piped = (steps: unknown, name = "words"): Readonly<Record<string, unknown>> => ({
  "node_modules/p/words.pipeline.json": { name, steps }
})

/** Contributions of the package `p` with one mistake each, and the message. */
const BROKEN: ReadonlyArray<
  readonly [title: string, contributes: unknown, message: string, files?: Readonly<Record<string, unknown>>]
> = [
  ["an unknown point", { endpoint: {} }, "p: stint.contributes.endpoint: There is no such key. Did you mean \"endpoints\"?"],
  [
    "an unknown setting",
    { endpoints: { a: { handler: "./main.js", workrs: {} } } },
    "p: stint.contributes.endpoints.a.workrs: There is no such key. Did you mean \"workers\"?"
  ],
  [
    "an unknown setting of a group",
    { endpoints: { a: { handler: "./main.js", workers: { mx: 1 } } } },
    "p: stint.contributes.endpoints.a.workers.mx: There is no such key. Did you mean \"max\"?"
  ],
  [
    "an unknown key of a kind",
    { stepKinds: { "p.a": { ...kind, exprt: 1 } } },
    "p: stint.contributes.stepKinds.p.a.exprt: There is no such key. Did you mean \"export\"?"
  ],
  ["no handler", { endpoints: { a: {} } }, "p: stint.contributes.endpoints.a.handler: Missing key"],
  [
    "a command",
    { endpoints: { a: { handler: "./main.js", command: ["x"] } } },
    "p: stint.contributes.endpoints.a.command: There is no such key."
  ],
  [
    "a secret",
    { endpoints: { a: { handler: "./main.js", env: { KEY: { secret: "stripe-key" } } } } },
    "p: stint.contributes.endpoints.a.env.KEY: a package may only set texts. The configuration grants secrets: { env: { KEY: { secret: \"NAME\" } } }"
  ],
  [
    "the token of a model",
    { endpoints: { a: { handler: "./main.js", modelToken: { secret: "hub" } } } },
    "p: stint.contributes.endpoints.a.modelToken: There is no such key."
  ],
  ["an invalid endpoint", { endpoints: { "a b": { handler: "./main.js" } } }, "an endpoint id is 1 to 63 letters"],
  ["an invalid kind", { stepKinds: { "a b": kind } }, "a kind's name is 1 to 100 letters"],
  [
    "an invalid export",
    { stepKinds: { "p.a": { ...kind, export: "a b" } } },
    "p: stint.contributes.stepKinds.p.a.export: expected the name of an export"
  ],
  [
    "a file that is not there",
    { endpoints: { a: { handler: "./lost.js" } } },
    "p: stint.contributes.endpoints.a.handler: PROJECT/node_modules/p/lost.js does not exist. Correct the path, or build the package."
  ],
  [
    "a file outside of the package",
    { endpoints: { a: { handler: "./../../x.js" } } },
    "p: stint.contributes.endpoints.a.handler: a file of the package starts with ./ and contains no .., for example \"./count.js\""
  ],
  [
    "TypeScript",
    { stepKinds: { "p.a": { ...kind, module: "./main.ts" } } },
    "p: stint.contributes.stepKinds.p.a.module: Node does not run TypeScript in node_modules: PROJECT/node_modules/p/main.ts. Publish JavaScript."
  ],
  [
    "a pipeline that is not JSON",
    { pipelines: ["./main.js"] },
    "p: stint.contributes.pipelines[0]: PROJECT/node_modules/p/main.js is not JSON: "
  ],
  [
    "a pipeline without a name",
    { pipelines: ["./words.pipeline.json"] },
    "p: stint.contributes.pipelines[0]: PROJECT/node_modules/p/words.pipeline.json has no name. Add \"name\", which is the id of its endpoint.",
    { "node_modules/p/words.pipeline.json": {} }
  ],
  [
    "a mistake in a pipeline",
    { pipelines: ["./words.pipeline.json"], stepKinds: { "p.split": kind } },
    "PROJECT/node_modules/p/words.pipeline.json: steps[0].use: There is no kind of step \"p.splt\". Did you mean \"p.split\"?",
    piped([{ name: "a", use: "p.splt" }])
  ],
  [
    "no time",
    { schedules: [{ endpoint: "mail", name: "nightly" }] },
    "p: stint.contributes.schedules[0]: cron: is missing: pass cron for a recurring schedule"
  ],
  [
    "an invalid time",
    { schedules: [{ endpoint: "mail", name: "nightly", cron: "often" }] },
    "p: stint.contributes.schedules[0]: cron: "
  ],
  [
    "a schedule of no endpoint",
    { schedules: [{ endpoint: "male", name: "nightly", cron: "@daily" }] },
    "p: The schedule \"nightly\" belongs to the endpoint \"male\", which neither the configuration nor a package defines."
  ],
  [
    "a schedule above the limits of its endpoint",
    {
      endpoints: { words: { handler: "./main.js", limits: { executionTimeout: "20 minutes" } } },
      schedules: [{
        endpoint: "words",
        name: "nightly",
        cron: "@daily",
        policy: { executionTimeout: 1_800_000 }
      }]
    },
    "p: The schedule \"nightly\" of the endpoint \"words\" asks for too much: policy.executionTimeout: 1800000 ms is above the maximum of this endpoint, 1200000 ms. Raise the limits of the endpoint in the configuration."
  ],
  [
    "the same name twice",
    { endpoints: { words: { handler: "./main.js" } }, pipelines: ["./words.pipeline.json"] },
    "p contributes the endpoint \"words\" twice. Rename one of them.",
    piped([{ name: "a", run: "mail" }])
  ]
]

describe("contributions", () => {
  const broken = BROKEN.map(([title, contributes, message, files = {}]) => ({ title, contributes, message, files }))

  it.each(broken)("with $title are refused, with their place", async ({ contributes, files, message }) => {
    const found = await mistakesOf(await project({ p: contributes }, files))
    expect(found.join("\n")).toContain(message)
    expect(found).toHaveLength(1)
  })

  it("of a broken package.json are refused", async () => {
    const folder = await project({ p: {} }, {
      "node_modules/p/package.json": { name: 1, stint: { contributes: {} } }
    })
    expect(await run(Contributions.read(folder))).toMatch(/node_modules\/p\/package\.json has mistakes: /)
  })

  it("of a package.json that is too large are refused before it is decoded", async () => {
    const folder = await project({ p: {} }, { "node_modules/p/package.json": " ".repeat(1_048_577) }, {
      stint: { plugins: ["p"] }
    })
    expect(await run(Contributions.read(folder))).toMatch(/node_modules\/p\/package\.json is larger than 1048576 bytes\./)
  })

  it.each([
    ["a list of dependencies", { name: "p", dependencies: [] }],
    ["a version that is no text", { name: "p", version: 1 }],
    ["no JSON", "{"],
    ["more bytes than are read", " ".repeat(1_048_577)]
  ])("are not searched for in a dependency that has none, even when its package.json has %s", async (_, manifest) => {
    const folder = await project({ p: {} }, { "node_modules/p/package.json": manifest })
    expect(await run(Contributions.read(folder))).toMatchObject({ packages: [] })
  })

  it.each([
    ["endpoint", { endpoints: { same: { handler: "./main.js" } } }, "same"],
    ["kind of step", { stepKinds: { "a.same": kind } }, "a.same"],
    ["schedule", { schedules: [{ endpoint: "mail", name: "nightly", cron: "@daily" }] }, "mail/nightly"]
  ])("of two packages with the same %s are refused, naming both packages", async (what, contributes, name) => {
    expect(await mistakesOf(await project({ p: contributes, q: contributes }))).toEqual([
      `p and q both contribute the ${what} "${name}". Name the packages to use in "stint": { "plugins": [...] } of your package.json.`
    ])
  })

  it("are those of the packages that the project names, if it names any", async () => {
    const contributes = { endpoints: { same: { handler: "./main.js" } } }
    const folder = await project({ p: contributes, q: contributes }, {}, { stint: { plugins: ["q"] } })
    expect(await run(Contributions.read(folder))).toMatchObject({ endpoints: [{ package: "q", name: "same" }] })
    const other = await project({ p: undefined }, {}, { stint: { plugins: ["p", "lost"] } })
    expect(await mistakesOf(other)).toEqual([
      "p: stint.plugins of PROJECT names it, but its package.json has no stint.contributes. Remove it there.",
      "lost: stint.plugins of PROJECT names it, but it is not installed. Run: npm install lost"
    ])
  })

  it("may also be the project's own, and a field of another program with the same name is ignored", async () => {
    const folder = await project({ p: {} }, {
      "node_modules/p/package.json": { name: "p", stint: { depth: 3 } },
      "main.js": LOADED
    }, {
      stint: { contributes: { stepKinds: { "shop.a": kind } } }
    })
    expect(await run(Contributions.read(folder))).toMatchObject({ kinds: [{ package: "shop", name: "shop.a" }] })
  })

  it("are empty for a folder without a package.json", async () => {
    const folder = join(root, "none")
    await mkdir(folder)
    expect(await run(Contributions.read(folder))).toMatchObject({ packages: [], endpoints: [] })
  })
})

const everything = {
  endpoints: { count: { handler: "./main.js", description: "Counts", workers: { min: 1, max: 2 }, ttl: "1 hour" } },
  stepKinds: { "p.split": kind },
  pipelines: ["./words.pipeline.json"],
  schedules: [{ endpoint: "words", name: "nightly", cron: "0 3 * * *", input: { text: "a" } }]
}

const pipelined = piped([{ name: "a", use: "p.split" }, { name: "b", run: "count" }])

describe("the project", () => {
  it("has the endpoints of its packages, and its configuration changes their settings", async () => {
    const folder = await project({ p: everything }, pipelined)
    await write(
      join(folder, "stint.config.mjs"),
      "export default { endpoints: { count: { workers: { max: 8 } }, words: { maxAttempts: 5 } } }"
    )
    const found = await run(Project.load(join(folder, "stint.config.mjs")))
    expect(found).toMatchObject({
      endpoints: [
        {
          id: "count",
          source: { type: "handler", file: join(folder, "node_modules/p/main.js") },
          workers: { max: 8 },
          ttlMs: 3_600_000
        },
        { id: "words", source: { type: "handler", file: join(folder, "node_modules/.stint/words.mjs") }, maxAttempts: 5 }
      ],
      schedules: [{ package: "p", endpoint: "words", name: "nightly", spec: { cron: "0 3 * * *", tags: ["plugin:p"] } }]
    })
    const module = await readFile(join(folder, "node_modules/.stint/words.mjs"), "utf8")
    expect(module).toContain("import file from \"../p/words.pipeline.json\" with { type: \"json\" }")
    expect(module).toContain("import * as kind0 from \"../p/main.js\"")
  })

  it("keeps the package's settings that its configuration does not name, including those in groups", async () => {
    const contributed = {
      handler: "./main.js",
      workers: { min: 1, idleTimeout: "1 hour" },
      env: { MODEL: "small", LEVEL: "info" },
      limits: { priority: 3 },
      retry: { onError: true },
      rateLimit: { limit: 5, per: "1 second", concurrent: 2 }
    }
    const folder = await project({ p: { endpoints: { count: contributed } } })
    const config = join(folder, "stint.config.mjs")
    const changes = {
      workers: { max: 8 },
      env: { LEVEL: "debug", KEY: { secret: "stripe-key" } },
      limits: { waitingJobs: 10 },
      retry: { maxAttempts: 4 },
      rateLimit: { limit: 9, per: "1 second" }
    }
    await write(config, `export default { endpoints: { count: ${JSON.stringify(changes)} } }`)
    const changed = await run(Project.load(config))
    const whole = {
      handler: join(folder, "node_modules/p/main.js"),
      workers: { min: 1, max: 8, idleTimeout: "1 hour" },
      env: { MODEL: "small", LEVEL: "debug", KEY: { secret: "stripe-key" } },
      limits: { priority: 3, waitingJobs: 10 },
      retry: { onError: true, maxAttempts: 4 },
      rateLimit: { limit: 9, per: "1 second", concurrent: 2 }
    }
    const other = await project({}, { "stint.config.mjs": `export default { endpoints: { count: ${JSON.stringify(whole)} } }` })
    expect(changed).toEqual(await run(Project.load(join(other, "stint.config.mjs"))))
    expect(changed).toMatchObject({ endpoints: [{ workers: { min: 1, max: 8 } }] })
  })

  it("may not change the source of an endpoint that a package contributes", async () => {
    const folder = await project({ p: everything }, pipelined)
    await write(join(folder, "stint.config.mjs"), "export default { endpoints: { count: { external: true } } }")
    expect(await run(Project.load(join(folder, "stint.config.mjs")))).toMatch(
      /^The endpoint "count" of the configuration is also contributed by p\.\nRename it\./
    )
  })

  it("has its own pipeline files, whose names are those of their endpoints", async () => {
    const folder = await project({ p: { stepKinds: { "p.split": kind } } }, {
      "x.pipeline.json": { name: "x", steps: [{ name: "a", use: "p.split" }] }
    })
    const config = (name: string) =>
      write(join(folder, `${name}.mjs`), `export default { endpoints: { ${name}: { pipeline: "./x.pipeline.json" } } }`)
    await config("x")
    await config("y")
    expect(await run(Project.load(join(folder, "x.mjs")))).toMatchObject({
      endpoints: [{ id: "x", source: { type: "handler" } }]
    })
    expect(await run(Project.load(join(folder, "y.mjs")))).toContain(
      "name: The name is \"x\", but the configuration calls the endpoint \"y\". Use the same name in both."
    )
  })

  it("has a separate module for each file, because configurations in one folder may give the same endpoint different files", async () => {
    const file = (step: string) => ({ name: "x", steps: [{ name: step, sleep: "1 day" }] })
    const config = (file: string) => `export default { endpoints: { x: { pipeline: "./${file}/x.pipeline.json" } } }`
    const folder = await project({}, {
      "a/x.pipeline.json": file("a"),
      "b/x.pipeline.json": file("b"),
      "a.mjs": config("a"),
      "b.mjs": config("b")
    })
    const modules = join(folder, "node_modules/.stint")
    await Promise.all(["a.mjs", "b.mjs", "a.mjs"].map((name) => run(Project.load(join(folder, name)))))
    const found = await readdir(modules)
    expect(found.map((name) => name.replace(/[0-9a-f]{8}/, "HASH"))).toEqual(["x-HASH.mjs", "x-HASH.mjs"])
    const texts = await Promise.all(found.map((name) => readFile(join(modules, name), "utf8")))
    expect(new Set(texts.map((text) => /from "([^"]*json)"/.exec(text)?.[1]))).toEqual(
      new Set(["../../a/x.pipeline.json", "../../b/x.pipeline.json"])
    )
  })

  it("loads only the kinds that a pipeline uses, including those in its parts", () => {
    const steps = [{ name: "a", all: { x: [{ name: "b", use: "p.b" }] } }, { name: "c", run: "d", input: { use: "p.d" } }]
    expect([...PipelineModule.kindsIn({ name: "x", steps })]).toEqual(["p.b"])
  })

  it("loads the kinds of streams", () => {
    const steps = [{ name: "a", stream: "p.a" }, { name: "b", branch: "${a}", parts: { stream: [{ name: "c", stream: "p.c" }] } }]
    expect([...PipelineModule.kindsIn({ name: "x", steps })]).toEqual(["p.a", "p.c"])
  })

  it("loads the kinds of parts whatever the parts are called", () => {
    const part = (use: string) => [{ name: use.slice(2), use }]
    const steps = [{ name: "a", all: { input: part("p.a"), with: part("p.b"), use: [{ name: "c", all: { all: part("p.c") } }] } }]
    expect([...PipelineModule.kindsIn({ name: "x", input: { use: "p.d" }, steps })]).toEqual(["p.a", "p.b", "p.c"])
  })
})

describe("the schedules of packages", () => {
  const NOW = Date.parse("2026-11-23T05:00:00Z")
  const declared = { package: "p", endpoint: "words", name: "nightly", spec: { cron: "0 3 * * *", tags: ["plugin:p"] } } as never
  const stored = (spec: object) => ({ endpoint: "words", name: "nightly", spec, updatedBy: "Ada" }) as never

  it("are set when they are new or differ, and left alone when they are equal", () => {
    expect(SchedulePlan.make([], [declared], NOW)).toMatchObject({ set: [{ isNew: true }], own: [], undeclared: [] })
    expect(SchedulePlan.make([stored({ cron: "0 3 * * *", tags: ["plugin:p"] })], [declared], NOW)).toMatchObject({
      set: [],
      own: [],
      undeclared: []
    })
    expect(SchedulePlan.make([stored({ cron: "0 4 * * *", tags: ["plugin:p"] })], [declared], NOW)).toMatchObject({
      set: [{ isNew: false }]
    })
  })

  it("are not set when their only time has passed, because the platform refuses them", () => {
    const once = (at: number) => ({ package: "p", endpoint: "words", name: "once", spec: { at, tags: ["plugin:p"] } }) as never
    const storedOnce = (at: number) =>
      ({ endpoint: "words", name: "once", spec: { at, priority: 1, tags: ["plugin:p"] } }) as never
    const plan = SchedulePlan.make([], [once(NOW)], NOW)
    expect(plan).toMatchObject({ set: [], past: [{ name: "once" }] })
    expect(SchedulePlan.keptLines(plan)).toEqual([
      "The schedule \"once\" of words, from the package p, is not set: its time has passed."
    ])
    expect(SchedulePlan.make([], [once(NOW + 1)], NOW)).toMatchObject({ set: [{ isNew: true }], past: [] })
    expect(SchedulePlan.make([storedOnce(NOW - 1)], [once(NOW)], NOW)).toMatchObject({ set: [], past: [{}] })
    // The platform accepts other settings for a schedule whose time stays the same.
    expect(SchedulePlan.make([storedOnce(NOW)], [once(NOW)], NOW)).toMatchObject({ set: [{ isNew: false }], past: [] })
  })

  it("are kept when somebody has set them to something else", () => {
    const plan = SchedulePlan.make([stored({ cron: "0 4 * * *" })], [declared], NOW)
    expect(plan).toMatchObject({ set: [], own: [{ name: "nightly" }] })
    expect(SchedulePlan.keptLines(plan)).toEqual([
      "The schedule \"nightly\" of words is kept as Ada has set it. To use the package's version: stint schedules remove words nightly"
    ])
  })

  it("are listed and not removed when no package contributes them any more", () => {
    const plan = SchedulePlan.make([stored({ cron: "0 3 * * *", tags: ["plugin:p"] })], [], NOW)
    expect(plan).toMatchObject({ set: [], own: [], undeclared: [{ name: "nightly" }] })
    expect(SchedulePlan.keptLines(plan)[0]).toMatch(
      /^No package contributes the schedule "nightly" of words any longer\. It keeps firing\./
    )
    expect(SchedulePlan.make([stored({ cron: "0 3 * * *" })], [], NOW)).toMatchObject({ undeclared: [] })
  })
})

/** `stint plugins write` in its own process, because Vitest would resolve the imports of the package itself. */
const writeSchemas = async (folder: string): Promise<string> =>
  (await execute(process.execPath, [SOURCE, "plugins", "write", folder])).stdout

const CLI_ENV = { XDG_CONFIG_HOME: "/nonexistent" }

describe("the commands", () => {
  it("list contributions without loading any code of the packages", async () => {
    const folder = await project({ p: everything }, pipelined)
    const { code, stdout } = await runCommand(["plugins", "list", "--config", join(folder, "stint.config.mjs")], { env: CLI_ENV })
    expect(code).toBe(0)
    expect(stdout.split("\n").map((line) => line.replaceAll(/ {2,}/g, "  "))).toEqual([
      "PACKAGE  CONTRIBUTES  NAME  FROM",
      "p  endpoint  count  main.js  Counts",
      "p  stepKind  p.split  main.js Split",
      "p  pipeline  words  words.pipeline.json",
      "p  schedule  words nightly  0 3 * * *",
      ""
    ])
    const json = await runCommand(["plugins", "list", "--json", "--config", join(folder, "stint.config.mjs")], { env: CLI_ENV })
    expect(JSON.parse(json.stdout)).toMatchObject({
      packages: [{ name: "p", version: "1.2.3", contributes: [{ kind: "endpoint", name: "count" }, {}, {}, {}] }]
    })
    expect(Reflect.get(globalThis, "loadedContribution")).toBe(undefined)
  })

  it("check pipeline files and write their schema without loading any code of the packages", async () => {
    const folder = await project({ p: everything }, {
      ...pipelined,
      "bad.pipeline.json": { name: "x", steps: [{ name: "a", use: "p.spilt" }] }
    })
    const config = ["--config", join(folder, "stint.config.mjs")]
    const good = await runCommand(["pipelines", "check", join(folder, "node_modules/p/words.pipeline.json"), ...config], {
      env: CLI_ENV
    })
    expect(good).toMatchObject({ code: 0, stdout: `${join(folder, "node_modules/p/words.pipeline.json")}: no mistakes\n` })
    const bad = await runCommand(
      ["pipelines", "check", join(folder, "bad.pipeline.json"), join(folder, "lost.json"), ...config],
      { env: CLI_ENV }
    )
    expect(bad.code).toBe(1)
    expect(bad.stdout).toContain(
      `${join(folder, "bad.pipeline.json")}: steps[0].use: There is no kind of step "p.spilt". Did you mean "p.split"?`
    )
    expect(bad.stdout).toContain("lost.json does not exist. Correct the path.")
    expect(bad.stderr).toContain("2 mistakes.")
    const schema = await runCommand(["pipelines", "schema", ...config], { env: CLI_ENV })
    expect(schema.stdout).toContain("\"const\": \"p.split\"")
    expect(schema.stdout).toContain("\"mail\"")
    expect(Reflect.get(globalThis, "loadedContribution")).toBe(undefined)
  })

  it("write the schemas of a package's kinds, and those of the example are up to date", async () => {
    const folder = join(root, "words")
    await cp(WORDS, folder, { recursive: true })
    const manifest = JSON.parse(await readFile(join(folder, "package.json"), "utf8"))
    const stale = structuredClone(manifest)
    stale.stint.contributes.stepKinds["words.split"].input = { type: "number" }
    delete stale.stint.contributes.stepKinds["words.split"].options
    await write(join(folder, "package.json"), stale)
    expect(await writeSchemas(folder)).toContain("Wrote the schemas of words.split")
    expect(JSON.parse(await readFile(join(folder, "package.json"), "utf8"))).toEqual(manifest)
    expect(await writeSchemas(folder)).toContain("are up to date")
  })

  it("accept the example", async () => {
    const folder = await project({ "stint-plugin-words": undefined })
    await cp(WORDS, resolve(folder, "node_modules/stint-plugin-words"), { recursive: true })
    expect(await mistakesOf(folder)).toEqual([])
  })
})
