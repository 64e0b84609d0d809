/**
 * Keys throughout the life of a platform: created by the CLI, used by an existing client, rotated, revoked, valid after restarts, and never stored
 * in plain text.
 */
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import runpodSdk from "runpod-sdk"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

interface Made {
  readonly key: { readonly id: string; readonly name: string; readonly previousUntil?: number }
  readonly secret: string
}

const madeOf = ({ code, stderr, stdout }: Awaited<ReturnType<typeof stint>>): Made => {
  if (code !== 0) throw new Error(`stint ended with ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

/** The contents of every file in a folder. */
const filesOf = async (folder: string): Promise<ReadonlyArray<readonly [name: string, bytes: Buffer]>> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return Promise.all(
    entries.filter((entry) => entry.isFile()).map(async (entry) => {
      const file = join(entry.parentPath, entry.name)
      return [file, await readFile(file)] as const
    })
  )
}

// Some tests run ten commands, each of them a process.
vi.setConfig({ testTimeout: 60_000 })

describe("stint keys", () => {
  let platform: PlatformProcess
  /** Every secret that these tests created. */
  const secrets: Array<string> = []

  const make = async (...args: ReadonlyArray<string>): Promise<Made> => {
    const made = madeOf(await stint(platform, ["keys", ...args, "--json"]))
    secrets.push(made.secret)
    return made
  }
  const status = async (endpoint: string, key: string): Promise<number> =>
    (await fetch(`${platform.url}/v2/${endpoint}/health`, { headers: { authorization: `Bearer ${key}` } })).status

  beforeAll(async () => {
    // The client logs its calls on the console.
    vi.spyOn(console, "log").mockImplementation(() => {})
    platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
  })
  afterAll(async () => {
    vi.restoreAllMocks()
    await platform[Symbol.asyncDispose]()
  })

  it("a key of one endpoint runs jobs of that endpoint only, through the runpod-sdk client", async () => {
    const { key, secret } = await make("create", "shop", "--endpoint", "slow")
    expect(secret.startsWith(`stint_${key.id}_`)).toBe(true)
    const client = (endpoint: string) => {
      const found = runpodSdk(secret, { baseUrl: `${platform.url}/v2` }).endpoint(endpoint)
      if (found === null) throw new Error("no endpoint")
      return found
    }
    expect(await client("slow").runSync({ input: { n: 3 } })).toMatchObject({ status: "COMPLETED", output: { n: 3 } })
    const refusal = await client("one").run({ input: {} }).then(() => undefined, (error: unknown) => error)
    expect(refusal).toMatchObject({
      response: {
        status: 403,
        data: {
          error: expect.stringContaining("is valid for the endpoint \"slow\", not for \"one\""),
          hint: expect.stringContaining(platform.url)
        }
      }
    })
    const cli = await stint(platform, ["keys", "list"], { STINT_API_KEY: secret })
    expect(cli.code).toBe(1)
    expect(cli.stderr).toContain("requires the scope \"admin\"")
  })

  it("prints the secret once with a warning, and never in a list", async () => {
    const made = await stint(platform, [
      "keys",
      "create",
      "for people",
      "--all-endpoints",
      "--limit",
      "100",
      "--expires-in",
      "30 days"
    ])
    expect(made.code).toBe(0)
    const secret = /stint_[0-9a-f]{16}_\S{43}/.exec(made.stdout)?.[0] ?? ""
    secrets.push(secret)
    expect(made.stdout).toContain("The secret is shown only once")
    const list = await stint(platform, ["keys", "list"])
    expect(list.stdout).toMatch(/for people +ACTIVE +jobs +all +100 in 10 s/)
    const json = await stint(platform, ["keys", "list", "--json"])
    expect(JSON.parse(json.stdout)).toContainEqual(
      expect.objectContaining({ name: "for people", endpoints: "all", rateLimit: { limit: 100, perMs: 10_000 } })
    )
    for (const one of secrets) expect(list.stdout + json.stdout).not.toContain(one)
  })

  it("updates a key in use: endpoints, name, expiry and rate limit are set and removed", async () => {
    const { key, secret } = await make("create", "changing", "--endpoint", "slow")
    expect([await status("slow", secret), await status("one", secret)]).toEqual([200, 403])
    const update = async (...flags: ReadonlyArray<string>) => {
      const { code, stderr, stdout } = await stint(platform, ["keys", "update", key.id, ...flags, "--json"])
      if (code !== 0) throw new Error(stderr)
      return JSON.parse(stdout)
    }
    const moved = await update(
      "--endpoint",
      "one",
      "--name",
      "moved",
      "--expires-in",
      "1 day",
      "--limit",
      "5",
      "--per",
      "1 minute"
    )
    expect(moved).toMatchObject({ id: key.id, name: "moved", endpoints: ["one"], rateLimit: { limit: 5, perMs: 60_000 } })
    expect(moved.expiresAt).toBeGreaterThan(Date.now())
    expect([await status("slow", secret), await status("one", secret)]).toEqual([403, 200])
    const freed = await update("--all-endpoints", "--no-expires-in", "--no-limit")
    expect(freed).toMatchObject({ name: "moved", endpoints: "all", scopes: ["jobs"] })
    expect([freed.expiresAt, freed.rateLimit]).toEqual([undefined, undefined])
    expect([await status("slow", secret), await status("one", secret)]).toEqual([200, 200])
  })

  it(
    "rejects an update that is empty, contradictory or grants too much, with a reason; the response to a valid update never contains the secret",
    async () => {
      const { key, secret } = await make("create", "words", "--endpoint", "slow")
      const words = await stint(platform, ["keys", "patch", secret, "--scope", "admin"])
      expect(words).toMatchObject({ code: 0, stdout: expect.stringContaining("Changed the key \"words\"") })
      expect(words.stdout).toContain("admin of every endpoint, without end, no limit of its own. Its secret stays.")
      expect(words.stdout).not.toContain(secret)
      for (
        const [flags, message] of [
          [[], "No change was given"],
          [["--limit", "1", "--no-limit"], "--limit or --no-limit, not both"],
          [["--scope", "jobs"], "without the scopes admin and deploy"]
        ] as const
      ) {
        const refused = await stint(platform, ["keys", "update", key.id, ...flags])
        expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(message)])
      }
    },
    60_000
  )

  it("the old secret of a rotated key works until its grace period ends, even after a restart; a revoked key does not work", async () => {
    const { key, secret: first } = await make("create", "moving", "--endpoint", "slow")
    const second = await make("rotate", key.id, "--grace", "1 hour")
    expect(second.key.previousUntil).toBeGreaterThan(Date.now())
    expect([await status("slow", first), await status("slow", second.secret)]).toEqual([200, 200])

    await platform.end("SIGKILL")
    await platform.start()
    expect([await status("slow", first), await status("slow", second.secret)]).toEqual([200, 200])

    const third = await make("rotate", key.id, "--grace", "1 second")
    await until("the old secrets to end", async () => (await status("slow", first)) === 401 ? true : undefined)
    expect([await status("slow", second.secret), await status("slow", third.secret)]).toEqual([401, 200])

    // Passing the whole secret instead of the id is an easy mistake, so the CLI accepts it.
    const revoked = await stint(platform, ["keys", "revoke", third.secret])
    expect(revoked).toMatchObject({ code: 0, stdout: expect.stringContaining("Revoked the key \"moving\"") })
    expect(await status("slow", third.secret)).toBe(401)
    await platform.end("SIGTERM")
    await platform.start()
    expect(await status("slow", third.secret)).toBe(401)
    const used = await stint(platform, ["run", "slow", "--input", "{}"], { STINT_API_KEY: third.secret })
    expect(used.stderr).toMatch(/The key "moving" \([0-9a-f]{16}\) was revoked on \d{4}-/)
  })

  it("revoking a leaked admin key names the keys that it issued, and revokes them on request", async () => {
    const issue = async (authorization: string, name: string): Promise<Made> => {
      const body = JSON.stringify({ name, scopes: ["admin"] })
      const made = await fetch(`${platform.url}/api/v1/keys`, { method: "POST", headers: { authorization }, body })
      return await made.json() as Made
    }
    const leaked = await issue(platform.key, "leaked")
    const hidden = await issue(leaked.secret, "hidden")
    secrets.push(leaked.secret, hidden.secret)
    const listed = await stint(platform, ["keys", "revoke", leaked.key.id])
    expect(listed.stdout).toMatch(new RegExp(`issued with it and still work; .* --with-issued\n  ${hidden.key.id}  hidden`))
    expect(await status("slow", hidden.secret)).toBe(200)
    const ended = await stint(platform, ["keys", "revoke", leaked.key.id, "--with-issued"])
    expect(ended.stdout).toMatch(new RegExp(`Also revoked, because they were issued with it:\n  ${hidden.key.id}  hidden`))
    expect(await status("slow", hidden.secret)).toBe(401)
  })

  it("a key with the worker scope lets a worker connect", async () => {
    const { secret } = await make("create", "rack", "--scope", "worker", "--endpoint", "joined")
    const id = await platform.run("joined", { n: 1 })
    const worker = (path: string, body?: unknown) =>
      fetch(`${platform.url}/v2/joined/${path}`, {
        method: body === undefined ? "GET" : "POST",
        headers: { authorization: secret },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
    expect(await (await worker("job-take/w")).json()).toMatchObject({ id })
    expect((await worker(`job-done/w/${id}`, { output: "joined" })).status).toBe(200)
    expect(await platform.job("joined", id)).toMatchObject({ status: "COMPLETED", output: "joined" })
    expect(await status("joined", secret)).toBe(403)
  })

  it.each([
    [["create", "x"], "needs at least one endpoint"],
    [["create", "x", "--endpoint", "nope"], "no endpoint \"nope\""],
    [["create", "x", "--endpoint", "slow", "--all-endpoints"], "not both"],
    [["create", "x", "--endpoint", "slow", "--scope", "admin"], "scope admin or deploy is valid for every endpoint"],
    [["create", "x", "--endpoint", "slow", "--concurrent", "3"], "--concurrent needs --limit"],
    [["create", "x", "--endpoint", "slow", "--limit", "3", "--per", "1500 millis"], "perMs"],
    [["rotate", "nope"], "no key \"nope\""],
    [["revoke", "nope"], "no key \"nope\""]
  ])("explains what is wrong with keys %j", async (args, words) => {
    const { code, stderr, stdout } = await stint(platform, ["keys", ...args])
    expect(code).toBe(1)
    expect(stderr + stdout).toContain(words)
    expect(stderr + stdout).not.toMatch(/\n\s+at /)
  })

  it("no secret appears in the data folder or in the platform's output, during and after the run", async () => {
    expect(secrets.length).toBeGreaterThanOrEqual(5)
    const holders = async () =>
      (await filesOf(platform.dataDir)).filter(([, bytes]) => secrets.some((secret) => bytes.includes(secret))).map(([file]) =>
        file
      )
    expect(await holders()).toEqual([])
    await platform.end("SIGTERM")
    const files = await filesOf(platform.dataDir)
    // The key ids are present, which shows that the search below covers the stored keys.
    expect(files.some(([, bytes]) => bytes.includes("for people"))).toBe(true)
    expect(await holders()).toEqual([])
    for (const secret of secrets) expect(platform.output).not.toContain(secret)
    await platform.start()
  })
})
