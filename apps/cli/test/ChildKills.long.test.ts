/**
 * kill -9 of the platform, alone and together with its workers, before and after it stores the end of a run's job, an event, and a park.
 * JournalKills.ts does the same for the records of a run.
 */
import { RunJournalRequest, RunJournalResponse } from "@stint/contract/RunJournal"
import { missing } from "@stint/store-postgres/testing"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import process from "node:process"
import { describe, it } from "vitest"
import { linesOf } from "./JournalKills.ts"
import { endOf } from "./PipelineScenario.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { type Intercepted, RecordingProxy } from "./RecordingProxy.ts"
import { startDatabase } from "./SharedDatabase.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "pipelines.config.ts")]

/** A limit for waits that only a broken platform reaches. Milliseconds. */
const GENEROUS = 120_000

/** The maximum number of parks that are killed. How often a run parks depends on the time. */
const MOST_PARKS = 4

const decodeRequest = Schema.decodeUnknownSync(Schema.fromJsonString(RunJournalRequest))
const decodeResponse = Schema.decodeUnknownSync(Schema.fromJsonString(RunJournalResponse))
const decodeDone = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ output: Schema.Number })))

/** What a call does, if it is killed. */
const whatOf = ({ body, url }: Intercepted): string | undefined => {
  if (url.includes("/child/job-done/")) return `end of job ${decodeDone(body).output / 10}`
  if (url.endsWith("/called/events")) return "event"
  const park = url.includes("/called/run-journal/")
    ? decodeRequest(body).runs.find((run) => run.park !== undefined)?.park
    : undefined
  return park === undefined ? undefined : `park ${park.seen}`
}

/** Whether the platform has stored what the call does. */
const isStored = ({ answer, status, url }: Intercepted): boolean =>
  status === 200 && (!url.includes("/run-journal/") || decodeResponse(answer).runs.some(({ state }) => state === "parked"))

describe.concurrent.each([
  { victim: "platform", killsWorkers: false, isShared: false },
  { victim: "platform together with its workers", killsWorkers: true, isShared: false },
  { victim: "node of a PostgreSQL database", killsWorkers: false, isShared: true }
])("kill -9 of the $victim", ({ isShared, killsWorkers, victim }) => {
  it(
    "R14: loses no end of a job, no event and no wake, and begins no ended job again, at each of them",
    async ({ expect, skip }) => {
      if (isShared && missing !== undefined) skip(missing)
      const address = { platform: "" }
      await using proxy = await RecordingProxy.listen(() => address.platform)
      await using database = isShared ? await startDatabase() : undefined
      await using platform = await PlatformProcess.create(CONFIG, {
        PROXY: proxy.url,
        CHILD_PROXY: proxy.url,
        ...database?.settings
      })
      address.platform = platform.url
      const log = join(platform.dataDir, "begun")
      const moments = new Set<string>()
      const workers = new Set<number>()
      /** How often each job had begun when its end was stored. */
      const ended = new Map<string, number>()
      const failures: Array<unknown> = []

      const begunOf = async (n: string) => (await linesOf(log)).filter((line) => line === `job[${n}]#1`).length

      const kill = async () => {
        for (const pid of killsWorkers ? workers : []) {
          workers.delete(pid)
          try {
            process.kill(pid, "SIGKILL")
          } catch {
            // A worker of an earlier platform exits when it has nothing to do.
          }
        }
        await platform.end("SIGKILL")
        await platform.start()
      }
      let killing: Promise<void> = Promise.resolve()

      const intercept = async (call: Intercepted): Promise<boolean> => {
        const pid = Number(new URL(call.url, platform.url).searchParams.get("pid"))
        if (pid > 0 && call.moment === "before") workers.add(pid)
        const what = whatOf(call)
        if (what === undefined || (call.moment === "after" && !isStored(call))) return false
        const [job] = /\d+$/.exec(what.startsWith("end") ? what : "") ?? []
        if (call.moment === "after" && job !== undefined && !ended.has(job)) ended.set(job, await begunOf(job))
        const moment = `${call.moment} ${what}`
        const parks = [...moments].filter((one) => one.startsWith(`${call.moment} park`)).length
        if (moments.has(moment) || (what.startsWith("park") && parks === MOST_PARKS)) return false
        moments.add(moment)
        killing = killing.then(kill)
        await killing
        return true
      }
      proxy.intercept = (call) =>
        intercept(call).catch((error: unknown) => {
          failures.push(error)
          return false
        })

      const id = await platform.run("called", { log })
      // The run waits without a worker when the event arrives.
      await until(
        "the park to be stored",
        () => [...moments].some((one) => one.startsWith("after park")) || undefined,
        4 * GENEROUS
      )
      const answer = await until("the event to be accepted", async () => {
        const response = await fetch(`${proxy.url}/v2/called/events`, {
          method: "POST",
          headers: { authorization: `Bearer ${platform.key}` },
          body: JSON.stringify({ name: "go", data: true, id: "go-1" })
        }).catch(() => undefined)
        return response?.status === 200 ? response.json() : undefined
      }, GENEROUS)
      expect(await endOf(platform, "called", id)).toMatchObject({ status: "COMPLETED", output: "10 20 2" })
      await killing
      expect(failures).toEqual([])

      // The first event was stored, but its sender did not learn it.
      expect(answer).toMatchObject({ duplicate: true })
      const fixed = ["end of job 1", "end of job 2", "event"]
      expect([...moments].filter((one) => !one.includes("park")).toSorted()).toEqual(
        ["after", "before"].flatMap((moment) => fixed.map((what) => `${moment} ${what}`))
      )
      expect([...moments].some((one) => one.startsWith("before park"))).toBe(true)
      expect([...ended.keys()].toSorted()).toEqual(["1", "2"])
      for (const [job, times] of ended) expect([job, await begunOf(job)]).toEqual([job, times])
      expect((await linesOf(log)).filter((line) => line.startsWith("last"))).toEqual(["last#1"])
      process.stdout.write(`kill -9 of the ${victim} at ${moments.size} ends, events and parks: ${[...moments].join(", ")}\n`)
    },
    5 * GENEROUS
  )
})
