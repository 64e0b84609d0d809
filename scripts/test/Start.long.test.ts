/**
 * `npx -y pnpm@12 start` in a clone, which is how the README starts the platform: a signal to npx or to pnpm ends the platform and its
 * workers, and frees the port (docs/operations/service.md#signals). apps/cli/test/Signals.long.test.ts covers the platform's own part without
 * a registry.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { prepare, type PreparedSetting } from "../doc-settings.ts"

/** How long npx may take to find or load pnpm. Milliseconds. */
const REGISTRY_MILLIS = 60_000

/** The start builds the web console. Milliseconds. */
const START_MILLIS = 240_000

/** How long the platform and its idle workers may take to end. Milliseconds. */
const END_MILLIS = 15_000

/** Why the test cannot run here; undefined if it can. */
const missing = ((): string | undefined => {
  if (process.platform !== "linux") return "skipped: the watch over package managers needs /proc"
  try {
    execFileSync("npx", ["-y", "pnpm@12", "--version"], { stdio: "pipe", timeout: REGISTRY_MILLIS })
    return undefined
  } catch (error) {
    return `skipped: npx cannot run pnpm@12, for example because it reaches no registry: ${String(error)}`
  }
})()

interface Process {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

/** All processes, without zombies and those that exit in the meantime. */
const processes = (): ReadonlyArray<Process> =>
  readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
      const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
      if (state === "Z") return []
      return [{
        pid: Number(pid),
        parent: Number(parent),
        command: readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")
      }]
    } catch {
      return []
    }
  })

const descendantsOf = (pid: number): ReadonlyArray<Process> => {
  const all = processes()
  const of = (parent: number): ReadonlyArray<Process> =>
    all.filter((one) => one.parent === parent).flatMap((one) => [one, ...of(one.pid)])
  return of(pid)
}

const until = async <A>(what: () => string, look: () => A | undefined | Promise<A | undefined>, limitMs: number): Promise<A> => {
  const deadline = Date.now() + limitMs
  while (true) {
    const found = await look()
    if (found !== undefined) return found
    if (Date.now() > deadline) throw new Error(`timed out after ${limitMs} ms waiting for ${what()}`)
    await new Promise((next) => setTimeout(next, 50))
  }
}

/** Whether a server can listen on the port. */
const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer().once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })

describe.skipIf(missing !== undefined)(missing ?? "npx -y pnpm@12 start", () => {
  let setting: PreparedSetting
  const launched = new Set<ChildProcess>()

  beforeAll(() => {
    setting = prepare("clone")
  }, 300_000)
  afterAll(() => {
    for (const { pid = 0 } of launched) {
      for (const one of [{ pid }, ...descendantsOf(pid)]) {
        try {
          process.kill(one.pid, "SIGKILL")
        } catch {
          // The process has ended.
        }
      }
    }
    setting[Symbol.dispose]()
  }, 60_000)

  it.each([
    { victim: "npx", isVictim: undefined },
    { victim: "pnpm", isVictim: (command: string) => /pnpm\S* start/.test(command) && !/^(?:\S*\/)?(?:sh|npm) /.test(command) }
  ])("ends with its workers and frees its port on SIGTERM to $victim", async ({ isVictim }) => {
    const { env, folder } = setting.next()
    const home = join(folder, ".stint-home")
    const launcher = spawn("npx", ["-y", "pnpm@12", "start"], {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...env, HOME: home, XDG_CONFIG_HOME: home, STINT_DATA_DIR: join(home, "data"), PORT: "0" }
    })
    launched.add(launcher)
    let output = ""
    for (const stream of [launcher.stdout, launcher.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()))
    const told = () => `the platform:\n${output}`
    const url = await until(told, () => /Stint is up at +(\S+)[\s\S]*Endpoints /.exec(output)?.[1], START_MILLIS)
    const key = readFileSync(/API key +in (.+)/.exec(output)?.[1] ?? "", "utf8").trim()
    const response = await fetch(`${url}/v2/hello/runsync?wait=60000`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ input: { name: "Ann" } })
    })
    expect(await response.json()).toMatchObject({ status: "COMPLETED" })

    const pid = launcher.pid ?? 0
    const tree = descendantsOf(pid)
    const commands = tree.map((one) => `${one.pid} ${one.command}`).join("\n")
    // pnpm, the platform and a worker.
    expect(tree.length, commands).toBeGreaterThanOrEqual(3)
    const victim = isVictim === undefined ? pid : tree.find(({ command }) => isVictim(command))?.pid
    expect(victim, commands).toBeDefined()
    const begun = Date.now()
    process.kill(victim ?? 0, "SIGTERM")
    const isOver = () => {
      const running = new Set(processes().map((one) => one.pid))
      return tree.some((one) => running.has(one.pid)) ? undefined : true
    }
    await until(() => `the end of all processes:\n${commands}\n${output}`, isOver, END_MILLIS)
    const ms = Date.now() - begun
    expect(await isFree(Number(new URL(url).port))).toBe(true)
    expect(output).toContain("no new jobs are started")
    process.stdout.write(
      `SIGTERM to ${victim}: ${tree.length} processes ended within ${ms} ms: ${/.*no new jobs are started/.exec(output)?.[0]}\n`
    )
  }, START_MILLIS + 120_000)
})
