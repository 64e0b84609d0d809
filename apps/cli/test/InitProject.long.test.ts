/**
 * A project that `stint init` wrote in a clone, installed by npm and by pnpm: type check, test, and a job on `stint dev`.
 */
import { execFile, spawn } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { stint, until } from "./PlatformProcess.ts"

const run = promisify(execFile)

const KEY = "a-key-for-this-test-only"

/** Starts `npm run dev` and runs the first job with the printed address. */
const firstJob = async (cwd: string, configDir: string): Promise<unknown> => {
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], XDG_CONFIG_HOME: configDir, STINT_API_KEY: KEY, PORT: "0" }
  const child = spawn("npm", ["run", "dev"], { cwd, env, detached: true, stdio: ["ignore", "pipe", "inherit"] })
  let output = ""
  child.stdout.on("data", (data: Buffer) => (output += data.toString()))
  try {
    const url = await until("the address of the endpoint", () => /Endpoints +(\S+\/v2\/words)/.exec(output)?.[1], 60_000)
    const response = await fetch(`${url}/runsync`, {
      method: "POST",
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      body: JSON.stringify({ input: { text: "to be or not to be" } })
    })
    return await response.json()
  } finally {
    const ended = new Promise((resolve) => child.once("exit", resolve))
    // npm does not forward the signal: end its whole process group.
    if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM")
    await ended
  }
}

describe("a project that stint init wrote in a clone", () => {
  for (const form of ["function", "effect"] as const) {
    for (const install of [["npm", "install"], ["npx", "-y", "pnpm@12", "install"]] as const) {
      it(`installs with ${install.join(" ")}, type-checks, passes its test and runs a job (${form})`, async () => {
        const folder = await mkdtemp(join(tmpdir(), "stint-project-"))
        const cwd = join(folder, "my-app")
        try {
          expect(await stint(undefined, ["init", cwd, ...form === "effect" ? ["--effect"] : []])).toMatchObject({ code: 0 })
          const [program, ...args] = install
          await run(program, args, { cwd })
          await run("npm", ["run", "types"], { cwd })
          expect((await run("npm", ["test"], { cwd })).stdout).toMatch(/2 passed/)
          expect((await run("npm", ["run", "once"], { cwd })).stdout).toContain("COMPLETED")
          expect(await firstJob(cwd, join(folder, "config"))).toMatchObject({ output: { count: 6, longest: "not" } })
        } finally {
          await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
        }
      }, 180_000)
    }
  }
})
