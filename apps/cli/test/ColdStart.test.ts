/**
 * What the wait of a job was spent on, with a real platform and real workers.
 */
import { Explanation } from "@stint/contract/Explanation"
import * as Schema from "effect/Schema"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const folder = await mkdtemp(join(tmpdir(), "stint-cold-"))
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Each job is a cold start. */
const COLD = `export default { endpoints: { cold: { handler: ${
  JSON.stringify(join(FIXTURES, "slow.ts"))
}, workers: { idleTimeout: 0 } } } }`

const decode = Schema.decodeUnknownSync(Schema.Struct({ delayTime: Schema.Int, explain: Explanation }))

it("breaks the wait for a cold start down into parts that add up, and shows them in `stint status`", async () => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
  const { id } = await platform.runSync("one", {})
  const { delayTime, explain: { wait } } = decode((await platform.request("GET", `/v2/one/status/${id}?explain`)).body)
  expect(wait?.millis).toBe(delayTime)
  expect(wait?.unknown).toBeUndefined()
  const parts = wait?.parts ?? []
  expect(parts.reduce((sum, { millis }) => sum + millis, 0)).toBe(wait?.millis)
  expect(parts.map(({ phase }) => phase)).toContain("start")
  const { stdout } = await stint(platform, ["status", "one", id])
  expect(stdout).toContain(`waited   ${wait?.millis} ms: ${wait?.words}\n`)
  expect(stdout).not.toContain("why ")
}, 60_000)

it("starts a worker in a standby process with STINT_SPARE_WORKERS, and says so in the explanation of the job", async () => {
  const config = join(folder, "stint.config.ts")
  await using platform = await PlatformProcess.create(
    ["serve", "--config", config],
    { STINT_SPARE_WORKERS: "1" },
    () => writeFile(config, COLD)
  )
  // The first starts happen before the handler is bundled and the standby waits.
  const words = await until("a start in a standby process", async () => {
    const { id } = await platform.runSync("cold", {})
    const { explain: { wait } } = decode((await platform.request("GET", `/v2/cold/status/${id}?explain`)).body)
    return wait?.standby === true ? wait.words : undefined
  }, 60_000)
  expect(words).toContain("a standby process became the worker")
}, 120_000)
