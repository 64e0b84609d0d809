/**
 * Builds that fail, and other ways to start one, on a real engine with a real registry (docs/operations/builds.md).
 * GitToRollback.long.test.ts follows builds to releases.
 */
import { build as bundle } from "esbuild"
import { execFileSync } from "node:child_process"
import { createHmac } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { BuildWorld, missingParts } from "./BuildWorld.ts"
import { buildConsole, ConsoleBrowser, program as chromium } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"
import { PASSWORD } from "./TestRegistry.ts"

const missing = missingParts()

/** How long a state may take to appear on a busy machine. Milliseconds. */
const LIMIT = 180_000

const BASE = "localhost/stint-build-base:1"
const PYTHON = "localhost/stint-build-python:1"

/** A build as the control API returns it. */
interface BuildObject {
  readonly number: number
  readonly state: string
  readonly commit?: string
  readonly image?: string
  readonly release?: number
  readonly reason?: string
  readonly warnings: ReadonlyArray<string>
}

describe.skipIf(missing !== undefined)(`builds from Git${missing === undefined ? "" : ` (${missing})`}`, () => {
  let world: BuildWorld
  let platform: PlatformProcess
  let program = ""

  const git = (path: string, ...args: ReadonlyArray<string>): string =>
    execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "safe.directory=*", ...args], {
      cwd: path,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"]
    }).trim()

  /** Commits files into a repository, which is created if it does not exist. Returns the commit. */
  const commit = (name: string, files: Readonly<Record<string, string>>): string => {
    const path = join(world.repositories, name)
    const isNew = !readdirSync(world.repositories).includes(name)
    mkdirSync(path, { recursive: true })
    if (isNew) git(path, "init", "--quiet", "--initial-branch", "main")
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(dirname(join(path, file)), { recursive: true })
      writeFileSync(join(path, file), text)
    }
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", "change")
    return git(path, "rev-parse", "HEAD")
  }

  const handler = (version: string): string => program.replaceAll("version-of-the-handler", version)

  const DOCKERFILE = [
    `FROM ${BASE}`,
    "COPY handler.mjs /app/handler.mjs",
    "RUN [\"/usr/local/bin/node\", \"-e\", \"console.log('checked by node ' + 6 * 7)\"]",
    "CMD [\"/app/handler.mjs\"]",
    ""
  ].join("\n")

  /** Runs a command, and requires that it succeeds. */
  const run = async (...args: ReadonlyArray<string>): Promise<string> => {
    const { code, stderr, stdout } = await stint(platform, args)
    if (code !== 0) throw new Error(`stint ${args.join(" ")} ended with ${code}:\n${stdout}\n${stderr}`)
    return stdout
  }

  const builds = (endpoint: string, rest = "") => `/api/v1/endpoints/${endpoint}/builds${rest}`

  const getBuild = async (endpoint: string, number: number): Promise<BuildObject> =>
    (await platform.request("GET", builds(endpoint, `/${number}`))).body as BuildObject

  /** Starts a build, and returns it once it has ended. */
  const build = async (endpoint: string, settings: Readonly<Record<string, unknown>>): Promise<BuildObject> => {
    const saved = await platform.request("PUT", `/api/v1/endpoints/${endpoint}/build-settings`, {
      repository: join(world.repositories, endpoint),
      ...settings
    })
    expect(saved.status, JSON.stringify(saved.body)).toBe(200)
    const { body, status } = await platform.request("POST", builds(endpoint))
    expect(status, JSON.stringify(body)).toBe(201)
    return ended(endpoint, (body as BuildObject).number)
  }

  const ended = (endpoint: string, number: number) =>
    until(`the end of build ${number}`, async () => {
      const one = await getBuild(endpoint, number)
      return one.state === "queued" || one.state === "running" ? undefined : one
    }, LIMIT)

  const logOf = async (endpoint: string, number: number): Promise<string> => {
    const { body } = await platform.request("GET", builds(endpoint, `/${number}/logs?limit=1000`))
    return (body as { readonly lines: ReadonlyArray<{ readonly text: string }> }).lines.map(({ text }) => text).join("\n")
  }

  beforeAll(async () => {
    world = await BuildWorld.start()
    const outfile = join(world.folder, "handler.mjs")
    await bundle({
      entryPoints: [join(FIXTURES, "built.ts")],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      logLevel: "error",
      banner: { js: `const require = globalThis.process.getBuiltinModule("node:module").createRequire(import.meta.url);` }
    })
    program = readFileSync(outfile, "utf8")
    await world.engine.makeNodeImage(BASE, {})
    platform = await PlatformProcess.create(["serve"], world.environment)
  }, 300_000)

  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  }, 300_000)

  it("name the context that works when COPY does not find a file", async () => {
    commit("lab", { "lab1/Dockerfile": DOCKERFILE, "lab1/handler.mjs": handler("lab") })
    const failed = await build("lab", { dockerfile: "lab1/Dockerfile" })
    expect(failed).toMatchObject({
      state: "failed",
      reason:
        "COPY handler.mjs fails, because the build context is the repository's root, which has no handler.mjs. The repository has " +
        "lab1/handler.mjs. Set the context to lab1: stint builds settings lab --context lab1"
    })
    expect(await build("lab", { dockerfile: "lab1/Dockerfile", context: "lab1" })).toMatchObject({ state: "succeeded" })
  }, 300_000)

  it("generate a Dockerfile for a handler, show it, and hide secrets in the log", async () => {
    commit("plain", { "handler.mjs": handler("plain") })
    const done = await build("plain", { baseImage: BASE })
    expect(done, done.reason).toMatchObject({ state: "succeeded", release: 1 })
    expect(await platform.runSync("plain", {})).toMatchObject({ status: "COMPLETED", output: { version: "plain" } })
    expect(await logOf("plain", done.number)).toContain(
      "This one was generated for handler.mjs:\n  FROM localhost/stint-build-base:1\n  WORKDIR /app\n"
    )
    await platform.request("PUT", "/api/v1/secrets/npm-token", { value: "the-npm-token-0123456789" })
    commit("plain", {
      Dockerfile: [
        `FROM ${BASE}`,
        "ARG GREETING",
        "RUN --mount=type=secret,id=npm [\"/usr/local/bin/node\", \"-e\", \"console.log('token ' + require('fs').readFileSync('/run/secrets/npm', 'utf8') + process.env.GREETING)\"]",
        "COPY handler.mjs /app/handler.mjs",
        "CMD [\"/app/handler.mjs\"]",
        ""
      ].join("\n")
    })
    const hidden = await build("plain", { secrets: { npm: "npm-token" }, args: { GREETING: " hello" } })
    expect(hidden, hidden.reason).toMatchObject({ state: "succeeded" })
    const log = await logOf("plain", hidden.number)
    expect(log).toContain("token [secret npm-token] hello")
    expect(log).not.toContain("the-npm-token-0123456789")
  }, 300_000)

  it("build a worker in Python that speaks the protocol of RunPod's SDK, and run its jobs", async () => {
    await world.engine.makePythonImage(PYTHON)
    commit("snake", { "worker.py": readFileSync(join(FIXTURES, "worker.py"), "utf8") })
    const done = await build("snake", { handler: "worker.py", baseImage: PYTHON })
    expect(done, done.reason).toMatchObject({ state: "succeeded", release: 1 })
    expect(await logOf("snake", done.number)).toContain(`ENTRYPOINT ["python","-u","/app/worker.py"]`)
    const job = await platform.ended("snake", await platform.run("snake", { chunks: [3], ms: 200 }), LIMIT)
    expect(job, job.error).toMatchObject({ status: "COMPLETED", output: { pid: expect.any(Number) } })
    const { body } = await platform.request("GET", `/v2/snake/stream/${job.id}`)
    expect(JSON.stringify(body)).toContain(`"###"`)
    await until(
      "the end of the worker's container",
      async () => await world.engine.podman("ps", "--all", "--quiet") === "" ? true : undefined,
      LIMIT
    )
  }, 300_000)

  it("reject an image for another machine and say how to build the right one", async () => {
    const archive = join(world.folder, "empty.tar")
    execFileSync("tar", ["--create", "--file", archive, "--files-from", "/dev/null"])
    await world.engine.podman("import", "--quiet", "--arch", "arm64", archive, "localhost/stint-arm:1")
    commit("arm", { Dockerfile: "FROM localhost/stint-arm:1\nCOPY Dockerfile /\n" })
    const failed = await build("arm", {})
    expect(failed).toMatchObject({ state: "failed" })
    expect(failed.reason).toContain(
      "The image is built for linux/arm64, and the workers' machine runs linux/amd64. Build it for linux/amd64"
    )
    expect((await platform.request("GET", "/api/v1/endpoints/arm")).status).toBe(404)
  }, 300_000)

  it("report a wrong password for the registry", async () => {
    world.registry.writeCredentials(world.credentials, "wrong-password")
    const failed = await build("lab", { dockerfile: "lab1/Dockerfile", context: "lab1" })
    world.registry.writeCredentials(world.credentials, PASSWORD)
    expect(failed).toMatchObject({ state: "failed" })
    expect(failed.reason).toContain(`The registry ${world.registry.address} rejects the credentials for the push of`)
    expect(failed.reason).toContain(
      `Correct the entry for ${world.registry.address} in ${world.credentials}: docker login ${world.registry.address}.`
    )
  }, 300_000)

  it("start from the signed webhook of a push, until a build has succeeded", async () => {
    const head = commit("hooked", { Dockerfile: DOCKERFILE, "handler.mjs": handler("hooked") })
    await platform.request("PUT", "/api/v1/secrets/hook", { value: "the-webhook-secret" })
    await platform.request("PUT", "/api/v1/endpoints/hooked/build-settings", {
      repository: join(world.repositories, "hooked"),
      ref: "main",
      webhookSecret: "hook"
    })
    const body = JSON.stringify({ ref: "refs/heads/main", after: head, repository: { default_branch: "main" } })
    const send = async (secret: string) => {
      const response = await fetch(`${platform.url}/api/v1/endpoints/hooked/build-hook`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "x-github-event": "push",
          "x-hub-signature-256": `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`
        },
        body
      })
      return { status: response.status, body: await response.json() }
    }
    expect(await send("another-secret")).toMatchObject({ status: 403 })
    expect(await send("the-webhook-secret")).toEqual({ status: 200, body: { build: 1, reason: "Push to main" } })
    expect(await ended("hooked", 1)).toMatchObject({
      state: "succeeded",
      commit: head,
      trigger: "push",
      createdBy: "a webhook of GitHub"
    })
    const again = await send("the-webhook-secret")
    expect(again).toMatchObject({ status: 200, body: { reason: expect.stringContaining("onPush is not set") } })
    expect(again.body).not.toHaveProperty("build")
  }, 300_000)

  it("fail with the reason after the platform is killed, and can be started again", async () => {
    commit("slow", {
      Dockerfile: [
        `FROM ${BASE}`,
        "RUN [\"/usr/local/bin/node\", \"-e\", \"console.log('waiting'); setTimeout(() => {}, 600000)\"]",
        ""
      ].join("\n")
    })
    await platform.request("PUT", "/api/v1/endpoints/slow/build-settings", { repository: join(world.repositories, "slow") })
    await platform.request("POST", builds("slow"))
    await until("the running step", async () => (await logOf("slow", 1)).includes("\nwaiting") ? true : undefined, LIMIT)
    await platform.end("SIGKILL")
    await platform.start()
    expect(await getBuild("slow", 1)).toMatchObject({
      state: "failed",
      reason: "The platform stopped while the build was running. Start it again: stint build slow"
    })
    // The same for a cancelled build.
    await platform.request("POST", builds("slow"))
    await until("the running step", async () => (await logOf("slow", 2)).includes("\nwaiting") ? true : undefined, LIMIT)
    expect(await run("builds", "cancel", "slow", "2")).toContain("Build 2 of slow is cancelled.")
    expect(readdirSync(join(platform.dataDir, "builds"))).toEqual([])
    expect(await build("lab", { dockerfile: "lab1/Dockerfile", context: "lab1" })).toMatchObject({ state: "succeeded" })
  }, 600_000)

  it("are started, followed, cancelled and deployed in the console", async ({ skip }) => {
    skip(chromium === undefined, "PATH has no chromium: apt-get install chromium")
    buildConsole()
    await using browser = await ConsoleBrowser.open(platform.url)
    const page = await browser.page(await browser.window())
    await browser.login(page, platform.key)
    await page.goto(`${platform.url}/console/endpoints/lab`)
    await page.getByRole("tab", { name: "Builds" }).click()
    const row = (number: number) =>
      page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: String(number), exact: true }) })
    await row(1).getByText("which has no handler.mjs").waitFor()
    await row(1).getByRole("button", { name: "Log" }).click()
    await page.getByRole("log", { name: "Log of build 1" }).getByText("COPY handler.mjs").first().waitFor()
    const start = async () => {
      await page.getByRole("button", { name: "Build", exact: true }).click()
      await page.getByRole("alertdialog").getByRole("button", { name: "Start the build" }).click()
    }

    commit("lab", {
      "lab1/Dockerfile": DOCKERFILE.replace(
        "console.log('checked",
        "console.log('one more step'); setTimeout(() => {}, 600000); ('checked"
      )
    })
    const { body } = await platform.request("GET", builds("lab"))
    const next = ((body as { readonly builds: ReadonlyArray<BuildObject> }).builds[0]?.number ?? 0) + 1
    await start()
    await row(next).getByRole("button", { name: "Log" }).click()
    // The line arrives while the build runs.
    await page.getByRole("log", { name: `Log of build ${next}` }).getByText("one more step").last().waitFor({ timeout: LIMIT })
    expect(await getBuild("lab", next)).toMatchObject({ state: "running" })
    await page.getByRole("log").scrollIntoViewIfNeeded()
    expect(await browser.isTooWide(page)).toBe(false)
    await browser.picture(page, "builds")
    // What the heading of the page covers in part counts as too small.
    await page.evaluate("window.scrollTo(0, 0)")
    expect(await browser.violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    await until("a page that fits", async () => !await browser.isTooWide(page) || undefined)
    await page.getByRole("button", { name: "Build", exact: true }).scrollIntoViewIfNeeded()
    await browser.picture(page, "builds-phone")
    await page.setViewportSize({ width: 1440, height: 900 })
    await row(next).getByRole("button", { name: `Cancel build ${next}` }).click()
    await page.getByRole("alertdialog").getByRole("button", { name: "Cancel the build" }).click()
    await row(next).getByText("Cancelled", { exact: true }).waitFor()
    expect(await getBuild("lab", next)).toMatchObject({ state: "cancelled" })

    commit("lab", { "lab1/Dockerfile": DOCKERFILE, "lab1/handler.mjs": handler("lab, again") })
    await start()
    await row(next + 1).getByText("Succeeded").waitFor({ timeout: LIMIT })
    const answer = async () => (await platform.runSync("lab", {}))["output"]
    await until(
      "the new version",
      async () => (await answer() as { version?: string }).version === "lab, again" || undefined,
      LIMIT
    )
    await row(2).getByRole("button", { name: "Deploy build 2" }).click()
    await page.getByRole("alertdialog").getByRole("button", { name: "Deploy" }).click()
    await until("the earlier version", async () => (await answer() as { version?: string }).version === "lab" || undefined, LIMIT)
    expect(browser.problems).toEqual([])
  }, 600_000)

  it("are refused with the reason while the engine does not respond", async () => {
    await world.engine.kill()
    const { body, status } = await platform.request("POST", builds("lab"))
    expect(status).toBe(409)
    expect(JSON.stringify(body)).toContain(`The container engine does not answer: there is no socket ${world.engine.socket}.`)
  }, 300_000)
})
