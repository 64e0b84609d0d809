/**
 * The platform's own image, built and run by a real engine (docs/operations/container-image.md).
 *
 * No image registry can be reached, so the base image is made from this machine's Node, without a shell.
 */
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import { missingEngine, TestEngine } from "../../packages/pool-container/src/testing.ts"
import { writeContext } from "../image-context.ts"
import { pnpm } from "../pack.ts"
import { upstream } from "../published/LocalRegistry.ts"
import { root } from "../workspace.ts"

const missing = missingEngine() ?? (upstream() === undefined ? "npm's registry does not answer" : undefined)

const MINUTES = 60_000

const BASE = "localhost/stint-node:1"
const STINT = "localhost/stint:test"

/** The image's program, which needs no shell. */
const CLI = "/srv/node_modules/@stint/cli/dist/bin.js"

/** The grace period in the compose file, in seconds. */
const GRACE = 45

/** Polls until `look` returns a value. */
const until = async <A>(what: string, look: () => Promise<A | undefined>): Promise<A> => {
  const deadline = Date.now() + 2 * MINUTES
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (Date.now() > deadline) throw new Error(`timed out waiting for ${what}`)
    await new Promise((next) => setTimeout(next, 200))
  }
}

interface Job {
  readonly id: string
  readonly status: string
  readonly output?: unknown
}

