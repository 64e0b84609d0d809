import { afterEach, describe, expect, it } from "@effect/vitest"
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const handlers = fileURLToPath(new URL("./fixtures/handlers.ts", import.meta.url))

/** The automatic fitness checks pass on every test machine. */
const LENIENT = { PLATFORM_MIN_MEMORY_GB: "0.1", PLATFORM_MIN_DISK_PERCENT: "0.1" }

const opened: Array<() => Promise<unknown>> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const startStub = async () => {
  const stub = await PlatformStub.start()
  opened.push(() => stub.down())
  return stub
}

const startWorker = (form: string, args: ReadonlyArray<string> = [], env: { readonly [name: string]: string } = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "stint-sdk-"))
  opened.push(async () => rmSync(folder, { recursive: true }))
  const worker = WorkerProcess.start(handlers, { args: [form, ...args], env: { ...LENIENT, ...env }, cwd: folder })
  opened.push(async () => {
    worker.kill("SIGKILL")
    await worker.ended
  })
  return worker
}

// docs/spec/handler.md#generators, docs/spec/handler.md#start-configuration
describe("serverless.start on a platform", () => {
  it.each<[string, unknown, ReadonlyArray<number>]>([
    ["sync", { output: { doubled: 6 } }, []],
    ["async", { output: { doubled: 6 } }, []],
    ["generator", { output: [] }, [3, 2, 1]],
    ["async generator", { output: [3, 2, 1] }, [3, 2, 1]],
    ["Effect", { output: { doubled: 6 } }, []]
  ])("runs a handler of the form: %s", async (form, result, chunks) => {
    const stub = await startStub()
    startWorker(form, [], stub.environment())
    const id = stub.submit({ from: 3 })
    expect(await stub.resultOf(id)).toEqual(result)
    expect(stub.chunks(id)).toEqual(chunks.map((output) => ({ output })))
  })

  it.each<[string, unknown]>([
    ["setup of a function", "loaded"],
    ["setup of a generator", ["loaded"]],
    ["setup of several jobs at once", "loaded"],
    ["setup of a Handler", "loaded"]
  ])("runs the %s once, before the first job", async (form, output) => {
    const stub = await startStub()
    startWorker(form, [], stub.environment())
    expect(await stub.resultOf(stub.submit({}))).toEqual({ output })
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes(`"status":"setup","setup_timeout":420000`)))
  })

  it.each<[string, Record<string, string>, RegExp, string]>([
    ["setup that fails", {}, /The setup failed after \d+ ms: Error: no file \/models\/sd15\\n {4}at /, "no file /models/sd15"],
    ["setup that hangs", {}, /The setup failed after \d+ ms: it did not end within 0\.3 s/, "it did not end within 0.3 s"],
    ["setup that hangs", { PLATFORM_SETUP_TIMEOUT: "100" }, /it did not end within 0\.1 s/, "it did not end within 0.1 s"]
  ])("reports a %s, takes no job and exits with 1 (%o)", async (form, env, line, reason) => {
    const stub = await startStub()
    stub.submit("never taken")
    const { code, stdout } = await startWorker(form, [], { ...stub.environment(), ...env }).ended
    expect(code).toBe(1)
    expect(stdout).toMatch(line)
    expect(stdout).toContain("This worker takes no jobs and exits with code 1, because its setup failed.")
    if (form === "setup that hangs") expect(stdout).toContain("aborted\n")
    expect([...stub.of("job-take"), ...stub.of("job-take-batch")]).toEqual([])
    const reports = stub.of("ping").map(({ text }) => JSON.parse(text) as unknown)
    expect(reports).toContainEqual({ runpod_version: "0.0.0", status: "unhealthy", check: "setup", reason })
  })

  it("tells the platform about a setup that blocks its thread from the first statement", async () => {
    const stub = await startStub()
    startWorker("setup that blocks", [], stub.environment())
    await stub.until(() => stub.of("ping").length > 0)
    const announced = Date.now()
    await stub.until(() => [...stub.of("job-take"), ...stub.of("job-take-batch")].length > 0)
    expect(Date.now() - announced).toBeGreaterThan(2_000)
  })

  it("concurrency_modifier lets the worker run several jobs at once", async () => {
    const stub = await startStub()
    startWorker("two at once", [], stub.environment({ pingIntervalMs: 50 }))
    const ids = [stub.submit(1), stub.submit(2)]
    await stub.until(() => stub.of("ping").some(({ text }) => ids.every((id) => text.includes(id))))
  })

  it("a second call throws, and the first worker is unaffected", async () => {
    const stub = await startStub()
    const worker = startWorker("twice", [], stub.environment())
    expect(await stub.resultOf(stub.submit(1))).toEqual({ output: "the first" })
    expect(worker.stdout()).toMatch(/^Error: serverless\.start was called twice\. One process runs one worker/)
  })

  it("starts no worker with import.meta when another program imports the module, and starts one when it is the program", async () => {
    const stub = await startStub()
    const runFile = (name: string) => {
      const file = fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url))
      const worker = WorkerProcess.start(file, { env: { ...LENIENT, ...stub.environment() } })
      opened.push(async () => {
        worker.kill("SIGKILL")
        await worker.ended
      })
      return worker
    }
    expect(await runFile("importer").ended).toMatchObject({ code: 0, stdout: "42\n", stderr: "" })
    expect(stub.of("job-take")).toEqual([])
    runFile("importable")
    expect(await stub.resultOf(stub.submit(3))).toEqual({ output: 6 })
  })

  it("refresh_worker ends the worker after its first job", async () => {
    const stub = await startStub()
    const worker = startWorker("fresh each time", [], stub.environment())
    expect(await stub.resultOf(stub.submit(1))).toEqual({ output: "done", stopPod: true })
    expect(await worker.ended).toMatchObject({ code: 0 })
  })

  it("ignores jobs_fetcher and jobs_handler with one WARN line", async () => {
    const stub = await startStub()
    const worker = startWorker("overrides", [], stub.environment())
    expect(await stub.resultOf(stub.submit(1))).toEqual({ output: "the handler" })
    expect(worker.stdout().split("\n").filter((line) => line.includes(`"level":"WARN"`))).toEqual([
      JSON.stringify({
        requestId: null,
        message: "jobs_fetcher and jobs_handler are for local test mode only and are ignored here.",
        level: "WARN"
      })
    ])
  })
})

