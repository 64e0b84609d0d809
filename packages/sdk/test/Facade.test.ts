/**
 * Tests the facade's functions in a real worker process, under the names of docs/spec/handler.md#facade. The tests of each plugin are in
 * the plugin's package.
 */
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterEach, describe, expect, it, vi } from "vitest"
import * as sdk from "../src/index.ts"

const handler = fileURLToPath(new URL("./fixtures/facade.ts", import.meta.url))

/** The automatic fitness checks pass on every test machine. */
const LENIENT = { PLATFORM_MIN_MEMORY_GB: "0.1", PLATFORM_MIN_DISK_PERCENT: "0.1" }

const opened: Array<() => unknown> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const folder = () => {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "stint-facade-")))
  opened.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}

const start = async (
  options: { readonly env?: { readonly [name: string]: string }; readonly args?: ReadonlyArray<string>; readonly cwd?: string } =
    {}
) => {
  const stub = await PlatformStub.start()
  opened.push(() => stub.down())
  const cwd = options.cwd ?? folder()
  const worker = WorkerProcess.start(handler, {
    cwd,
    args: options.args ?? [],
    env: { ...LENIENT, ...stub.environment(), ...options.env }
  })
  opened.push(async () => {
    worker.kill("SIGKILL")
    await worker.ended
  })
  return { stub, worker, cwd }
}

