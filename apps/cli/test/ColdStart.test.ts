/**
 * What the wait of a job was spent on, with a real platform and real workers.
 */
import { Explanation } from "@stint/contract/Explanation"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import { expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint } from "./PlatformProcess.ts"

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
