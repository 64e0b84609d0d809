import { afterEach, describe, expect, it } from "@effect/vitest"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as PlatformStub from "../src/testing/PlatformStub.ts"
import * as WorkerProcess from "../src/testing/WorkerProcess.ts"

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url))

const opened: Array<() => Promise<unknown>> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const startStub = async (options: PlatformStub.Options = {}) => {
  const stub = await PlatformStub.start(options)
  opened.push(() => stub.down())
  return stub
}

const startWorker = (name: string, options: WorkerProcess.Options = {}) => {
  const worker = WorkerProcess.start(fixture(name), options)
  opened.push(async () => {
    worker.kill("SIGKILL")
    await worker.ended
  })
  return worker
}

const temporaryFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "stint-worker-"))
  opened.push(async () => rmSync(folder, { recursive: true }))
  return folder
}

// docs/spec/worker-protocol.md#heartbeat
describe("the heartbeat", () => {
  it.each(["PLATFORM_", "RUNPOD_"] as const)("is sent under %s while a handler blocks its thread", async (prefix) => {
    const stub = await startStub()
    startWorker("worker", { env: stub.environment({ prefix, pingIntervalMs: 100 }) })
    await stub.until(() => stub.of("ping").length > 0)
    const id = stub.submit({ do: "block", ms: 700 }, { id: "blocking", leaseToken: "1.token" })
    await stub.resultOf(id)
    const taken = stub.of("job-take").find(({ status }) => status === 200)?.at ?? Infinity
    const done = stub.of("job-done")[0]?.at ?? 0
    const beats = stub.of("ping").filter(({ at }) => at > taken && at < done)
    const naming = beats.filter(({ query, text }) =>
      prefix === "RUNPOD_" ? query["job_id"] === id : text.includes(`"job_id":["${id}"]`)
    )
    expect(naming.length).toBeGreaterThanOrEqual(4)
    const [beat] = naming
    expect(beat).toMatchObject({ method: prefix === "RUNPOD_" ? "GET" : "POST", worker: "stub-worker" })
    expect(beat?.headers["authorization"]).toBe("stub-key")
    if (prefix === "RUNPOD_") expect(beat?.query["lease_token"]).toBe("1.token")
    else expect(beat?.text).toContain("\"lease_token\":[\"1.token\"]")
    expect(prefix === "RUNPOD_" ? beat?.query["runpod_version"] : JSON.parse(beat?.text ?? "").runpod_version).toBe("0.0.0")
    // An idle worker names no job.
    const so = stub.of("ping").length
    await stub.until(() => stub.of("ping").length >= so + 2)
    expect(stub.of("ping").at(-1)?.query["job_id"]).toBeUndefined()
    expect(stub.of("ping").at(-1)?.text).not.toMatch(/job_id|lease_token/)
    expect(stub.of("ping").at(-1)?.query["lease_token"]).toBeUndefined()
  })

  it("is sent by all workers when the clock is a multiple of 250 ms", async () => {
    const stub = await startStub()
    const workers = ["one", "two", "three", "four"]
    for (const worker of workers) startWorker("worker", { env: stub.environment({ worker, pingIntervalMs: 1_000 }) })
    const isAligned = (worker: string) => {
      const own = stub.of("ping").filter((ping) => ping.worker === worker).slice(-2)
      // The first is sent with the first take. A busy machine may delay the others.
      return own.length === 2 && own.every(({ at }) => at % 250 < 80)
    }
    await stub.until(() => workers.every(isAligned), 25_000)
  }, 30_000)

  it("continues after errors and cut connections, and logs once that it fails", async () => {
    const stub = await startStub()
    stub.failNext("ping", 2, 500)
    stub.dropNext("ping", 2)
    const worker = startWorker("worker", { env: stub.environment({ pingIntervalMs: 100 }) })
    await stub.until(() => stub.of("ping").filter(({ status }) => status === 200).length >= 2)
    worker.kill("SIGTERM")
    const { code, stdout } = await worker.ended
    expect(code).toBe(0)
    expect(stdout.match(/Heartbeats fail/g)).toHaveLength(1)
    expect(stdout.match(/Heartbeats succeed again/g)).toHaveLength(1)
  })
})

