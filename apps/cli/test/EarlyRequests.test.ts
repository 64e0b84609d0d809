import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { expect, it } from "vitest"
import { FIXTURES, freePort } from "./PlatformProcess.ts"

it("finds the configured endpoints with the first request to which a new platform responds", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-early-"))
  const key = "stint_early_requests_0123456789012345678"
  const port = await freePort()
  const child = spawn(process.execPath, [
    join(FIXTURES, "../../src/bin.ts"),
    "serve",
    "--config",
    join(FIXTURES, "stint.config.ts")
  ], {
    stdio: "ignore",
    env: { PATH: process.env["PATH"], HOME: folder, PORT: String(port), STINT_DATA_DIR: join(folder, "data"), STINT_API_KEY: key }
  })
  try {
    const ask = () =>
      fetch(`http://127.0.0.1:${port}/v2/joined/health`, { headers: { authorization: `Bearer ${key}` } })
        .then(({ status }) => status, () => undefined)
    // Without pauses: the server holds connections from its first moment.
    let status: number | undefined
    for (const deadline = Date.now() + 20_000; status === undefined && Date.now() < deadline;) status = await ask()
    expect(status).toBe(200)
  } finally {
    child.kill("SIGTERM")
    await once(child, "exit")
    await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
  }
})
