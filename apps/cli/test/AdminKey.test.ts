/**
 * The platform's own key: where it is and where it is not, what the banner shows, and how it is replaced.
 */
import * as Redacted from "effect/Redacted"
import { execFile } from "node:child_process"
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as BannerText from "../src/platform/BannerText.ts"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const run = promisify(execFile)

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** The files in a folder that contain a text. */
const holdersOf = async (folder: string, text: string): Promise<ReadonlyArray<string>> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const found = await Promise.all(files.map(async (file) => (await readFile(file)).includes(text) ? [file] : []))
  return found.flat()
}

const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8)

describe("the platform's key", () => {
  let platform: PlatformProcess
  beforeAll(async () => {
    platform = await PlatformProcess.create(CONFIG)
  })
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
  })

  const status = async (key: string): Promise<number> =>
    (await fetch(`${platform.url}/api/v1/endpoints`, { headers: { authorization: `Bearer ${key}` } })).status

  const copyOf = (text: string): string => /API key +in (.+)/.exec(text)?.[1] ?? ""

  it("is in the operator's configuration folder, readable by its owner only, and not in the data folder or in a log", async () => {
    const file = copyOf(platform.output)
    expect(file.startsWith(join(platform.configDir, "stint", "keys"))).toBe(true)
    expect([await modeOf(file), await modeOf(join(file, ".."))]).toEqual(["600", "700"])
    expect(platform.key).toMatch(/^stint_[\w-]{32}$/)
    expect(await holdersOf(platform.dataDir, platform.key)).toEqual([])
    expect(platform.output).not.toContain(platform.key)
    expect(await status(platform.key)).toBe(200)
  })

  it("is not visible to a handler in its environment", async () => {
    await platform.request("PUT", "/api/v1/endpoints/spy", {
      source: { type: "command", command: ["sh", "-c", "env; exit 3"] },
      maxAttempts: 1
    })
    await platform.run("spy", {})
    await until("the output of the spy", () => platform.output.includes("PLATFORM_ENDPOINT_ID=spy") ? true : undefined)
    expect(platform.output).toContain("PATH=")
    expect(platform.output).not.toContain(platform.key)
    expect(platform.output).not.toMatch(/^.*\| (?:STINT_|PORT=).*$/m)
  })

  it("is printed by `stint keys print` for other programs, from the operator's copy", async () => {
    const { code, stdout } = await stint(undefined, ["keys", "print"], {
      STINT_DATA_DIR: platform.dataDir,
      XDG_CONFIG_HOME: platform.configDir
    })
    expect([code, stdout]).toEqual([0, `${platform.key}\n`])
    const elsewhere = await stint(undefined, ["keys", "print"], { STINT_DATA_DIR: join(platform.dataDir, "no-platform") })
    expect([elsewhere.code, elsewhere.stderr]).toEqual([1, expect.stringContaining("stint keys rotate admin")])
  })

  it("can be replaced without the current key while the platform runs, and the old key stops working", async () => {
    const old = platform.key
    const workerKey = async () => {
      const { body } = await platform.request("GET", "/api/v1/endpoints/joined/worker-env")
      return (body as { readonly variables: Record<string, string> }).variables["RUNPOD_AI_API_KEY"]
    }
    const before = await workerKey()
    await rm(copyOf(platform.output))
    const rotated = await stint(undefined, ["keys", "rotate", "admin", "--json"], {
      STINT_DATA_DIR: platform.dataDir,
      XDG_CONFIG_HOME: platform.configDir
    })
    expect(rotated.code).toBe(0)
    const { file } = JSON.parse(rotated.stdout) as { readonly file: string }
    platform.key = (await readFile(file, "utf8")).trim()
    expect(platform.key).not.toBe(old)
    await until("the new key", async () => (await status(platform.key)) === 200 ? true : undefined, 5_000)
    expect(await status(old)).toBe(401)
    expect(platform.output).toContain("The platform's API key was rotated.")
    // Worker keys are independent of it: workers on other machines keep working.
    expect(await workerKey()).toBe(before)
    expect(before).toMatch(/^stint_worker_/)
  })

  it("is reported as lost at startup, with the remedy, when the operator's copy is missing", async () => {
    const file = join(platform.configDir, "stint", "keys", (await readdir(join(platform.configDir, "stint", "keys")))[0] ?? "")
    const from = platform.output.length
    await rm(file)
    await platform.end("SIGTERM")
    await platform.start()
    expect(platform.output.slice(from)).toContain(
      `API key            not in ${file}; for a new one, run: stint keys rotate admin`
    )
  })
})