// docs/spec/local-test-mode.md#one-job
describe("serverless.start in local test mode", () => {
  it.each(["sync", "async", "Effect"])("runs a handler of the form: %s", async (form) => {
    const { code, stdout } = await startWorker(form, ["--test_input", `{"input":{"from":3}}`]).ended
    expect(stdout).toMatch(/COMPLETED\n\{\n {2}"doubled": 6\n\}\n/)
    expect(code).toBe(0)
  })

  it("runs the setup, and exits with 1 when it fails", async () => {
    const loaded = await startWorker("setup of a function", ["--test_input", `{"input":{}}`]).ended
    expect(loaded).toMatchObject({ code: 0, stdout: expect.stringContaining(`COMPLETED\n"loaded"`) })
    const failed = await startWorker("setup that fails", ["--test_input", `{"input":{}}`]).ended
    expect(failed).toMatchObject({ code: 1, stdout: expect.stringContaining("The setup failed after") })
    expect(failed.stdout).not.toContain("COMPLETED")
  })

  it.each(["generator", "async generator"])("does not consume a %s, and names --rp_serve_api", async (form) => {
    const { code, stdout } = await startWorker(form, ["--test_input", `{"input":{"from":3}}`]).ended
    expect(stdout).toMatch(/COMPLETED\nThe handler is a generator.*--rp_serve_api/)
    expect(stdout).not.toContain("3,")
    expect(code).toBe(0)
  })

  it("jobs_fetcher returns the jobs and jobs_handler runs them", async () => {
    const { code, stdout } = await startWorker("overrides").ended
    expect(stdout).toMatch(/COMPLETED\n\{\n {2}"handled": 1\n\}\ntest-[^\n]*COMPLETED\n\{\n {2}"handled": "second"\n\}/)
    expect(code).toBe(0)
  })
})

describe("log", () => {
  const lines = async (env: { readonly [name: string]: string }) =>
    (await startWorker("log", [], env).ended).stdout.trim().split("\n")

  it("writes DEBUG and above in the runtime's text format", async () => {
    expect(await lines({})).toEqual([
      "INFO | token: k*****d",
      "INFO | pin: 1***5",
      "INFO | login: {***********}",
      "INFO | absent: n**l",
      `DEBUG | {"n":1}`,
      "INFO | hello",
      "WARN | careful",
      "ERROR | it broke"
    ])
  })

  it("writes the runtime's JSON format on a platform, and applies the log level", async () => {
    expect(await lines({ RUNPOD_ENDPOINT_ID: "ep", RUNPOD_LOG_LEVEL: "info" })).toEqual([
      `{"requestId":null,"message":"token: k*****d","level":"INFO"}`,
      `{"requestId":null,"message":"pin: 1***5","level":"INFO"}`,
      `{"requestId":null,"message":"login: {***********}","level":"INFO"}`,
      `{"requestId":null,"message":"absent: n**l","level":"INFO"}`,
      `{"requestId":"job-1","message":"hello","level":"INFO"}`,
      `{"requestId":null,"message":"careful","level":"WARN"}`,
      `{"requestId":null,"message":"it broke","level":"ERROR"}`
    ])
  })
})