// docs/spec/worker-lifecycle.md#exit-codes
describe("the exit of the process", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("an idle worker exits at once with 0 after %s", async (signal) => {
    const stub = await startStub()
    const worker = startWorker("worker", { env: stub.environment() })
    await stub.until(() => stub.of("job-take").length === 1)
    worker.kill(signal)
    expect(await worker.ended).toMatchObject({ code: 0, signal: null, stderr: "" })
    expect(stub.of("ping").filter(({ text }) => text.includes("exiting"))).toHaveLength(1)
  })

  it("a running job is finished and delivered before the exit", async () => {
    const stub = await startStub()
    const worker = startWorker("worker", { env: stub.environment({ pingIntervalMs: 50 }) })
    const id = stub.submit({ do: "until SIGTERM" })
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes(id)))
    // The handler listens for the same signal, so it ends only after the worker has received it.
    worker.kill("SIGTERM")
    expect(await stub.resultOf(id)).toEqual({ output: "finished after SIGTERM" })
    const { code, stdout } = await worker.ended
    expect(code).toBe(0)
    expect(stdout).toContain("Stopping: SIGTERM.")
    expect(stub.of("job-take")).toHaveLength(1)
  })

  it("a second SIGTERM has no effect, and the job is still finished", async () => {
    const stub = await startStub()
    const worker = startWorker("worker", { env: stub.environment({ pingIntervalMs: 50 }) })
    const id = stub.submit({ do: "until the second SIGTERM" })
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes(id)))
    worker.kill("SIGTERM")
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes("exiting")))
    worker.kill("SIGTERM")
    expect(await stub.resultOf(id)).toEqual({ output: "finished after the second SIGTERM" })
    expect(await worker.ended).toMatchObject({ code: 0 })
  })

  it("a job that outlasts the grace period is interrupted and returned", async () => {
    const stub = await startStub()
    const worker = startWorker("worker", { env: { ...stub.environment({ pingIntervalMs: 50 }), PLATFORM_SHUTDOWN_GRACE: "100" } })
    const id = stub.submit({ do: "for ever" })
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes(id)))
    worker.kill("SIGTERM")
    const { code, stdout } = await worker.ended
    expect(code).toBe(0)
    expect(stdout).toMatch(/shutdown grace of 100 ms has ended/)
    const exitPings = stub.of("ping").filter(({ text }) => text.includes("exiting")).map(({ text }) => JSON.parse(text))
    expect(exitPings.map((exitPing) => exitPing.job_id)).toEqual([[id], undefined])
  })

  it("a second SIGINT ends the process at once", async () => {
    const stub = await startStub()
    const worker = startWorker("worker", { env: stub.environment({ pingIntervalMs: 50 }) })
    const id = stub.submit({ do: "for ever" })
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes(id)))
    worker.kill("SIGINT")
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes("exiting")))
    worker.kill("SIGINT")
    expect(await worker.ended).toMatchObject({ code: 130 })
  })

  it("a result that recycles the worker ends it with 0, and no further job is taken", async () => {
    const stub = await startStub()
    const worker = startWorker("worker", { env: stub.environment() })
    const first = stub.submit({ do: "refresh" })
    expect(await stub.resultOf(first)).toEqual({ output: { done: true }, stopPod: true })
    stub.submit({ do: "echo" })
    expect(await worker.ended).toMatchObject({ code: 0 })
    expect(stub.of("job-done")).toHaveLength(1)
  })

  it("an Effect handler's layers are built before the first take and closed after the last result", async () => {
    const stub = await startStub()
    const worker = startWorker("effect", { env: stub.environment() })
    const id = stub.submit({ name: "Ada" })
    expect(await stub.resultOf(id)).toEqual({ output: { greeting: "Hello, Ada!" } })
    worker.kill("SIGTERM")
    const { code, stdout } = await worker.ended
    expect(code).toBe(0)
    const lines = stdout.trim().split("\n").map((line): unknown => JSON.parse(line))
    const messages = [
      "Greeter opened.",
      "Worker stub-worker takes jobs of endpoint stub.",
      "Stopping: SIGTERM.",
      "Greeter closed."
    ]
    expect(lines.filter((line) => JSON.stringify(line).includes("INFO")))
      .toEqual(messages.map((message) => ({ requestId: null, message, level: "INFO" })))
  })
})

describe("a worker that cannot start", () => {
  it.each<[string, string, { readonly [name: string]: string }, RegExp]>([
    [
      "names the invalid variable",
      "worker",
      { PLATFORM_WEBHOOK_GET_JOB: "nowhere", PLATFORM_WEBHOOK_POST_OUTPUT: "http://a/job-done/$ID" },
      /^ERROR \| PLATFORM_WEBHOOK_GET_JOB is "nowhere", which is not an http or https address\.\n$/
    ],
    ["reports why its layer cannot be built", "broken", { PLATFORM_LOG_LEVEL: "ERROR" }, /^ERROR \| the model is not there\n$/]
  ])("%s", async (_name, name, env, expected) => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, "test_input.json"), `{"input":1}`)
    const { code, stderr, stdout } = await startWorker(name, { env, cwd: folder }).ended
    expect(code).toBe(1)
    expect(stdout).toMatch(expected)
    expect(stderr).toBe("")
  })
})

// docs/spec/local-test-mode.md#one-job
describe("local test mode", () => {
  const local = async (name: string, files: { readonly [name: string]: string }, args: ReadonlyArray<string> = []) => {
    const folder = temporaryFolder()
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
    return startWorker(name, { cwd: folder, args }).ended
  }

  it("runs test_input.json once, prints the result and exits with 0", async () => {
    const { code, stderr, stdout } = await local("effect", { "test_input.json": `{"input":{"name":"Ada"}}` })
    expect(stdout).toMatch(/^INFO \| Greeter opened\.$/m)
    expect(stdout).toMatch(/test-[0-9a-f-]{36}: COMPLETED\n\{\n {2}"greeting": "Hello, Ada!"\n\}\n/)
    expect(code).toBe(0)
    expect(stderr).toBe("")
  })

  it("--test_input replaces the file", async () => {
    const { code, stdout } = await local("worker", {}, ["--test_input", `{"input":{"do":"echo"}}`])
    expect(stdout).toMatch(/COMPLETED\n\{\n {2}"do": "echo"\n\}/)
    expect(code).toBe(0)
  })

  it("prints a failure with its traceback and exits with 1", async () => {
    const { code, stdout } = await local("worker", { "test_input.json": `{"input":{"do":"throw"}}` })
    expect(stdout).toMatch(/FAILED\nRangeError: far\n +at .*worker\.ts/)
    expect(code).toBe(1)
  })

  it.each<[string, { readonly [name: string]: string }, ReadonlyArray<string>, RegExp]>([
    ["a missing file", {}, [], /no test_input\.json in .*Create one.*--test_input/],
    ["a file that is not JSON", { "test_input.json": "{" }, [], /test_input\.json is not valid JSON/],
    ["a file without input", { "test_input.json": "{}" }, [], /key "input"/]
  ])("%s is reported with the remedy, and the exit code is 1", async (_name, files, args, expected) => {
    const { code, stdout } = await local("worker", files, args)
    expect(stdout).toMatch(/^ERROR \| /)
    expect(stdout).toMatch(expected)
    expect(code).toBe(1)
  })
})
