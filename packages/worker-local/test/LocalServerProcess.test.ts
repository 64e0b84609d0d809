import { afterEach, describe, expect, it } from "@effect/vitest"
import * as PlatformStub from "@stint/worker/testing/PlatformStub"
import * as WorkerProcess from "@stint/worker/testing/WorkerProcess"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url))

const opened: Array<() => Promise<unknown>> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const start = (name: string, options: WorkerProcess.Options = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "stint-local-"))
  const worker = WorkerProcess.start(fixture(name), { cwd: folder, ...options })
  opened.push(async () => {
    worker.kill("SIGKILL")
    await worker.ended
    rmSync(folder, { recursive: true })
  })
  return worker
}

/** Waits for output that matches the pattern, and returns the match. Rejects when the process ends without such output. */
const outputMatching = async (worker: WorkerProcess.WorkerProcess, pattern: RegExp): Promise<ReadonlyArray<string>> => {
  let ended = false
  const watch = worker.ended.finally(() => {
    ended = true
  })
  for (;;) {
    const found = pattern.exec(worker.stdout())
    if (found !== null) return found
    if (ended) throw new Error(`The process ended without ${String(pattern)}:\n${(await watch).stdout}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const serve = async (name: string, args: ReadonlyArray<string> = [], env: { readonly [name: string]: string } = {}) => {
  const worker = start(name, { args: ["--rp_serve_api", "--rp_api_port", "0", ...args], env })
  const [, url = "", line = ""] = await outputMatching(worker, /Local API at (\S+) .*?(curl .*)\n/)
  const post = async (path: string, value?: unknown): Promise<unknown> => {
    const response = await fetch(url + path, { method: "POST", ...(value === undefined ? {} : { body: JSON.stringify(value) }) })
    return response.json()
  }
  return { worker, url, line, post }
}

// docs/spec/local-test-mode.md#local-api
describe("a handler file with --rp_serve_api", () => {
  it.each([
    [undefined, true],
    ["debug", true],
    ["INFO", false],
    ["critical", false]
  ])("UVICORN_LOG_LEVEL=%s decides whether the server's own DEBUG lines are shown: %s", async (level, shown) => {
    const { post, worker } = await serve("local", [], level === undefined ? {} : { UVICORN_LOG_LEVEL: level })
    expect(await post("/runsync", { input: { from: 1 } })).toMatchObject({ status: "COMPLETED" })
    worker.kill("SIGINT")
    const { stdout } = await worker.ended
    expect(/^DEBUG \| .*: COMPLETED \(waited/m.test(stdout)).toBe(shown)
    // The worker's own lines have their own level.
    expect(stdout).toContain("INFO | Local API at")
  })

  it("UVICORN_LOG_LEVEL with an unknown level prevents the start, and the error lists the levels", async () => {
    const worker = start("local", { args: ["--rp_serve_api", "--rp_api_port", "0"], env: { UVICORN_LOG_LEVEL: "loud" } })
    const { code, stdout } = await worker.ended
    expect({ code, stdout }).toEqual({
      code: 1,
      stdout: "ERROR | UVICORN_LOG_LEVEL is \"loud\"; it must be one of critical, error, warning, info, debug, trace.\n"
    })
  })

  it("serves /run, /status, /stream and /runsync, and exits with 0 on Ctrl-C", async () => {
    const { post, url, worker } = await serve("local")
    expect(await post("/runsync", { input: { from: 2 } })).toMatchObject({ status: "COMPLETED", output: [2, 1] })
    const receipt = await post("/run", { input: { from: 3 } })
    const { id } = Object(receipt)
    expect(receipt).toEqual({ id: expect.stringMatching(/^test-/), status: "IN_PROGRESS" })
    expect(await post(`/status/${id}`)).toMatchObject({ id, status: "COMPLETED", output: [3, 2, 1] })
    expect(await post(`/stream/${id}`)).toMatchObject({
      status: "COMPLETED",
      stream: [{ output: 3 }, { output: 2 }, { output: 1 }]
    })
    expect((await fetch(`${url}/status/${id}`)).status).toBe(405)
    worker.kill("SIGINT")
    const { code, stderr, stdout } = await worker.ended
    expect(code).toBe(0)
    expect(stderr).toBe("")
    expect(stdout).toMatch(/^INFO \| Stopping: SIGINT\.$/m)
  })

  it("prints a curl command that works when pasted", async () => {
    const { line } = await serve("worker")
    const text = await new Promise<string>((resolve, reject) => {
      const shell = spawn("sh", ["-c", line], { stdio: ["ignore", "pipe", "ignore"] })
      let all = ""
      shell.stdout.setEncoding("utf8").on("data", (part: string) => {
        all += part
      })
      shell.on("error", reject)
      shell.on("close", () => resolve(all))
    })
    expect(JSON.parse(text)).toMatchObject({ status: "COMPLETED", output: { name: "Ada" } })
  })

  it("finishes the running job on Ctrl-C, responds to its caller, and exits with 0", async () => {
    const { post, url, worker } = await serve("worker")
    const { id } = Object(await post("/run", { input: { do: "until SIGTERM" } }))
    await expect(post(`/status/${id}?wait=0`)).resolves.toMatchObject({ status: "IN_PROGRESS" })
    const waiting = post(`/status/${id}`)
    // When a later request on another connection has received its response, the server has received the call above.
    for (let n = 0; n < 3; n++) await fetch(`${url}/health`)
    worker.kill("SIGTERM")
    expect(await waiting).toMatchObject({ status: "COMPLETED", output: "finished after SIGTERM" })
    expect((await worker.ended).code).toBe(0)
  })

  it("continues after a result that requests a fresh worker", async () => {
    const { post, worker } = await serve("worker")
    expect(await post("/runsync", { input: { do: "refresh" } })).toMatchObject({ status: "COMPLETED", output: { done: true } })
    expect(await post("/runsync", { input: { do: "echo" } })).toMatchObject({ output: { do: "echo" } })
    expect(worker.stdout()).toMatch(/^INFO \| The handler asked for a fresh worker\./m)
  })

  it("ignores the variables of a platform with a WARN line and does not contact it", async () => {
    const stub = await PlatformStub.start()
    opened.push(() => stub.down())
    stub.submit({ do: "echo" })
    const { post, worker } = await serve("worker", [], stub.environment({ prefix: "RUNPOD_" }))
    expect(await post("/runsync", { input: { do: "echo" } })).toMatchObject({ status: "COMPLETED" })
    expect(worker.stdout()).toMatch(/RUNPOD_WEBHOOK_GET_JOB is ignored/)
    expect(stub.requests).toEqual([])
  })

  it("exits with 1 and one line that says what to do when the port is in use", async () => {
    const { url } = await serve("worker")
    const { port } = new URL(url)
    const { code, stderr, stdout } = await start("worker", { args: ["--rp_serve_api", `--rp_api_port=${port}`] }).ended
    expect(stdout).toBe(
      `ERROR | Port ${port} of 127.0.0.1 is in use. Stop the other program, or pass --rp_api_port with another port (0 selects a free one).\n`
    )
    expect(stderr).toBe("")
    expect(code).toBe(1)
  })

  it("exits with 1 and one line that names an invalid flag", async () => {
    const { code, stdout } = await start("worker", { args: ["--rp_serve_api", "--rp_api_port", "http"] }).ended
    expect(stdout).toBe("ERROR | --rp_api_port is \"http\"; it must be a whole number from 0 to 65535.\n")
    expect(code).toBe(1)
  })
})

describe("one handler file in each place where it can run", () => {
  const chunks = [3, 2, 1]

  // docs/spec/local-test-mode.md#one-job
  it("local test mode without a flag does not consume it, and names --rp_serve_api", async () => {
    const { code, stdout } = await start("local", { args: ["--test_input", `{"input":{"from":3}}`] }).ended
    expect(stdout).toMatch(/COMPLETED\nThe handler is a generator.*--rp_serve_api/)
    expect(code).toBe(0)
  })

  it("the local API streams and collects its chunks", async () => {
    const { post } = await serve("local")
    const { id, output } = Object(await post("/runsync", { input: { from: 3 } }))
    expect(output).toEqual(chunks)
    expect(Object(await post(`/stream/${id}`)).stream).toEqual(chunks.map((chunk) => ({ output: chunk })))
  })

  it.each(["PLATFORM_", "RUNPOD_"] as const)(
    "a platform streams and collects the same chunks, with the variable prefix %s",
    async (prefix) => {
      const stub = await PlatformStub.start()
      opened.push(() => stub.down())
      start("local", { env: stub.environment({ prefix }) })
      const id = stub.submit({ from: 3 })
      expect(await stub.resultOf(id)).toEqual({ output: chunks })
      expect(stub.chunks(id)).toEqual(chunks.map((chunk) => ({ output: chunk })))
    }
  )
})

// docs/spec/local-test-mode.md#one-job
describe("local test mode without --rp_serve_api", () => {
  it("logs a WARN line for flags that need --rp_serve_api", async () => {
    const { code, stdout } = await start("worker", { args: ["--rp_api_port", "9000", "--test_input", `{"input":{"do":"echo"}}`] })
      .ended
    expect(stdout).toMatch(/^WARN \| --rp_api_port has no effect without --rp_serve_api\.$/m)
    expect(code).toBe(0)
  })

  it("--rp_debugger does not change the output", async () => {
    const args = ["--test_input", `{"input":{"do":"echo"}}`]
    const [plain, debugged] = await Promise.all([start("worker", { args }), start("worker", { args: [...args, "--rp_debugger"] })]
      .map(async ({ ended }) => (await ended).stdout.replaceAll(/test-[0-9a-f-]+/g, "test-ID")))
    expect(debugged).toBe(plain)
  })

  it("--rp_log_level hides lines below the level", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stint-local-"))
    opened.push(async () => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, "test_input.json"), `{"input":{"do":"echo"}}`)
    const { stdout } = await start("worker", { cwd: folder, args: ["--rp_log_level", "ERROR"] }).ended
    expect(stdout).toMatch(/^test-[0-9a-f-]{36}: COMPLETED\n/)
  })

  it("a worker on a platform does not load the modules of the local API", async () => {
    const stub = await PlatformStub.start()
    opened.push(() => stub.down())
    start("modules", { env: stub.environment() })
    const result = await stub.resultOf(stub.submit({}))
    expect(Object(result).output).toEqual([])
  })
})
