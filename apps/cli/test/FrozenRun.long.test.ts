/**
 * A worker of a pipeline is frozen in a step until another worker has its run. The platform refuses the record that it writes afterwards.
 */
import { RunJournalResponse } from "@stint/contract/RunJournal"
import * as Schema from "effect/Schema"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { linesOf } from "./JournalKills.ts"
import { endOf } from "./PipelineScenario.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { RecordingProxy } from "./RecordingProxy.ts"

const decodeResponse = Schema.decodeUnknownSync(Schema.fromJsonString(RunJournalResponse))

/** A limit for waits that only a broken platform reaches. Milliseconds. */
const GENEROUS = 120_000

describe("a worker that is frozen in a step past its lease", () => {
  it("R2: loses its run to another worker, and the platform refuses its record when it continues", async () => {
    const address = { platform: "" }
    await using proxy = await RecordingProxy.listen(() => address.platform)
    await using platform = await PlatformProcess.create(
      ["serve", "--config", join(FIXTURES, "frozen.config.ts")],
      { PROXY: proxy.url }
    )
    address.platform = platform.url
    const log = join(platform.dataDir, "steps")
    const processesOf = async (path: string) =>
      (await linesOf(log)).filter((line) => line.startsWith(path)).map((line) => Number(line.split(" ")[1]))

    const id = await platform.run("frozen", { log })
    const first = await until("the step to begin", async () => (await processesOf("work"))[0], GENEROUS)
    process.kill(first, "SIGSTOP")
    const [second] = await until("another worker to have recorded the step", async () => {
      const found = await processesOf("rest")
      return found.length === 0 ? undefined : found
    }, GENEROUS)
    expect(second).not.toBe(first)

    const answers: Array<string> = []
    proxy.intercept = ({ answer, body, moment, url }) => {
      const isFirst = url.includes(`pid=${first}`)
      if (isFirst && moment === "after" && url.includes("run-journal") && body.includes("\"path\":\"work\"")) answers.push(answer)
      // The frozen worker must not learn from a stop signal that it has lost the run.
      return Promise.resolve(isFirst && url.includes("job-stop"))
    }
    await writeFile(`${log}.thawed`, "")
    process.kill(first, "SIGCONT")
    const answer = await until("the record of the frozen worker", () => answers[0], GENEROUS)
    expect(decodeResponse(answer).runs).toMatchObject([{ run: id, state: "lost" }])

    await writeFile(`${log}.released`, "")
    expect(await endOf(platform, "frozen", id)).toMatchObject({ status: "COMPLETED", output: second })
    const { body } = await platform.request("GET", `/v2/frozen/steps/${id}`)
    expect(body).toMatchObject({ steps: [{ path: "work", output: second }, { path: "rest", output: second }] })
    expect(await processesOf("rest")).toEqual([second])
  }, 4 * GENEROUS)
})