describe.skipIf(missing !== undefined)(`the platform's image${missing === undefined ? "" : ` (${missing})`}`, () => {
  const engine = new TestEngine()
  const project = join(engine.folder, "project")
  /** The running test's containers, which end with it. */
  const containers: Array<string> = []

  beforeAll(async () => {
    await engine.start()
    await engine.makeNodeImage(BASE, {})
    const [program, ...args] = [...pnpm, "build", "--output-logs=errors-only"]
    execFileSync(program, args, { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
    const context = join(engine.folder, "context")
    writeContext(context)
    await engine.podman(
      "build",
      "--isolation=chroot",
      "--format=docker",
      `--build-arg=NODE_IMAGE=${BASE}`,
      `--tag=${STINT}`,
      context
    )
    mkdirSync(project)
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "mounted", private: true, type: "module" }))
    writeFileSync(
      join(project, "stint.config.ts"),
      `import { defineConfig } from "@stint/cli"
export default defineConfig({ endpoints: { hello: { handler: "./handler.ts" } } })
`
    )
    writeFileSync(
      join(project, "handler.ts"),
      `import * as sdk from "@stint/sdk"
sdk.serverless.start({
  handler: async (job: { input: { name: string } }) => ({ greeting: "Hello, " + job.input.name, user: process.getuid?.() })
})
`
    )
  }, 15 * MINUTES)

  afterEach(async () => {
    for (const name of containers.splice(0)) await engine.podman("rm", "--force", "--time=0", name)
  }, MINUTES)

  afterAll(() => engine[Symbol.asyncDispose](), 5 * MINUTES)

  /** Runs the image as the compose file does, but with only the container's own network. */
  const run = async (volume: string, ...more: ReadonlyArray<string>): Promise<string> => {
    const name = `stint-${randomUUID().slice(0, 8)}`
    containers.push(name)
    await engine.podman(
      ...["run", "--detach", `--name=${name}`, "--network=none", `--volume=${volume}:/data`, `--volume=${project}:/srv/stint:ro`],
      // As in the compose file, but with limits that this machine allows, because an engine raises them by default.
      ...["--cap-drop=ALL", "--security-opt=no-new-privileges", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096", ...more],
      ...[STINT, "serve", "--config", "/srv/stint/stint.config.ts"]
    )
    return name
  }

  const logs = (name: string) => engine.podman("logs", name)

  /** Runs the image's own health check, which an engine without systemd does not run by itself. Returns the state that it records. */
  const health = async (name: string): Promise<string> => {
    await engine.podman("healthcheck", "run", name).catch(() => "")
    return (await engine.podman("inspect", "--format={{.State.Healthcheck.Status}}", name)).trim()
  }

  const healthy = (name: string) =>
    until("the image to be healthy", async () => {
      if ((await engine.podman("inspect", "--format={{.State.Status}}", name)).trim() !== "running") {
        throw new Error(`The container has ended:\n${await logs(name)}`)
      }
      return (await health(name)) === "healthy" ? true : undefined
    })

  /** Runs the command line in the container, as an operator does. */
  const stint = async (name: string, ...args: ReadonlyArray<string>): Promise<string> =>
    (await engine.podman("exec", name, "node", CLI, ...args)).trim()

  /** Calls the platform over HTTP from inside the container, with the key in its volume. */
  const ask = async (name: string, method: string, path: string, body?: unknown): Promise<Job> => {
    const program = `const [url, method, key, body] = process.argv.slice(1)
fetch(url, { method, headers: { authorization: "Bearer " + key }, ...(body === "" ? {} : { body }) })
  .then((answer) => answer.text()).then((text) => process.stdout.write(text))`
    const key = await stint(name, "keys", "print")
    const text = body === undefined ? "" : JSON.stringify(body)
    return JSON.parse(await engine.podman("exec", name, "node", "-e", program, `http://127.0.0.1:4600${path}`, method, key, text))
  }

  /** Stops a container as a service manager does. Returns the exit code, and how long the stop took. */
  const stop = async (name: string): Promise<{ readonly code: number; readonly seconds: number }> => {
    const started = performance.now()
    await engine.podman("stop", `--time=${GRACE}`, name)
    const code = Number(await engine.podman("inspect", "--format={{.State.ExitCode}}", name))
    return { code, seconds: (performance.now() - started) / 1_000 }
  }

  it("writes only to its volume and /tmp, so that it runs with a read-only root, as in Kubernetes", async () => {
    const name = await run("read-only", "--read-only", "--read-only-tmpfs=false", "--tmpfs=/tmp")
    await healthy(name)
    const job = await ask(name, "POST", "/v2/hello/runsync?wait=60000", { input: { name: "Ada" } })
    expect(job).toMatchObject({ status: "COMPLETED", output: { greeting: "Hello, Ada" } })
    expect(await stop(name)).toMatchObject({ code: 0 })
  }, 5 * MINUTES)

  it("runs jobs from a mounted project as a user without rights, and runs as the process that receives signals", async () => {
    const name = await run("first")
    await healthy(name)
    const job = await ask(name, "POST", "/v2/hello/runsync?wait=60000", { input: { name: "Ada" } })
    expect(job).toMatchObject({ status: "COMPLETED", output: { greeting: "Hello, Ada", user: 1000 } })
    const status = await engine.podman("exec", name, "node", "-p", "fs.readFileSync('/proc/1/status', 'utf8')")
    expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m)
    expect(status).toMatch(/^CapEff:\t0+$/m)
    const command = await engine.podman("exec", name, "node", "-p", "fs.readFileSync('/proc/1/cmdline', 'utf8')")
    expect(command.split("\0").slice(0, 3)).toEqual(["node", CLI, "serve"])
  }, 5 * MINUTES)

  it("keeps jobs, endpoints and the key in its volume, and exits with 0 within its grace period", async () => {
    const before = await run("second")
    await healthy(before)
    const done = await ask(before, "POST", "/v2/hello/runsync?wait=60000", { input: { name: "Ada" } })
    const waiting = await ask(before, "POST", "/v2/hello/run", { input: { name: "Bob" }, startAfterMs: 3_600_000 })
    const key = await stint(before, "keys", "print")
    const { code, seconds } = await stop(before)
    expect({ code, log: code === 0 ? "" : await logs(before) }).toEqual({ code: 0, log: "" })
    expect(seconds).toBeLessThan(GRACE)
    await engine.podman("rm", before)

    const after = await run("second")
    await healthy(after)
    expect(await stint(after, "keys", "print")).toBe(key)
    expect(await ask(after, "GET", `/v2/hello/status/${done.id}`)).toMatchObject({ status: "COMPLETED", output: done.output })
    expect(await ask(after, "GET", `/v2/hello/status/${waiting.id}`)).toMatchObject({ status: "IN_QUEUE" })
    expect((await stop(after)).code).toBe(0)
  }, 5 * MINUTES)

  it("finishes a running job before it exits", async () => {
    writeFileSync(
      join(project, "handler.ts"),
      `import * as sdk from "@stint/sdk"
sdk.serverless.start({ handler: () => new Promise((done) => setTimeout(() => done("finished"), 5_000)) })
`
    )
    const before = await run("third")
    await healthy(before)
    const { id } = await ask(before, "POST", "/v2/hello/run", { input: {} })
    await until(
      "the job to run",
      async () => (await ask(before, "GET", `/v2/hello/status/${id}`)).status === "IN_PROGRESS" ? true : undefined
    )
    expect((await stop(before)).code).toBe(0)
    const after = await run("third")
    await healthy(after)
    expect(await ask(after, "GET", `/v2/hello/status/${id}`)).toMatchObject({ status: "COMPLETED", output: "finished" })
  }, 5 * MINUTES)

  it("is unhealthy while the platform does not respond", async () => {
    const name = await run("fourth")
    await healthy(name)
    const test = await engine.podman("inspect", "--format={{json .Config.Healthcheck.Test}}", name)
    const [, ...command] = JSON.parse(test) as ReadonlyArray<string>
    await engine.podman("exec", name, ...command)
    // Nothing listens there.
    await expect(engine.podman("exec", "--env=PORT=9", name, ...command)).rejects.toMatchObject({ code: 1 })
  }, 5 * MINUTES)

  it("contains the platform's packages and nothing else from the workspace", async () => {
    const name = await run("fifth")
    await healthy(name)
    const packages = (await engine.podman("exec", name, "node", "-p", "fs.readdirSync('/srv/node_modules/@stint').join()")).trim()
    expect(packages).toBe("cli,sdk")
    const size = Number(await engine.podman("inspect", "--format={{.Size}}", STINT)) -
      Number(await engine.podman("inspect", "--format={{.Size}}", BASE))
    // docs/operations/container-image.md states it.
    expect(size / 1_000_000).toBeLessThan(80)
  }, 5 * MINUTES)
})
