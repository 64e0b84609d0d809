/**
 * A project from its first deployment to a rollback, with the command line alone: a real platform, real workers, and a project from `stint init`.
 */
import { Release, ReleasePreview } from "@stint/contract/Release"
import * as Schema from "effect/Schema"
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { PlatformProcess, stint } from "./PlatformProcess.ts"

const Plan = Schema.Struct({
  endpoints: Schema.Array(Schema.Struct({
    endpoint: Schema.String,
    action: Schema.String,
    preview: Schema.optionalKey(ReleasePreview),
    release: Schema.optionalKey(Release)
  }))
})
const decodePlan = Schema.decodeUnknownSync(Schema.fromJsonString(Plan))
const decodeRelease = Schema.decodeUnknownSync(Schema.fromJsonString(Release))
const decodeList = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ releases: Schema.Array(Release) })))
const decodeError = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({
    error: Schema.Struct({ code: Schema.String, message: Schema.String, hint: Schema.optionalKey(Schema.String) })
  }))
)

let folder: string
let project: string
let platform: PlatformProcess

const config = () => join(project, "stint.config.ts")

const replaceIn = async (file: string, from: string, to: string) => {
  const path = join(project, file)
  const text = await readFile(path, "utf8")
  if (!text.includes(from)) throw new Error(`${file} does not contain ${from}`)
  await writeFile(path, text.replace(from, to))
}

const deploy = (...args: ReadonlyArray<string>) => stint(platform, ["deploy", "--config", config(), ...args])

/** The last line of standard error, which is the error with `--json`. */
const errorOf = ({ stderr }: { readonly stderr: string }) => decodeError(stderr.trimEnd().split("\n").at(-1) ?? "").error

const longest = async (text: string): Promise<unknown> => {
  const { output, status } = await platform.runSync("words", { text })
  expect(status).toBe("COMPLETED")
  return (output as { readonly longest: unknown }).longest
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "stint-deploy-"))
  project = join(folder, "app")
  const { code, stderr } = await stint(undefined, ["init", project])
  if (code !== 0) throw new Error(stderr)
  platform = await PlatformProcess.create(["serve"])
}, 300_000)

