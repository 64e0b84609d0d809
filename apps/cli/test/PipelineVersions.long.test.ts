/**
 * New releases of a pipeline with open runs, with the command line alone: what `pipelines diff` and `deploy` say beforehand, which runs continue,
 * which wait, and how the waiting ones are finished.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { PlatformProcess, stint, until } from "./PlatformProcess.ts"

const LIMIT = 120_000

let folder: string
let platform: PlatformProcess

/** Writes the handler of a release. `output`: the type of what `write` records. */
const write = (release: string, output: "String" | "Number") =>
  writeFile(
    join(folder, "letters.ts"),
    `import { Pipeline } from "@stint/pipelines"
import * as Schema from "effect/Schema"

const Letters = Pipeline.make("letters", { input: Schema.String })
  .step("write", () => ${output === "String" ? "\"Dear Ada\"" : "42"}, { output: Schema.${output} })
  .waitFor("approved", Schema.Json, { key: ({ input }) => input })
  ${release === "1" ? "" : ".step(\"stamp\", () => \"stamped\")"}
  .step("post", () => "posted by release ${release}")
  .end(Schema.String)

Pipeline.launch(Letters)
`
  )

const config = () => join(folder, "stint.config.mjs")

const ok = async (...args: ReadonlyArray<string>): Promise<string> => {
  const { code, stderr, stdout } = await stint(platform, args)
  expect(code, `${stdout}${stderr}`).toBe(0)
  return stdout
}

const deploy = () => ok("deploy", "--config", config(), "--yes")

/** Starts a run that waits for its event. */
const started = async (key: string): Promise<string> => {
  const id = await platform.run("letters", key)
  await until(`run ${key} to wait`, async () => {
    const { body } = await platform.request("GET", `/v2/letters/steps/${id}`)
    return JSON.stringify(body).includes("\"event\"") ? true : undefined
  }, LIMIT)
  return id
}

const approve = (key: string) => ok("pipelines", "event", "letters", "approved", "--key", key)

const heldWords = (id: string): Promise<string> =>
  until(`run ${id} to be held`, async () => {
    const { body } = await platform.request("GET", `/v2/letters/status/${id}?explain`)
    const { explain } = body as { readonly explain: { readonly reason: string; readonly words: string } }
    return explain.reason === "held" ? explain.words : undefined
  }, LIMIT)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "stint-versions-"))
  await writeFile(
    config(),
    `export default { endpoints: { letters: { handler: "./letters.ts", workers: { max: 1, idleTimeout: "5 minutes" } } } }\n`
  )
  await write("1", "String")
  platform = await PlatformProcess.create(["serve"])
  await deploy()
}, LIMIT)

afterAll(async () => {
  await platform[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

// Each test continues where the previous one ended.

it("continues runs whose recorded steps are the same, and says so beforehand", async () => {
  const ada = await started("ada")
  expect(await ok("pipelines", "list")).toMatch(/letters +1 +0 +[0-9a-f]{12}/)
  await write("2", "String")
  expect(await ok("pipelines", "diff", "--config", config())).toBe(
    "letters  1 open run: 1 would continue, 0 would wait\n  added: stamp\n"
  )
  expect(await deploy()).toContain("Open runs of pipelines:\nletters  1 open run: 1 would continue, 0 would wait")
  await approve("ada")
  expect(await platform.ended("letters", ada, LIMIT)).toMatchObject({ status: "COMPLETED", output: "posted by release 2" })
}, 2 * LIMIT)

it("makes a run wait whose recorded step has changed, and the previous release finishes it", async () => {
  const bob = await started("bob")
  await write("3", "Number")
  const diff = await ok("pipelines", "diff", "letters", "--config", config())
  expect(diff).toContain("letters  1 open run: 0 would continue, 1 would wait")
  expect(diff).toContain(
    `  write  changed: 1 would wait, for example ${bob}. The run has recorded the output of the node "write"`
  )
  await deploy()
  await approve("bob")
  const words = await heldWords(bob)
  expect(words).toContain("the output of the node \"write\", whose type is different")
  expect(words).toContain("stint rollback letters")
  expect(await ok("pipelines", "steps", "letters", bob)).toContain("held     The run has recorded the output of the node")
  expect(await ok("pipelines", "list")).toMatch(/letters +1 +1 /)
  await ok("rollback", "letters", "--yes")
  expect(await platform.ended("letters", bob, LIMIT)).toMatchObject({ status: "COMPLETED", output: "posted by release 2" })
}, 2 * LIMIT)

it("continues a waiting run with the new release from the changed step", async () => {
  const cleo = await started("cleo")
  await deploy()
  await approve("cleo")
  await heldWords(cleo)
  await ok("jobs", "retry", "letters", cleo, "--from", "write")
  await until("the wait to be recorded again", async () => {
    const { body } = await platform.request("GET", `/v2/letters/steps/${cleo}`)
    const text = JSON.stringify(body)
    return text.includes("\"output\":42") && text.includes("\"state\":\"open\"") ? true : undefined
  }, LIMIT)
  await approve("cleo")
  expect(await platform.ended("letters", cleo, LIMIT)).toMatchObject({ status: "COMPLETED", output: "posted by release 3" })
}, 2 * LIMIT)

it("follows a run in the terminal, a line for each change, and draws it", async () => {
  const running = stint(platform, ["pipelines", "run", "letters", "--input", "\"dora\""])
  await until("the event to be delivered", async () => {
    const { body } = await platform.request("POST", "/v2/letters/events", { name: "approved", key: "dora", id: "dora" })
    return JSON.stringify(body).includes("\"delivered\":\"") || JSON.stringify(body).includes("duplicate") ? true : undefined
  }, LIMIT)
  const { code, stdout } = await running
  expect(code).toBe(0)
  expect(stdout).toContain("write  step  completed\n")
  expect(stdout).toContain("post  step  completed\n")
  expect(stdout).toContain("status   COMPLETED")
  expect(await ok("pipelines", "graph", "letters", "--svg", "-")).toContain("<title>approved: waitFor</title>")
  expect(await ok("pipelines", "show", "letters")).toMatch(/stamp +step +approved/)
}, LIMIT)

it("compares nothing for a handler that ends before it has sent its definition, and says why", async () => {
  await started("emil")
  await writeFile(join(folder, "letters.ts"), "throw new Error(\"no paper\")\n")
  const diff = await ok("pipelines", "diff", "--config", config())
  expect(diff).toContain("letters  1 open run, which could not be compared with the new definition.")
  expect(diff).toContain("its handler ended with exit code 1 before it had sent it. Error: no paper")
}, LIMIT)
