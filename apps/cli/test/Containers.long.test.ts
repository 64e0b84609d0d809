/**
 * Workers in containers of a real engine: jobs, limits, isolation, a killed platform and a killed engine (docs/operations/containers.md).
 */
import type { WaitBreakdown } from "@stint/contract/Explanation"
import { missingEngine, TestEngine } from "@stint/pool-container/testing"
import { build } from "esbuild"
import { randomUUID } from "node:crypto"
import { readdir, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { networkInterfaces } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { missingRegistry, PASSWORD, TestRegistry } from "./TestRegistry.ts"

const missing = missingEngine()
const noRegistry = missingRegistry()
const registriesConf = process.env["CONTAINERS_REGISTRIES_CONF"]

/** How long a state of a container may take to appear on a busy machine. Milliseconds. */
const LIMIT = 120_000

describe.skipIf(missing !== undefined)(`workers in containers${missing === undefined ? "" : ` (${missing})`}`, () => {
  const engine = new TestEngine()
  let platform: PlatformProcess
  let registry: TestRegistry | undefined

  beforeAll(async () => {
    if (noRegistry === undefined) {
      registry = await TestRegistry.start(join(engine.folder, "registry"))
      registry.writeCredentials(join(engine.folder, "auth.json"), PASSWORD)
      // The registry has no TLS.
      const conf = join(engine.folder, "registries.conf")
      await writeFile(conf, `[[registry]]\nlocation = "${registry.address}"\ninsecure = true\n`)
      process.env["CONTAINERS_REGISTRIES_CONF"] = conf
    }
    await engine.start()
    // The image's program: the handler with the SDK in one file.
    const outfile = join(engine.folder, "worker.mjs")
    await build({
      entryPoints: [join(FIXTURES, "contained.ts")],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      logLevel: "error",
      banner: { js: `const require = globalThis.process.getBuiltinModule("node:module").createRequire(import.meta.url);` }
    })
    await engine.makeNodeImage("localhost/stint-contained:1", { "/app/worker.mjs": outfile })
  }, 300_000)

  afterAll(async () => {
    await registry?.[Symbol.asyncDispose]()
    await engine[Symbol.asyncDispose]()
    if (registriesConf === undefined) delete process.env["CONTAINERS_REGISTRIES_CONF"]
    else process.env["CONTAINERS_REGISTRIES_CONF"] = registriesConf
  }, 300_000)

  beforeEach(async () => {
    platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "contained.config.ts")], {
      STINT_ENGINE: engine.socket,
      ...(registry === undefined ? {} : { STINT_ENGINE_AUTH: join(engine.folder, "auth.json") })
    })
  }, LIMIT)

  afterEach(() => platform[Symbol.asyncDispose](), LIMIT)

  /** The names of all containers. */
  const containers = async (): Promise<ReadonlyArray<string>> =>
    (await engine.podman("ps", "--all", "--format", "{{.Names}}")).split("\n").filter((name) => name !== "")

  const noContainer = () =>
    until("the end of all containers", async () => (await containers()).length === 0 ? true : undefined, LIMIT)

  const ended = (endpoint: string, id: string) =>
    until(`job ${id} to end`, async () => {
      const job = await platform.job(endpoint, id)
      return job.status === "IN_QUEUE" || job.status === "IN_PROGRESS" ? undefined : job
    }, LIMIT)

  /** The messages in the log of a job. */
  const linesOf = async (endpoint: string, id: string): Promise<ReadonlyArray<string>> => {
    const { body } = await platform.request("GET", `/v2/${endpoint}/logs/${id}?limit=1000`)
    return (body as { readonly lines: ReadonlyArray<{ readonly message: string }> }).lines.map(({ message }) => message)
  }

  /** Submits a job that prints, and waits for its first lines. */
  const printing = async (ms: number) => {
    const id = await platform.run("one", { do: "print", ms })
    await until("the first lines", async () => (await linesOf("one", id)).includes("line 3") ? true : undefined, LIMIT)
    return id
  }

  it("scale from zero for a job, and back", async () => {
    expect(await containers()).toEqual([])
    expect(await platform.runSync("one", { do: "echo", text: "from a container" })).toMatchObject({
      status: "COMPLETED",
      output: { text: "from a container" }
    })
    await noContainer()
    await until("no record", async () => (await readdir(join(platform.dataDir, "containers"))).length === 0 ? true : undefined)
    expect(platform.output).toContain(
      "The image localhost/stint-contained:1 of endpoint one is a name that can later refer to another image."
    )
  }, 300_000)

  it("finish their job when drained, and lose it to another container when stopped", async () => {
    const ask = async (worker: string, how: "drain" | "stop") => {
      const { body, status } = await platform.request("POST", `/api/v1/endpoints/one/workers/${worker}/${how}`)
      expect([status, body]).toMatchObject([200, { id: worker, state: "draining", leaving: how }])
    }
    const workerOf = async (id: string) => (await platform.job("one", id)).workerId ?? ""
    const first = await printing(3_000)
    const drained = await workerOf(first)
    await ask(drained, "drain")
    expect(await ended("one", first)).toMatchObject({ status: "COMPLETED", workerId: drained })
    const second = await printing(5_000)
    const stopped = await workerOf(second)
    expect(stopped).not.toBe(drained)
    await ask(stopped, "stop")
    expect(await ended("one", second)).toMatchObject({ status: "COMPLETED", retries: 1 })
    expect(await workerOf(second)).not.toBe(stopped)
    await noContainer()
  }, LIMIT)

  it("say in the job's error and explanation that a worker ran out of memory", async () => {
    const job = await ended("hungry", await platform.run("hungry", { do: "hog" }))
    expect(job.status).toBe("FAILED")
    expect(job.error).toMatch(
      /was killed by signal SIGKILL\. It was out of memory\. Its limit is \d+ MiB\. Give it more, or fewer jobs at once\./
    )
    const { body } = await platform.request("GET", `/v2/hungry/status/${job.id}?explain=true`)
    expect(JSON.stringify(body)).toContain("It was out of memory")
  }, 300_000)

  it("explain a missing image to a waiting job", async () => {
    const id = await platform.run("missing", { do: "echo", text: "" })
    const words = await until("the explanation", async () => {
      const { body } = await platform.request("GET", `/v2/missing/status/${id}?explain=true`)
      const text = JSON.stringify(body)
      return text.includes("workers fail to start") ? text : undefined
    }, LIMIT)
    expect(words).toContain("The image localhost/stint-no-such-image:1 cannot be started")
  }, 300_000)

  it.skipIf(noRegistry !== undefined)(
    `pull their image from a registry, as a part of the job's wait${noRegistry === undefined ? "" : ` (${noRegistry})`}`,
    async () => {
      const image = `${registry?.address}/team/pulled:1`
      const { status } = await platform.request("PUT", "/api/v1/endpoints/pulled", {
        source: { type: "container", image, command: ["/app/worker.mjs"], memoryBytes: 1024 ** 3 },
        workers: { max: 1, idleTimeoutMs: 1_000 }
      })
      expect(status).toBe(200)
      // Pushed only now, so that no pull in advance takes the part from the job.
      await engine.podman("push", "--quiet", "--creds", `stint:${PASSWORD}`, "localhost/stint-contained:1", image)
      const partsOf = async (text: string) => {
        const id = await platform.run("pulled", { do: "echo", text })
        expect(await ended("pulled", id)).toMatchObject({ status: "COMPLETED", output: { text } })
        const { body } = await platform.request("GET", `/v2/pulled/status/${id}?explain`)
        const { wait } = (body as { readonly explain: { readonly wait: WaitBreakdown } }).explain
        expect(wait.parts.reduce((sum, { millis }) => sum + millis, 0)).toBe(wait.millis)
        return wait.parts.map(({ phase }) => phase)
      }
      expect(await partsOf("pulled")).toEqual(expect.arrayContaining(["pull", "create", "start"]))
      await noContainer()
      const again = await partsOf("present")
      expect(again).toContain("create")
      expect(again).not.toContain("pull")
    },
    300_000
  )

  it("reach the platform and no other program, file, key or worker, and have no rights", async () => {
    const host = createServer((socket) => socket.destroy())
    await new Promise<void>((listening) => host.listen(0, "0.0.0.0", listening))
    const abstract = createServer((socket) => socket.destroy())
    const abstractName = `stint-${randomUUID()}`
    await new Promise<void>((listening) => abstract.listen(`\0${abstractName}`, listening))
    const address = host.address()
    const hostPort = typeof address === "object" && address !== null ? address.port : 0
    const listener = await platform.run("other", { do: "listen", port: 7_777, ms: 20_000 })
    await until(
      "the other worker",
      async () => (await platform.job("other", listener)).status === "IN_PROGRESS" ? true : undefined,
      LIMIT
    )
    const hosts = [
      "127.0.0.1",
      ...Object.values(networkInterfaces()).flatMap((all = []) => all).filter(({ family }) => family === "IPv4").map((
        { address }
      ) => address)
    ]
    const targets = hosts.flatMap((one) => [[one, hostPort], [one, 7_777]] as const)
    const id = await platform.run("one", {
      do: "probe",
      read: [
        platform.dataDir,
        platform.configDir,
        engine.folder,
        engine.socket,
        `/proc/${platform.pid}/environ`,
        `/proc/${platform.pid}/root`,
        "/root",
        "/tmp"
      ],
      connect: [["127.0.0.1", platform.port], ...targets, abstractName],
      request: [
        "/v2/other/job-take/w-stolen",
        `/v2/other/status/${listener}`,
        "/api/v1/endpoints",
        "/api/v1/keys",
        "/api/v1/secrets"
      ],
      key: platform.key
    })
    const { output } = await ended("one", id)
    host.close()
    abstract.close()
    const { connect, requests, ...rest } = output as {
      readonly connect: ReadonlyArray<string>
      readonly requests: ReadonlyArray<number>
    }
    expect(rest).toMatchObject({
      read: ["ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "succeeded"],
      hasKey: false,
      write: "EROFS",
      temporary: "succeeded",
      status: ["CapEff:\t0000000000000000", "NoNewPrivs:\t1"]
    })
    // The init process and the worker itself.
    expect(rest).toHaveProperty("processes", 2)
    expect(connect[0]).toBe("connected")
    for (const outcome of connect.slice(1)) expect(outcome).toMatch(/^(?:ECONNREFUSED|ENETUNREACH)$/)
    // A worker's key is valid only for the worker API of its own endpoint.
    for (const status of requests) expect([401, 403]).toContain(status)
    await platform.request("POST", `/v2/other/cancel/${listener}`)
  }, 300_000)

  it("reach programs on all addresses of the machine with the network bridge, and not those on 127.0.0.1", async () => {
    const listenOn = async (address: string) => {
      const server = createServer((socket) => socket.destroy())
      await new Promise<void>((listening) => server.listen(0, address, listening))
      const bound = server.address()
      return { server, port: typeof bound === "object" && bound !== null ? bound.port : 0 }
    }
    const [local, everywhere] = [await listenOn("127.0.0.1"), await listenOn("0.0.0.0")]
    const id = await platform.run("bridged", {
      do: "probe",
      read: [],
      request: ["/api/v1/endpoints"],
      connect: [
        ["127.0.0.1", platform.port],
        ["127.0.0.1", local.port],
        ["gateway", local.port],
        ["gateway", platform.port],
        ["gateway", everywhere.port]
      ],
      key: platform.key
    })
    const job = await ended("bridged", id)
    local.server.close()
    everywhere.server.close()
    expect(job, job.error).toMatchObject({
      status: "COMPLETED",
      output: {
        connect: ["connected", "ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED", "connected"],
        requests: [expect.toBeOneOf([401, 403])],
        hasKey: false
      }
    })
    await noContainer()
  }, 300_000)

  it("are limited in their processes and in their CPU time", async () => {
    const job = await ended("limited", await platform.run("limited", { do: "fork", most: 500 }))
    expect(job, job.error).toMatchObject({ status: "COMPLETED", output: { cpus: 0.75, refusal: "EAGAIN" } })
    const { started } = job.output as { readonly started: number }
    expect(started).toBeGreaterThan(0)
    // Its limit is 48, with the init process and the threads of the worker.
    expect(started).toBeLessThan(48)
    await noContainer()
  }, 300_000)

  it("are adopted by the next platform after kill -9, with the lines printed in between, and never run twice", async () => {
    const id = await printing(8_000)
    const before = await containers()
    expect(before).toHaveLength(1)
    await platform.end("SIGKILL")
    await platform.start()
    const job = await ended("one", id)
    expect(job).toMatchObject({ status: "COMPLETED" })
    expect(job).not.toHaveProperty("retries")
    const { lines, worker } = job.output as { readonly lines: number; readonly worker: string }
    expect([`stint-${worker}`]).toEqual(before)
    const printed = await until("the last line", async () => {
      const all = await linesOf("one", id)
      return all.includes(`line ${lines}`) ? all : undefined
    }, LIMIT)
    // The killed platform may have received some lines that it had not stored. No other line is missing.
    expect(new Set(printed).size).toBeGreaterThan(lines - 25)
    expect(new Set(printed).size).toBe(printed.length)
    await noContainer()
  }, 300_000)

  it("continue while the engine is gone: the job completes, and no second worker is started beside it", async () => {
    const id = await printing(8_000)
    const before = await containers()
    await engine.kill()
    await until(
      "the warning",
      () => platform.output.includes("counts as running until the engine answers") ? true : undefined,
      LIMIT
    )
    const job = await ended("one", id)
    expect(job).toMatchObject({ status: "COMPLETED" })
    expect(job).not.toHaveProperty("retries")
    expect(await containers()).toEqual(before)
    await engine.start()
    await noContainer()
    expect(platform.output.match(/Starting worker \S+ of endpoint one/g)).toHaveLength(1)
  }, 300_000)
})