afterAll(async () => {
  await platform[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

// Each test continues where the previous one ended.

it("deploys a new project, and refuses without --yes if there is no terminal", async () => {
  const refused = await deploy()
  expect(refused.code).toBe(1)
  expect(refused.stdout).toMatch(/^words {2}new\n.*source\.file/s)
  expect(refused.stderr).toContain("Add --yes")
  expect((await platform.request("GET", "/api/v1/endpoints/words")).status).toBe(404)

  const { code, stdout } = await deploy("--yes", "-m", "First")
  expect(stdout).toMatch(/^words {2}new\n.*\nwords {2}release 1 is active\n$/s)
  expect(code).toBe(0)
  expect(await longest("to be")).toBe("to")
}, 300_000)

it("serves the deployed code, whatever happens to the files, until a change is deployed", async () => {
  await replaceIn("words.ts", "longest: all", "longest: \"second \" + all")
  await replaceIn("stint.config.ts", "max: 3", "max: 4")
  await replaceIn("stint.config.ts", "workers:", "env: { API_TOKEN: \"hunter2\" }, workers:")
  expect(await longest("to be")).toBe("to")

  const preview = await deploy("--json")
  expect(preview.code).toBe(1)
  expect(errorOf(preview).code).toBe("not-confirmed")
  const [planned] = decodePlan(preview.stdout).endpoints
  expect(planned).toMatchObject({ endpoint: "words", action: "change", preview: { active: 1, changes: true } })
  expect(planned?.preview?.code).toMatchObject({ added: [], removed: [], changed: ["words.ts"] })
  expect(planned?.preview?.settings).toContainEqual({ path: "workers.max", before: 3, after: 4 })

  const { code, stdout } = await deploy("--yes", "-m", "Say which")
  expect(stdout).toContain("  ~ workers.max    3 -> 4\n")
  expect(stdout).toContain("  + env.API_TOKEN  ********\n")
  expect(stdout).toContain("    ~ words.ts\n")
  expect(stdout).toMatch(/words {2}release 2 is active\n$/)
  expect(preview.stdout + stdout).not.toContain("hunter")
  expect(code).toBe(0)
  expect(await longest("to be")).toBe("second to")

  const again = await deploy()
  expect(again).toMatchObject({ code: 0, stdout: "words  no changes (release 2)\n\nNothing to deploy.\n" })
}, 300_000)

it("says why a release failed, exits with 1, and leaves the endpoint at the previous release", async () => {
  const before = await readFile(join(project, "handler.ts"), "utf8")
  await appendFile(join(project, "handler.ts"), "throw new Error(\"no model at /models/words\")\n")
  const failing = await deploy("--yes", "--json")
  expect(failing.code).toBe(1)
  const { code, hint, message } = errorOf(failing)
  expect([code, message]).toEqual([
    "release-failed",
    "Release 3 of \"words\" failed. The earlier release keeps serving."
  ])
  expect(hint).toContain("no model at /models/words")
  expect(await longest("to be")).toBe("second to")
  await writeFile(join(project, "handler.ts"), before)

  const { stdout } = await stint(platform, ["releases", "words"])
  const states = stdout.split("\n").filter((line) => /^\d/.test(line)).map((line) => line.split(/ +/).slice(0, 2))
  expect(states).toEqual([["3", "failed"], ["2", "active"], ["1", "superseded"]])
  expect(stdout).toContain("Release 3 failed: ")
  const shown = await stint(platform, ["releases", "show", "words", "3"])
  expect(shown.stdout).toContain("no model at /models/words")
  expect(shown.stdout).toContain("    ~ handler.ts\n")
}, 300_000)

it("deploys nothing when another deployment came in between", async () => {
  await replaceIn("stint.config.ts", "max: 4", "max: 5")
  const conflicting = await deploy("words", "--expected", "1", "--yes", "--json")
  expect(conflicting.code).toBe(1)
  expect(errorOf(conflicting)).toMatchObject({ code: "conflict", message: expect.stringContaining("at release 2, not 1") })
  await replaceIn("stint.config.ts", "max: 5", "max: 4")
}, 300_000)

it("rolls back to the stored code, even when the files are gone", async () => {
  await rm(join(project, "words.ts"))
  const { code, stdout } = await stint(platform, ["rollback", "words", "-m", "Too loud", "--yes"])
  expect(stdout).toContain("words  from release 2 back to release 1\n")
  expect(stdout).toContain("    ~ words.ts\n")
  expect(stdout).toMatch(/words {2}release 4 is active: release 1 again\n$/)
  expect(code).toBe(0)
  expect(await longest("to be")).toBe("to")

  const { releases } = decodeList((await stint(platform, ["releases", "words", "--json"])).stdout)
  expect(releases.map(({ number, state }) => [number, state])).toEqual([
    [4, "active"],
    [3, "failed"],
    [2, "superseded"],
    [1, "superseded"]
  ])
  expect(releases[0]).toMatchObject({ message: "Too loud", rollbackOf: 1 })
  const shown = decodeRelease((await stint(platform, ["releases", "show", "words", "2", "--json"])).stdout)
  expect(shown.settings.env).toEqual({ API_TOKEN: "********" })
  const back = await stint(platform, ["rollback", "words", "--to", "2", "--yes", "--json"])
  expect(decodeRelease(back.stdout)).toMatchObject({ number: 5, rollbackOf: 2, state: "active" })
  expect(await longest("to be")).toBe("second to")
}, 300_000)

it("keeps an endpoint that the configuration does not name, and removes it with --remove", async () => {
  await stint(platform, ["endpoints", "create", "old", "--external", "-m", "By hand"])
  const { id } = await platform.run("old", {}).then((id) => ({ id }))
  await writeFile(config(), "export default { endpoints: {} }\n")
  const kept = await deploy()
  expect(kept.code).toBe(0)
  expect(kept.stdout).toContain("old  not in the configuration: it is kept (--remove removes it)\n")
  const refused = await deploy("old", "--remove", "--yes", "--json")
  expect(refused.code).toBe(1)
  expect(errorOf(refused)).toMatchObject({ code: "conflict", message: expect.stringContaining("1 waiting") })
  await stint(platform, ["cancel", "old", id])
  const removed = await deploy("old", "--remove", "--yes", "--json")
  expect(decodePlan(removed.stdout).endpoints).toEqual([{ endpoint: "old", action: "remove" }])
  expect((await platform.request("GET", "/api/v1/endpoints/old")).status).toBe(404)
  expect((await platform.request("GET", "/api/v1/endpoints/words")).status).toBe(200)
}, 300_000)