describe("the facade", () => {
  it("progress_update sets the job's output until the result replaces it", async () => {
    const { stub } = await start()
    const id = stub.submit({ do: "progress" })
    await stub.until(() => stub.progress(id) !== undefined)
    expect(stub.progress(id)).toEqual({ done: 1 })
    expect(await stub.resultOf(id)).toEqual({ output: "done" })
  })

  it("progress_update logs a WARN line when no worker runs", () => {
    const written = vi.spyOn(process.stdout, "write").mockImplementation(() => true)
    opened.push(() => written.mockRestore())
    sdk.rp_progress.progress_update({ id: "j1" }, 1)
    expect(written.mock.calls.map(([line]) => line)).toEqual([
      "WARN | progress_update is ignored: no worker runs in this process.\n"
    ])
  })

  it("set_level changes the level of the log, tip is written at every level but NOTSET, and an unknown level is an error", () => {
    const written = vi.spyOn(process.stdout, "write").mockImplementation(() => true)
    opened.push(() => written.mockRestore())
    opened.push(() => sdk.log.set_level("DEBUG"))
    for (const level of ["warn", "NOTSET", "INFO"]) {
      sdk.log.set_level(level)
      sdk.log.info(`info at ${level}`)
      sdk.log.error(`error at ${level}`)
      sdk.log.tip(`tip at ${level}`)
    }
    expect(written.mock.calls.map(([line]) => line)).toEqual([
      "ERROR | error at warn\n",
      "INFO | tip at warn\n",
      "INFO | The log level is INFO now.\n",
      "INFO | info at INFO\n",
      "ERROR | error at INFO\n",
      "INFO | tip at INFO\n"
    ])
    expect(() => sdk.log.set_level("WRAN")).toThrow(/needs one of NOTSET, TRACE, .*, not "WRAN"\. Did you mean "WARN"\?/)
  })

  it.each(["throws", "rejects"])(
    "a registered fitness check that %s is reported and ends the worker with exit code 1",
    async (how) => {
      const { stub, worker } = await start({ env: { CHECK: how } })
      stub.submit({ do: "log" })
      expect((await worker.ended).code).toBe(1)
      expect(stub.of("ping").map(({ text }): unknown => JSON.parse(text))).toEqual([
        expect.objectContaining({ status: "unhealthy", check: "modelIsThere", reason: "no model at /models" })
      ])
      expect(stub.of("job-take")).toEqual([])
    }
  )

  it("a worker takes jobs when its fitness checks pass", async () => {
    const { stub } = await start({ env: { CHECK: "passes" } })
    expect(await stub.resultOf(stub.submit({ do: "nothing" }))).toEqual({ output: { got: "nothing" }, error: "what?" })
  })

  it("a worker takes no jobs and logs the reason when the machine has too little memory", async () => {
    const { stub, worker } = await start({ env: { PLATFORM_MIN_MEMORY_GB: "100000" } })
    const { code, stdout } = await worker.ended
    expect(code).toBe(1)
    expect(stdout).toContain("PLATFORM_MIN_MEMORY_GB")
    expect(stub.of("job-take")).toEqual([])
  })

  it("register_fitness_check returns the check and rejects values that are not functions", () => {
    const check = () => undefined
    expect(sdk.serverless.register_fitness_check(check)).toBe(check)
    const untyped: (check: never) => unknown = sdk.serverless.register_fitness_check
    expect(() => untyped(Object("no function") as never)).toThrow("register_fitness_check needs a function")
  })

  it("rp_validator.validate checks an input against rules", async () => {
    const { stub } = await start()
    expect(await stub.resultOf(stub.submit({ do: "validate" }))).toEqual({ output: { width: 64 } })
    expect(await stub.resultOf(stub.submit({ do: "validate", width: 7 }))).toEqual({
      error: expect.stringContaining("has to be a multiple of 8")
    })
  })

  it("a result with error fails the job and logs an ERROR line", async () => {
    const { stub, worker } = await start()
    const id = stub.submit({ do: "nothing" })
    await stub.resultOf(id)
    const line = worker.stdout().split("\n").find((one) => one.includes(`"ERROR"`)) ?? ""
    expect(JSON.parse(line)).toMatchObject({ requestId: id, level: "ERROR", message: expect.stringMatching(/failed.*what\?/) })
  })

  it("LineTimer and FunctionTimer report to rp_debugger only with --rp_debugger", async () => {
    const plain = await start()
    expect(await plain.stub.resultOf(plain.stub.submit({ do: "timers" }))).toEqual({ output: { width: 5 } })
    const { stub } = await start({ args: ["--rp_debugger"] })
    expect(await stub.resultOf(stub.submit({ do: "timers" }))).toEqual({
      output: {
        width: 5,
        rp_debugger: expect.objectContaining({
          timestamps: [expect.objectContaining({ name: "all" }), expect.objectContaining({ name: "resize" })],
          system_info: expect.anything(),
          ready_delay_ms: expect.any(Number)
        })
      }
    })
  })

  it("uploads are copied into the job's folder of local_upload, and nowhere else, when no bucket is set", async () => {
    const { cwd, stub } = await start()
    const ids = [stub.submit({ do: "upload" }, { id: "job-1" }), stub.submit({ do: "upload" }, { id: "job-2" })]
    for (const id of ids) {
      const hello = `local_upload/${id}/hello.txt`
      const result = `local_upload/prefix/${id}/result.txt`
      expect(await stub.resultOf(id)).toEqual({ output: [hello, result, `local_upload/${id}.txt`] })
    }
    for (const id of ids) {
      expect(readFileSync(join(cwd, `local_upload/${id}/hello.txt`), "utf8")).toBe(`hello from ${id}`)
      expect(readFileSync(join(cwd, `local_upload/prefix/${id}/result.txt`), "utf8")).toBe(`a file of ${id}`)
    }
  })

  it("an upload rejects with the missing variable when the bucket is configured in part", async () => {
    const { stub } = await start({ env: { BUCKET_ENDPOINT_URL: "http://127.0.0.1:9" } })
    const result = await stub.resultOf(stub.submit({ do: "upload" }))
    expect(JSON.stringify(result)).toContain("BUCKET_ACCESS_KEY_ID")
  })

  it("downloads are saved under the job's id, and addresses inside the network are rejected", async () => {
    const server = createServer((_request, response) => response.end("a photo"))
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up))
    opened.push(() => server.close())
    const address = server.address()
    const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/photo.jpg`
    const refusing = await start()
    const refused = await refusing.stub.resultOf(refusing.stub.submit({ do: "download", url }))
    expect(JSON.stringify(refused)).toMatch(/127\.0\.0\.1.*loopback/)
    expect(readdirSync(refusing.cwd, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())).toEqual([])

    const { cwd, stub } = await start({ env: { PLATFORM_DOWNLOAD_ALLOW: "127.0.0.0/8" } })
    const id = stub.submit({ do: "download", url }, { id: "job-1" })
    const files = join(cwd, "jobs/job-1/downloaded_files")
    expect(await stub.resultOf(id)).toEqual({
      output: { paths: [join(files, "photo.jpg"), null, join(files, "photo-1.jpg")], texts: ["a photo", "a photo"] }
    })
    // The job's files are removed before its result is sent. Files under another name stay.
    expect(readdirSync(join(cwd, "jobs"))).toEqual([])
    const kept = join(cwd, "jobs/shared/downloaded_files/photo.jpg")
    expect(await stub.resultOf(stub.submit({ do: "download for others", url }))).toEqual({ output: kept })
    expect(readFileSync(kept, "utf8")).toBe("a photo")
    server.closeAllConnections()
  })

  it.each([[false, "urls"], [true, "urls\\[0\\]"]])(
    "a missing URL is an error that names it (in a list: %s)",
    async (list, where) => {
      const { cwd, stub } = await start()
      const result = await stub.resultOf(stub.submit({ do: "download nothing", list }))
      expect(JSON.parse(String(Object(result).error))).toMatchObject({
        error_type: "TypeError",
        error_message: expect.stringMatching(`${where} is undefined, not a URL\\. Check that the job's input has the key`)
      })
      expect(readdirSync(cwd)).toEqual([])
    }
  )

  it("VolumeCache restores the files of an earlier worker, and does nothing without a volume", async () => {
    const volume = folder()
    const disk = folder()
    const run = async (cache: string, env: { readonly [name: string]: string }) => {
      mkdirSync(cache, { recursive: true })
      const { stub, worker } = await start({ env: { CACHE: cache, ...env } })
      await stub.resultOf(stub.submit({ do: "log" }))
      worker.kill("SIGTERM")
      return (await worker.ended).stdout
    }
    const directory = join(disk, "models")
    expect(await run(directory, {})).toContain("cold, not cached")
    // Each worker starts with an empty disk.
    rmSync(directory, { recursive: true })
    expect(await run(directory, { PLATFORM_VOLUME_PATH: volume })).toContain("cold, cached")
    rmSync(directory, { recursive: true })
    expect(await run(directory, { PLATFORM_VOLUME_PATH: volume })).toContain("warm, with weights, cached")
  })

  it("log lines carry the id of the job in which they are written", async () => {
    const { stub, worker } = await start()
    const id = stub.submit({ do: "log" })
    await stub.resultOf(id)
    const lines = worker.stdout().split("\n").filter((line) => line.includes(`"INFO"`)).map((line): unknown => JSON.parse(line))
    expect(lines).toEqual(expect.arrayContaining([
      { requestId: id, message: "in the handler", level: "INFO" },
      { requestId: id, message: "after an await", level: "INFO" },
      { requestId: "another", message: "of another job", level: "INFO" }
    ]))
  })

  it("a job's spans are exported to the collector that the OTEL variables name, in the caller's trace", async () => {
    const received: Array<string> = []
    const collector = createServer((request, response) => {
      request.setEncoding("utf8").on("data", (text: string) => received.push(text)).on("end", () => response.end("{}"))
    })
    await new Promise<void>((up) => collector.listen(0, "127.0.0.1", up))
    opened.push(() => collector.close())
    const address = collector.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const { stub, worker } = await start({
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" }
    })
    const trace = "0af7651916cd43dd8448eb211c80319c"
    await stub.resultOf(stub.submit({ do: "timers" }, { traceparent: `00-${trace}-b7ad6b7169203331-01` }))
    worker.kill("SIGTERM")
    expect((await worker.ended).code).toBe(0)
    const text = received.join("")
    for (const name of ["process stub", "handler", "deliver", "resize"]) expect(text).toContain(`"name":"${name}"`)
    expect(text).toContain(`"traceId":"${trace}"`)
    collector.closeAllConnections()
  })

  it("a worker does not load the heavy modules that it does not use", async () => {
    const { stub } = await start()
    const result = await stub.resultOf(stub.submit({ do: "modules" }))
    expect(JSON.stringify(result)).toContain("/worker/src/runtime/TakeLoop.ts")
    expect(JSON.stringify(result)).not.toMatch(
      /aws-sdk|undici|opentelemetry|\/mime\/|worker-uploads|\/downloads\/src|\/(?:worker-local|server|store|queue|http-guard)\/src|volume-cache\/src\/Sync/
    )
  })
})
