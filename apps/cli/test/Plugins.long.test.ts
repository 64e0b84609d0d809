/**
 * The example of a plugin package, on a real platform: packed with npm and installed in an empty project outside the repository.
 */
import { execFile } from "node:child_process"
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { promisify } from "node:util"
import { afterAll, beforeAll, expect, it } from "vitest"
import { EXAMPLES, PlatformProcess } from "./PlatformProcess.ts"

const execute = promisify(execFile)
const WORDS = join(EXAMPLES, "plugins/words")
const BIN = join(import.meta.dirname, "../src/bin.ts")

/** A limit for waits that only a broken platform reaches. Milliseconds. */
const GENEROUS = 120_000

let root = ""
let project = ""
let marker = ""

/** `npm` without the network: the package has no dependencies, and its peers are the platform's own. */
const npm = (folder: string, ...args: ReadonlyArray<string>) =>
  execute("npm", [...args, "--offline", "--legacy-peer-deps", "--no-audit", "--no-fund", "--ignore-scripts"], { cwd: folder })

const stint = (...args: ReadonlyArray<string>) =>
  execute(process.execPath, [BIN, ...args], { cwd: project, env: { ...process.env, XDG_CONFIG_HOME: join(root, "config") } })

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "stint-plugin-e2e-"))
  project = join(root, "shop")
  marker = join(root, "loaded")
  await mkdir(project)
  await npm(WORDS, "pack", "--pack-destination", root)
  const tarball = (await readdir(root)).find((name) => name.endsWith(".tgz"))
  await writeFile(join(project, "package.json"), JSON.stringify({ name: "shop", private: true, type: "module" }))
  await npm(project, "install", join(root, tarball ?? ""))
  await writeFile(join(project, "stint.config.ts"), "export default { endpoints: {} }\n")
  // Every load of the kinds' module leaves a line, so that the test sees which processes loaded it.
  const kinds = join(project, "node_modules/stint-plugin-words/kinds.js")
  await writeFile(
    kinds,
    `import { appendFileSync } from "node:fs"\nappendFileSync(${
      JSON.stringify(marker)
    }, process.argv[1] + "\\n")\n${await readFile(kinds, "utf8")}`
  )
}, GENEROUS)

afterAll(() => rm(root, { recursive: true, force: true }))

const loads = async (): Promise<ReadonlyArray<string>> =>
  (await readFile(marker, "utf8").catch(() => "")).split("\n").filter((line) => line !== "")

it("lists and checks the installed package without loading it", async () => {
  expect((await stint("plugins", "list")).stdout).toMatch(/stint-plugin-words +stepKind +words\.split +kinds\.js Split/)
  expect((await stint("pipelines", "check", "node_modules/stint-plugin-words/words.pipeline.json")).stdout).toContain(
    "no mistakes"
  )
  expect(await loads()).toEqual([])
}, GENEROUS)

it("runs its endpoint, its pipeline and its schedule, and loads its kinds in the pipeline's worker alone", async () => {
  await using platform = await PlatformProcess.create(
    ["serve", "--config", join(project, "stint.config.ts")],
    {},
    () => Promise.resolve(),
    project
  )
  const counted = await platform.run("words-count", { words: ["a", "long", "b"] })
  expect(await platform.ended("words-count", counted)).toMatchObject({
    status: "COMPLETED",
    output: { count: 3, longest: "long" }
  })
  expect(await loads()).toEqual([])

  const words = await platform.run("words", { text: "to be or not" })
  expect(await platform.ended("words", words)).toMatchObject({ status: "COMPLETED", output: { count: 4, longest: "not" } })
  expect((await loads()).length).toBeGreaterThan(0)
  // A worker runs the module of the pipeline, or its bundle.
  for (const program of await loads()) expect(program).toMatch(/worker\.mjs$|node_modules\/\.stint\/words\.mjs$/)

  const wrong = await platform.run("words", { txt: "to be" })
  expect((await platform.ended("words", wrong)).status).toBe("FAILED")

  const schedule = "/api/v1/endpoints/words/schedules/nightly"
  const stored = async () => (await platform.request("GET", schedule)).body
  expect(await stored()).toMatchObject({
    spec: { cron: "0 3 * * *", tags: ["plugin:stint-plugin-words"] },
    updatedBy: "package stint-plugin-words"
  })
  const { body } = await platform.request("POST", `${schedule}/run-now`)
  expect(await platform.ended("words", String(Reflect.get(Object(body), "id")))).toMatchObject({
    status: "COMPLETED",
    output: { count: 6, longest: "not" }
  })

  // Its state is kept: a pause, and a schedule that the package no longer contributes.
  await platform.request("POST", `${schedule}/pause`)
  await platform.end("SIGTERM")
  const file = join(project, "node_modules/stint-plugin-words/package.json")
  const manifest = JSON.parse(await readFile(file, "utf8"))
  const nightly = manifest.stint.contributes.schedules[0]
  manifest.stint.contributes.schedules = [{ ...nightly, cron: "0 4 * * *" }]
  await writeFile(file, JSON.stringify(manifest))
  await platform.start()
  expect(await stored()).toMatchObject({ paused: true, spec: { cron: "0 4 * * *" } })
  await platform.end("SIGTERM")
  manifest.stint.contributes.schedules = []
  await writeFile(file, JSON.stringify(manifest))
  await platform.start()
  expect(await stored()).toMatchObject({ paused: true, spec: { cron: "0 4 * * *" } })
  expect(platform.output).toContain("No package contributes the schedule \"nightly\" of words any longer. It keeps firing.")
}, 4 * GENEROUS)