describe("the platform's key in other set-ups", () => {
  const key = "chosen-by-the-operator"

  it("comes from STINT_API_KEY without being stored or printed, and the CLI refuses to rotate it", async () => {
    await using platform = await PlatformProcess.create(CONFIG, { STINT_API_KEY: key })
    expect(platform.output).toContain("API key            from STINT_API_KEY")
    expect(platform.output).not.toContain(key)
    expect((await platform.request("GET", "/api/v1/endpoints")).status).toBe(200)
    expect(await holdersOf(platform.dataDir, key)).toEqual([])
    const rotated = await stint(platform, ["keys", "rotate", "admin"], { STINT_DATA_DIR: platform.dataDir })
    expect([rotated.code, rotated.stderr]).toEqual([1, expect.stringContaining("gets its API key from STINT_API_KEY")])
  })

  it("moves out of the data folder when an earlier version stored it there, and stays valid", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "stint-moved-"))
    await writeFile(join(dataDir, "api-key"), `${key}\n`)
    await using platform = await PlatformProcess.create(CONFIG, { STINT_DATA_DIR: dataDir })
    expect(platform.key).toBe(key)
    expect((await platform.request("GET", "/api/v1/endpoints")).status).toBe(200)
    expect(await holdersOf(dataDir, key)).toEqual([])
    expect(await readdir(dataDir)).not.toContain("api-key")
    await platform.end("SIGTERM")
    await rm(dataDir, { recursive: true, force: true, maxRetries: 3 })
  })

  it("is not replaced when its digest is damaged or there is no platform", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "stint-damaged-"))
    const none = await stint(undefined, ["keys", "rotate", "admin"], { STINT_DATA_DIR: dataDir })
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("There is no platform in")])
    await writeFile(join(dataDir, "admin-key.json"), "{\"sha256\":\"half")
    const damaged = await stint(undefined, ["serve"], { STINT_DATA_DIR: dataDir, PORT: "0" })
    expect([damaged.code, damaged.stderr + damaged.stdout]).toEqual([1, expect.stringContaining("admin-key.json is damaged")])
    await rm(dataDir, { recursive: true })
  })
})

describe("the key in the banner", () => {
  const facts: BannerText.BannerFields = {
    baseUrl: "http://127.0.0.1:4600",
    place: { _tag: "File", file: "/home/o'neill/.config/stint/keys/shop", key: Redacted.make("the-key") },
    isTerminal: true,
    durability: "none",
    dataDir: undefined,
    endpoints: [],
    sample: { endpoint: "hello", input: { name: "O'Neill" } }
  }

  it("is shown only when it is new and a person reads it", () => {
    expect(BannerText.text(facts)).toContain("API key            the-key   (new, shown only this once; also in /home/o'neill/")
    expect(BannerText.text({ ...facts, isTerminal: false })).not.toContain("the-key")
    expect(BannerText.text({ ...facts, place: { _tag: "File", file: "/keys/shop", key: undefined } })).toContain(
      "API key            in /keys/shop\n"
    )
  })

  it("is read from its file by the curl command, whatever characters the path contains", async () => {
    const folder = await mkdtemp(join(tmpdir(), "stint o'neill $HOME-"))
    const file = join(folder, "shop")
    await writeFile(file, "the-key\n")
    const line = /^ +(curl .+)$/m.exec(BannerText.text({ ...facts, place: { _tag: "File", file, key: undefined } }))?.[1] ?? ""
    const { stdout } = await run("sh", ["-c", `curl() { printf '%s\\n' "$@"; }; ${line}`])
    expect(stdout.split("\n")).toEqual(
      expect.arrayContaining(["Authorization: Bearer the-key", "{\"input\":{\"name\":\"O'Neill\"}}"])
    )
    await rm(folder, { recursive: true })
  })

  it("is a variable in the curl command when the operator chose it, and there is no command when the key is lost", () => {
    expect(BannerText.text({ ...facts, place: { _tag: "Environment" } })).toContain("\"Authorization: Bearer $STINT_API_KEY\"")
    expect(BannerText.text({ ...facts, place: { _tag: "Lost", file: "/keys/shop" } })).not.toContain("curl")
  })
})
