/**
 * Builds that fail, and other ways to start one, on a real engine with a real registry (docs/operations/builds.md).
 * GitToRollback.long.test.ts follows builds to releases.
 */
import { build as bundle } from "esbuild"
import { execFileSync } from "node:child_process"
import { createHmac } from "node:crypto"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import process from "node:process"
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

/** The ids of the processes with such a program and arguments. */
const processesOf = (isWanted: (args: ReadonlyArray<string>) => boolean): ReadonlyArray<number> =>
  readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((name) => {
    try {
      return isWanted(readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0")) ? [Number(name)] : []
    } catch {
      // The process has ended since.
      return []
    }
  })

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

  /** Its build waits in its only step. */
  const WAITING = [
    `FROM ${BASE}`,
    "RUN [\"/usr/local/bin/node\", \"-e\", \"console.log('waiting'); setTimeout(() => {}, 600000)\"]",
    ""
  ].join("\n")

  /** Makes an image for another machine than this one. */
  const importArm = async (name: string): Promise<void> => {
    const archive = join(world.folder, "empty.tar")
    execFileSync("tar", ["--create", "--file", archive, "--files-from", "/dev/null"])
    await world.engine.podman("import", "--quiet", "--arch", "arm64", archive, name)
  }

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

  it("roll a new version of a Python worker out under load without a failed job, and back", async () => {
    const source = readFileSync(join(FIXTURES, "worker.py"), "utf8")
    const deploy = async (version: string) => {
      const text = source.replace(`{"pid": os.getpid()}`, `{"version": "${version}"}`)
      expect(text, "the worker names its version").not.toBe(source)
      commit("python", { "worker.py": text })
      const done = await build("python", { handler: "worker.py", baseImage: PYTHON })
      expect(done, done.reason).toMatchObject({ state: "succeeded" })
    }
    const answers: Array<unknown> = []
    const loading = new AbortController()
    const load = async () => {
      while (!loading.signal.aborted) {
        const job = await platform.ended("python", await platform.run("python", { ms: 100 }), LIMIT)
        // A job whose worker was lost completes in another attempt, which a roll must not cost.
        const isWhole = job.status === "COMPLETED" && job.retries === undefined
        answers.push(isWhole ? (job.output as { readonly version: string }).version : job)
      }
    }
    /** The last answers, which are all of one version once the workers of the other one have gone. */
    const only = (version: string) =>
      until(`only answers of ${version}`, () => {
        const last = answers.slice(-10)
        return last.length === 10 && last.every((answer) => answer === version) ? true : undefined
      }, LIMIT)

    await world.engine.makePythonImage(PYTHON)
    await deploy("one")
    const loads = [load(), load()]
    try {
      await only("one")
      await deploy("two")
      await only("two")
      await run("rollback", "python", "--yes")
      await only("one")
    } finally {
      loading.abort()
      await Promise.all(loads)
    }
    process.stdout.write(`Python, a roll and a rollback: ${answers.length} jobs, 0 failed or retried\n`)
    expect(new Set(answers)).toEqual(new Set(["one", "two"]))
  }, 600_000)

  it("give a new image some of the jobs as a canary, which is promoted or rolled back", async () => {
    const settings = { canary: { percent: 50, minJobs: 50 } }
    const release = async (number: number): Promise<{ readonly state: string; readonly reason?: string }> => {
      const { body } = await platform.request("GET", "/api/v1/endpoints/gradual/releases")
      const { releases } = body as { readonly releases: ReadonlyArray<{ readonly number: number; readonly state: string }> }
      return releases.find((one) => one.number === number) ?? { state: "missing" }
    }
    const buildOf = async (version: string) => {
      commit("gradual", { Dockerfile: DOCKERFILE, "handler.mjs": handler(version) })
      const done = await build("gradual", settings)
      expect(done, done.reason).toMatchObject({ state: "succeeded" })
      return done
    }
    /** Runs jobs one after another, and returns their versions. A job whose attempts all failed has none. */
    const versions = async (jobs: number): Promise<ReadonlyArray<string | undefined>> => {
      const all: Array<string | undefined> = []
      for (let n = 0; n < jobs; n++) {
        all.push(((await platform.runSync("gradual", {})).output as { readonly version: string } | undefined)?.version)
      }
      return all
    }

    // The first release of an endpoint replaces none, so it gets all jobs.
    expect(await buildOf("first")).toMatchObject({ release: 1 })
    expect(await versions(1)).toEqual(["first"])

    const faulty = await buildOf("faulty second")
    expect(faulty).toMatchObject({ release: 2 })
    expect(await logOf("gradual", faulty.number)).toContain("50 %")
    await until("the canary to be rolled back", async () => {
      await versions(10)
      return (await release(2)).state === "failed" ? true : undefined
    }, LIMIT)
    expect(await release(2)).toMatchObject({ reason: expect.stringMatching(/attempts \(100 %\)/) })
    await until(
      "only answers of the first release",
      async () => (await versions(10)).every((version) => version === "first") ? true : undefined,
      LIMIT
    )

    await buildOf("third")
    const seen = await until("answers of both releases", async () => {
      const some = new Set(await versions(10))
      return some.has("third") && some.has("first") ? some : undefined
    }, LIMIT)
    expect(seen).toEqual(new Set(["first", "third"]))
    await run("releases", "promote", "gradual", "--yes")
    await until(
      "only answers of the promoted release",
      async () => (await versions(10)).every((version) => version === "third") ? true : undefined,
      LIMIT
    )
    expect(await release(3)).toMatchObject({ state: "active" })
  }, 600_000)

  it("reject an image for another machine and say how to build the right one", async () => {
    await importArm("localhost/stint-arm:1")
    commit("arm", { Dockerfile: "FROM localhost/stint-arm:1\nCOPY Dockerfile /\n" })
    const failed = await build("arm", {})
    expect(failed).toMatchObject({ state: "failed" })
    expect(failed.reason).toContain(
      "The image is built for linux/arm64, and the workers' machine runs linux/amd64. Build it for linux/amd64"
    )
    expect((await platform.request("GET", "/api/v1/endpoints/arm")).status).toBe(404)
  }, 300_000)

  /** Waits until the explanation of a waiting job contains these words, and returns all of it. */
  const explained = (endpoint: string, id: string, words: string) =>
    until(`the words "${words}"`, async () => {
      const text = JSON.stringify((await platform.request("GET", `/v2/${endpoint}/status/${id}?explain`)).body)
      return text.includes(words) ? text : undefined
    }, LIMIT)

  it("tell a waiting job that the registry rejects the password, and run it with the right one", async () => {
    commit("pulled", { Dockerfile: DOCKERFILE, "handler.mjs": handler("pulled") })
    const done = await build("pulled", {})
    expect(done, done.reason).toMatchObject({ state: "succeeded", release: 1 })
    // As on another machine, which has to pull the image. The platform may still be pulling it in advance, with the right password.
    world.registry.writeCredentials(world.credentials, "wrong-password")
    let absences = 0
    await until("the image to stay away", async () => {
      const image = (await world.engine.podman("images", "--quiet", `${world.registry.address}/team/pulled`)).trim()
      if (image !== "") await world.engine.podman("rmi", "--force", image)
      absences = image === "" ? absences + 1 : 0
      return absences >= 10 || undefined
    }, LIMIT)
    const job = await platform.run("pulled", {})
    // A worker that was about to start with the removed image fails for another reason.
    const words = await explained("pulled", job, "rejects the credentials").finally(() =>
      world.registry.writeCredentials(world.credentials, PASSWORD)
    )
    expect(words).toContain("workers fail to start")
    expect(words).toContain(`${done.image} cannot be started: ${world.registry.address} rejects the credentials (`)
    expect(words).toContain(
      `Correct the entry for ${world.registry.address} in ${world.credentials}: docker login ${world.registry.address}.`
    )
    expect(await platform.ended("pulled", job, LIMIT)).toMatchObject({ status: "COMPLETED", output: { version: "pulled" } })
  }, 300_000)

  it("tell a waiting job that the registry's image is for another machine", async () => {
    const image = `${world.registry.address}/team/arm-worker:1`
    const index = `${world.registry.address}/team/arm-index:1`
    const auth = ["--authfile", world.credentials]
    await importArm(image)
    await world.engine.podman("push", "--quiet", ...auth, image)
    await world.engine.podman("manifest", "create", index)
    await world.engine.podman("manifest", "add", ...auth, index, `docker://${image}`)
    await world.engine.podman("manifest", "push", "--all", ...auth, index, `docker://${index}`)
    await world.engine.podman("manifest", "rm", index)
    await world.engine.podman("rmi", "--force", image)
    const cases = [
      ["armed", image, "it is built for linux/arm64"],
      ["listed", index, "it is only built for other machines (choosing an image"]
    ] as const
    for (const [endpoint, one, problem] of cases) {
      const created = await platform.request("POST", "/api/v1/endpoints", {
        id: endpoint,
        source: { type: "container", image: one }
      })
      expect(created.status, JSON.stringify(created.body)).toBe(201)
      const words = await explained(endpoint, await platform.run(endpoint, {}), "workers fail to start")
      expect(words).toContain(`The image ${one} cannot be started: ${problem}`)
      expect(words).toContain(
        `, and this machine runs linux/amd64. Build it for this machine: docker build --platform linux/amd64 --tag ${one} . (and`
      )
    }
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
    commit("slow", { Dockerfile: WAITING })
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

  it("fail with the reason after the engine's build was killed, and the next one succeeds", async () => {
    commit("killed", { Dockerfile: WAITING })
    await platform.request("PUT", "/api/v1/endpoints/killed/build-settings", { repository: join(world.repositories, "killed") })
    await platform.request("POST", builds("killed"))
    await until("the running step", async () => (await logOf("killed", 1)).includes("\nwaiting") ? true : undefined, LIMIT)
    const pid = await until(
      "the engine's program",
      () => processesOf((args) => args[0] === "podman" && args.some((arg) => arg.includes("/team/killed:build-1-")))[0]
    )
    process.kill(pid, "SIGKILL")
    expect(await ended("killed", 1)).toMatchObject({
      state: "failed",
      reason: expect.stringMatching(
        /^The engine's build was killed .*Another program ended it, or memory ran out, which `dmesg` would show\./
      )
    })
    commit("killed", { Dockerfile: DOCKERFILE, "handler.mjs": handler("repaired") })
    expect(await build("killed", {})).toMatchObject({ number: 2, state: "succeeded" })
  }, 300_000)

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

  it("are configured in the console, also for an endpoint that does not exist yet", async ({ skip }) => {
    skip(chromium === undefined, "PATH has no chromium: apt-get install chromium")
    buildConsole()
    await using browser = await ConsoleBrowser.open(platform.url)
    const page = await browser.page(await browser.window())
    await browser.login(page, platform.key)

    commit("fresh", { "app/Dockerfile": DOCKERFILE, "app/handler.mjs": handler("fresh") })
    await page.getByRole("link", { name: "New endpoint from a repository" }).click()
    await page.getByRole("button", { name: "Save and build" }).click()
    await page.getByText("Write https://HOST/PATH").waitFor()
    await page.getByLabel("Repository").fill(join(world.repositories, "fresh"))
    await page.getByLabel("Endpoint", { exact: true }).fill("lab")
    await page.getByRole("button", { name: "Save and build" }).click()
    await page.getByText("This endpoint exists.").waitFor()
    await page.getByLabel("Endpoint", { exact: true }).fill("fresh")
    await page.getByLabel("Build context (a folder)").fill("app")
    await page.getByLabel("Dockerfile", { exact: true }).fill("app/Dockerfile")
    expect(await browser.isTooWide(page)).toBe(false)
    // The picture has an address that readers know.
    await page.getByLabel("Repository").fill("https://git.example.com/team/words.git")
    await page.evaluate("window.scrollTo(0, 0)")
    await browser.picture(page, "build-settings")
    await page.getByLabel("Repository").fill(join(world.repositories, "fresh"))
    expect(await browser.violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    await until("a page that fits", async () => !await browser.isTooWide(page) || undefined)
    await browser.picture(page, "build-settings-phone")
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.getByRole("button", { name: "Save and build" }).click()

    // The first build is shown before the endpoint exists.
    await page.getByText("The first successful build creates this endpoint.").waitFor()
    await page.getByText("Succeeded").waitFor({ timeout: LIMIT })
    await page.getByRole("link", { name: "Open the endpoint" }).click({ timeout: LIMIT })
    expect(await platform.runSync("fresh", {})).toMatchObject({ status: "COMPLETED", output: { version: "fresh" } })

    await page.getByRole("tab", { name: "Builds" }).click()
    await page.getByRole("button", { name: "Change the build settings" }).click()
    await page.getByLabel("Canary, percent of the jobs").fill("70")
    await page.getByText("Write a whole number from 1 to 50.").waitFor()
    expect(await page.getByRole("button", { name: "Save" }).isDisabled()).toBe(true)
    await page.getByLabel("Canary, percent of the jobs").fill("20")
    await page.getByRole("button", { name: "Add a value" }).click()
    await page.getByLabel("Name of the variable").fill("GREETING")
    await page.getByLabel("Value of GREETING").fill("hello")
    await page.getByRole("button", { name: "Save" }).click()
    await page.getByRole("button", { name: "Change the build settings" }).waitFor()
    const { body } = await platform.request("GET", "/api/v1/endpoints/fresh/build-settings")
    expect(body).toEqual({
      repository: join(world.repositories, "fresh"),
      context: "app",
      dockerfile: "app/Dockerfile",
      args: { GREETING: "hello" },
      canary: { percent: 20, minJobs: 50, maxPoints: 5 }
    })
    expect(browser.problems).toEqual([])
  }, 300_000)

  it("are refused with the reason while the engine does not respond", async () => {
    await world.engine.kill()
    const { body, status } = await platform.request("POST", builds("lab"))
    expect(status).toBe(409)
    expect(JSON.stringify(body)).toContain(`The container engine does not answer: there is no socket ${world.engine.socket}.`)
  }, 300_000)
})
