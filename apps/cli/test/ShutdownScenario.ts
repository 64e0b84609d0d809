/**
 * SIGTERM under load between real processes (R13): running jobs finish within the grace period, and no finished job runs again. The scenario
 * returns the rules that its history breaks, so that Crashes.long.test.ts can require none, and PlantedBugs.long.test.ts can require that a
 * planted bug is detected.
 */
import { History } from "@stint/store-testing"
import { join } from "node:path"
import type { ScenarioOptions, ScenarioResult } from "./FaultScenarios.ts"
import * as JsonLines from "./JsonLines.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** A line that a job of fixtures/slow.ts wrote. */
export interface HistoryLine {
  readonly event: string
  readonly id: string
  readonly pid: number
}

/** The lines that the jobs of fixtures/slow.ts wrote. */
export const historyOf = (log: string): Promise<ReadonlyArray<HistoryLine>> => JsonLines.read(log)

/** Stops a platform with SIGTERM while two of 12 jobs run, and starts it again. */
export const terminated = async ({ env }: ScenarioOptions): Promise<ScenarioResult> => {
  await using platform = await PlatformProcess.create(CONFIG, env)
  const violations: Array<History.Violation> = []
  const broken = (job: string, text: string) => violations.push({ rule: "R13", job, text })
  const log = join(platform.dataDir, "log")
  const ids = await Promise.all(Array.from({ length: 12 }, (_, n) => platform.run("slow", { ms: 400, log, n })))
  const idsOf = (lines: ReadonlyArray<HistoryLine>, event: string) =>
    lines.filter((line) => line.event === event).map(({ id }) => id)
  const haveStarted = async () => idsOf(await historyOf(log), "started").length >= 2 ? true : undefined
  await until("two jobs to have started", haveStarted, 60_000)
  const { code, signal } = await platform.end("SIGTERM")
  if (code !== 0) broken("-", `the platform ended with code ${code} and signal ${signal}`)

  const before = await historyOf(log)
  const finished = idsOf(before, "finished")
  for (const id of idsOf(before, "started")) {
    if (!finished.includes(id)) broken(id, "was running when the platform received SIGTERM, and did not finish")
  }

  await platform.start()
  for (const id of ids) {
    const { status } = await platform.ended("slow", id)
    if (status !== "COMPLETED") broken(id, `ended as ${status}`)
  }
  // Running jobs were delivered, and waiting jobs ran after the restart.
  const started = idsOf(await historyOf(log), "started")
  for (const id of ids) {
    const times = started.filter((one) => one === id).length
    if (times !== 1) broken(id, `ran ${times} times`)
  }
  const counts = { jobs: ids.length, "finished before the end": finished.length }
  return { violations, counts: { ...History.count([], violations), ...counts } }
}
