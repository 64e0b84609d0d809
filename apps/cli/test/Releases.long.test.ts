/**
 * Releases on a real platform process with real workers: what is saved is not what runs, until it is deployed.
 */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { PlatformProcess, stint, until } from "./PlatformProcess.ts"

/** The handler's folder, with Stint. */
const folder = mkdtempSync(join(tmpdir(), "stint-releases-"))
symlinkSync(resolve(import.meta.dirname, "../../../examples/node_modules"), join(folder, "node_modules"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = join(folder, "handler.ts")
const path = "/api/v1/endpoints/word/releases"

/** Saves a handler that returns this word. `start`: code that runs when it is imported. */
const save = (word: string, start = "") =>
  writeFileSync(
    file,
    `import * as sdk from "@stint/sdk"
${start}
sdk.serverless.start({ handler: () => Promise.resolve({ word: ${JSON.stringify(word)} }) })
`
  )

const spec = (more: object = {}) => ({ source: { type: "handler", file }, workers: { min: 1, max: 2 }, ...more })

const deploy = (platform: PlatformProcess, more: object = {}) => platform.request("POST", path, { spec: spec(more) })

const stateOf = async (platform: PlatformProcess, number: number) => {
  const { body } = await platform.request("GET", `${path}/${number}`)
  return typeof body === "object" && body !== null && "state" in body ? body : { state: undefined }
}

const inState = (platform: PlatformProcess, number: number, state: string) =>
  until(`release ${number} to be ${state}`, async () => {
    const release = await stateOf(platform, number)
    return release.state === state ? release : undefined
  }, 60_000)

const answer = async (platform: PlatformProcess) => (await platform.runSync("word", { a: 1 })).output

describe("releases", () => {
  it("deploys, keeps a saved file away from the jobs, stops a rollout that fails, and rolls back without the file", async () => {
    await using platform = await PlatformProcess.create(["serve"])
    save("one")
    expect(await deploy(platform)).toMatchObject({ status: 201, body: { number: 1, state: "active" } })
    expect(await answer(platform)).toEqual({ word: "one" })

    save("two")
    expect(await answer(platform)).toEqual({ word: "one" })

    // Jobs are submitted all the time while the workers are replaced.
    const seen: Array<unknown> = []
    const done = new AbortController()
    const submitting = Array.from({ length: 4 }, async () => {
      while (!done.signal.aborted) seen.push(await platform.runSync("word", { a: 1 }))
    })
    expect(await deploy(platform)).toMatchObject({ status: 201, body: { number: 2, state: "rolling" } })
    await inState(platform, 2, "active")
    await until(
      "only answers of the new release",
      () => seen.slice(-8).every((job) => JSON.stringify(job).includes("\"two\"")) && seen.length > 8 ? true : undefined,
      60_000
    )
    done.abort()
    await Promise.all(submitting)
    expect(seen.filter((job) => !JSON.stringify(job).includes("\"COMPLETED\""))).toEqual([])
    expect(seen.filter((job) => JSON.stringify(job).includes("retries"))).toEqual([])
    expect(await deploy(platform)).toMatchObject({ status: 200, body: { number: 2 } })

    save("three", "throw new Error(\"the model is missing\")")
    expect(await deploy(platform)).toMatchObject({ status: 201, body: { number: 3, state: "rolling" } })
    expect(await inState(platform, 3, "failed")).toMatchObject({ reason: expect.stringContaining("the model is missing") })
    expect(await answer(platform)).toEqual({ word: "two" })
    expect((await platform.request("GET", "/api/v1/endpoints/word")).body).toMatchObject({ release: 2 })

    rmSync(file)
    expect(await platform.request("POST", "/api/v1/endpoints/word/rollback")).toMatchObject({
      status: 201,
      body: { number: 4, rollbackOf: 1, state: "rolling" }
    })
    await inState(platform, 4, "active")
    await until(
      "an answer of the earlier release",
      async () => JSON.stringify(await answer(platform)) === JSON.stringify({ word: "one" }) ? true : undefined,
      60_000
    )

    // A restarted platform runs the same code, and so does one that is restored from a backup.
    await platform.end("SIGKILL")
    await platform.start()
    expect(await answer(platform)).toEqual({ word: "one" })
    const backup = join(folder, "backup.tar")
    expect(await stint(platform, ["backup", backup])).toMatchObject({ code: 0 })
    await using restored = await PlatformProcess.create(["serve"], {}, async (dataDir) => {
      expect(await stint(undefined, ["restore", backup], { STINT_DATA_DIR: dataDir })).toMatchObject({ code: 0 })
    })
    restored.key = platform.key
    expect(await answer(restored)).toEqual({ word: "one" })
  }, 180_000)

  it(
    "tells a waiting job why the workers of the first release crash, and when the next one starts, until a release works",
    async () => {
      await using platform = await PlatformProcess.create(["serve"])
      save("broken", "throw new Error(\"the model is missing\")")
      expect(await deploy(platform)).toMatchObject({ status: 201, body: { number: 1, state: "active" } })
      const id = await platform.run("word", { a: 1 })
      const explained = () =>
        until("the reason and the backoff", async () => {
          const { body } = await platform.request("GET", `/v2/word/status/${id}?explain`)
          const { explain } = body as {
            readonly explain: { readonly words: string; readonly cause?: string; readonly nextRetryAt?: number }
          }
          return explain.words.includes("workers fail to start") && explain.nextRetryAt !== undefined ? explain : undefined
        }, 60_000)
      const first = await explained()
      expect(first).toMatchObject({ reason: "failing", cause: expect.stringContaining("Error: the model is missing") })
      expect(first.words).toMatch(/the model is missing.* The next start is tried in \S+ m?s\.$/)
      // The next start fails, too.
      const starts = () => platform.output.match(/trying again in [\d.]+ s/g) ?? []
      await until("the second failed start", () => starts().length > 1 ? true : undefined, 60_000)
      expect((await explained()).cause).toContain("Error: the model is missing")

      save("repaired")
      expect(await deploy(platform)).toMatchObject({ status: 201, body: { number: 2 } })
      expect(await platform.ended("word", id)).toMatchObject({ status: "COMPLETED", output: { word: "repaired" } })
    },
    180_000
  )

  it("continues a rollout during which the platform was killed", async () => {
    await using platform = await PlatformProcess.create(["serve"])
    save("before")
    await deploy(platform)
    expect(await answer(platform)).toEqual({ word: "before" })
    const gate = join(folder, "gate")
    writeFileSync(gate, "")
    // The worker of the new release does not start while the gate is closed.
    save(
      "after",
      `import { existsSync } from "node:fs"; while (existsSync(${
        JSON.stringify(gate)
      })) await new Promise((next) => setTimeout(next, 20))`
    )
    expect(await deploy(platform)).toMatchObject({ body: { number: 2, state: "rolling" } })
    expect(await answer(platform)).toEqual({ word: "before" })
    await platform.end("SIGKILL")
    await platform.start()
    expect(await stateOf(platform, 2)).toMatchObject({ state: "rolling" })
    rmSync(gate)
    await inState(platform, 2, "active")
    await until(
      "an answer of the new release",
      async () => JSON.stringify(await answer(platform)) === JSON.stringify({ word: "after" }) ? true : undefined,
      60_000
    )
  }, 180_000)

  it("gives a canary some of the jobs, shows which release ran a job, and rolls back the canary whose jobs fail", async () => {
    await using platform = await PlatformProcess.create(["serve"])
    save("stable")
    await deploy(platform)
    expect(await answer(platform)).toEqual({ word: "stable" })
    const run = async (jobs: number) => {
      const answers: Array<string> = []
      for (let at = 0; at < jobs; at++) answers.push(JSON.stringify((await platform.runSync("word", { at })).output ?? null))
      return answers
    }
    const canary = { percent: 50, minJobs: 50 }
    const readyCanary = async (number: number) => {
      expect(await platform.request("POST", path, { spec: spec(), canary })).toMatchObject({ body: { number, state: "canary" } })
      // Its worker takes a job as soon as it is ready.
      await until("a job that the canary ran", async () => {
        await run(2)
        const { stdout } = await stint(platform, ["jobs", "list", "word", "--json"])
        return stdout.includes(`"release":${number}`) || stdout.includes(`"release": ${number}`) ? true : undefined
      }, 60_000)
    }
    save("better")
    await readyCanary(2)
    const seen = await run(40)
    expect(seen.filter((one) => one.includes("better")).length).toBeGreaterThan(0)
    expect(seen.filter((one) => one.includes("stable")).length).toBeGreaterThanOrEqual(20)
    expect((await stint(platform, ["releases", "word"])).stdout).toMatch(
      /Release 2 is a canary with 50 % of the jobs: 0 of \d+ attempts/
    )
    expect(await stint(platform, ["releases", "promote", "word", "--yes"])).toMatchObject({ code: 0 })
    await inState(platform, 2, "active")

    // Every job of this release fails.
    writeFileSync(
      file,
      `import * as sdk from "@stint/sdk"
sdk.serverless.start({ handler: () => { throw new Error("wrong") } })
`
    )
    await readyCanary(3)
    await until("the canary to be rolled back", async () => {
      await run(10)
      return (await stateOf(platform, 3)).state === "failed" ? true : undefined
    }, 120_000)
    expect(await stateOf(platform, 3)).toMatchObject({ reason: expect.stringMatching(/attempts \(100 %\)/) })
    await until(
      "only answers of the active release",
      async () => (await run(10)).every((one) => one.includes("better")) ? true : undefined,
      60_000
    )
  }, 240_000)
})
