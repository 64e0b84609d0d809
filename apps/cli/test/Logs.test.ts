/**
 * Job logs, from the pipes of a real worker to their readers.
 */
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

interface Line {
  readonly number: number
  readonly level: string
  readonly message: string
  readonly source: string
}

interface Page {
  readonly lines: ReadonlyArray<Line>
  readonly cursor: number
  readonly more: boolean
}

const logsOf = async (platform: PlatformProcess, id: string): Promise<ReadonlyArray<Line>> => {
  const lines: Array<Line> = []
  let page: Page = { lines: [], cursor: 0, more: true }
  while (page.more) {
    const { body } = await platform.request("GET", `/v2/talkative/logs/${id}?limit=1000&after=${page.cursor}`)
    page = body as Page
    lines.push(...page.lines)
  }
  return lines
}

describe("logs", () => {
  let platform: PlatformProcess

  beforeAll(async () => {
    platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
  })
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
  })

  it("assigns the lines of a worker's two concurrent jobs to the right job, whether logged or printed to the console", async () => {
    const ids = [
      await platform.run("talkative", { together: 2, lines: 40 }),
      await platform.run("talkative", { together: 2, lines: 40 })
    ]
    const ended = await Promise.all(ids.map((id) => platform.ended("talkative", id)))
    expect(ended.map(({ status }) => status)).toEqual(["COMPLETED", "COMPLETED"])
    expect(new Set(ended.map(({ workerId }) => workerId)).size).toBe(1)
    const { body } = await platform.request("GET", "/api/v1/overview/talkative")
    expect(body).toMatchObject({ list: [{ slots: 2, jobs: [] }] })
    const found = await stint(platform, ["logs", "talkative", "--contains", " 40", "--since", "1h", "--json"])
    const jobs = found.stdout.trim().split("\n").map((line) => (JSON.parse(line) as { readonly job: string }).job)
    expect(jobs.toSorted()).toEqual(ids.toSorted())
    for (const id of ids) {
      const own = (await logsOf(platform, id)).filter(({ message }) => message !== "printed past the console")
      const numbers = own.map(({ message }) => Number(message.split(" ")[1]))
      expect(own.map(({ message }) => message.split(" ")[0])).toEqual(own.map(() => id))
      // There are two pipes. The lines of each pipe are in order.
      const isError = ({ source }: Line) => source === "stderr"
      expect(own.flatMap((line, index) => isError(line) ? [] : [numbers[index]])).toEqual(
        Array.from({ length: 40 }, (_, n) => n + 1).filter((n) => n % 4 !== 2)
      )
      expect(own.filter(isError).map(({ level }) => level)).toEqual(Array.from({ length: 10 }, () => "ERROR"))
      expect(own.find(({ message }) => message === `${id} 1`)).toMatchObject({ level: "INFO", source: "stdout" })
      expect(own.find(({ message }) => message === `${id} 3`)).toMatchObject({ level: "WARN", source: "log" })
    }
  })

  it("assigns output that bypasses the logger to the only running job", async () => {
    const { id } = await platform.runSync("talkative", { lines: 1 })
    expect((await logsOf(platform, id)).find(({ message }) => message === "printed past the console")).toMatchObject({
      level: "WARN",
      source: "stderr"
    })
  })

  it("stint logs prints the lines, and with -f follows them until the job ends", async () => {
    const id = await platform.run("talkative", { lines: 30, ms: 20 })
    const followed = stint(platform, ["logs", "talkative", id, "-f"])
    const { code, stderr, stdout } = await followed
    expect(code).toBe(0)
    expect(stderr).toContain("The job ended as COMPLETED.")
    const numbers = [...stdout.matchAll(new RegExp(`INFO +w\\S* \\| ${id} (\\d+)$`, "gm"))].map(([, n]) => Number(n))
    expect(numbers).toEqual(Array.from({ length: 30 }, (_, n) => n + 1))
    const json = await stint(platform, ["logs", "talkative", id, "--json", "--level", "warn"])
    const lines = json.stdout.trim().split("\n").map((line) => JSON.parse(line) as Line)
    expect(lines.map(({ level, message }) => [level, message])).toEqual([["WARN", "printed past the console"]])
    const missing = await stint(platform, ["logs", "talkative", "nope"])
    expect([missing.code, missing.stdout + missing.stderr]).toEqual([1, expect.stringContaining("There is no job \"nope\"")])
  })

  it("keeps the newest of 100,000 log lines and reports how many were dropped", async () => {
    const job = await platform.ended("talkative", await platform.run("talkative", { lines: 100_000 }))
    expect(job.status).toBe("COMPLETED")
    // 100,000 logged lines and one that bypasses the console.
    await until("the last line", async () => {
      const { body } = await platform.request("GET", `/v2/talkative/logs/${job.id}?after=100000`)
      return (body as Page).lines.length > 0 ? true : undefined
    }, 60_000)
    const lines = await logsOf(platform, job.id)
    const [gap, ...kept] = lines.filter(({ message }) => message !== "printed past the console")
    expect(kept.length).toBeLessThanOrEqual(10_000)
    expect(kept.length).toBeGreaterThan(5_000)
    expect(gap).toMatchObject({ source: "platform", level: "WARN" })
    expect(Number(/^([\d,]+) lines dropped here/.exec(gap?.message ?? "")?.[1]?.replaceAll(",", ""))).toBe(gap?.number)
    const numbers = kept.map(({ message }) => Number(message.split(" ")[1]))
    expect(numbers).toEqual(Array.from({ length: kept.length }, (_, n) => 100_000 - kept.length + 1 + n))
  }, 90_000)

  it("a killed platform loses at most the last batch of lines", async () => {
    const id = await platform.run("talkative", { lines: 100_000, ms: 2 })
    await until("some lines", async () => (await logsOf(platform, id)).length > 200 ? true : undefined)
    await platform.end("SIGKILL")
    const printed = [...platform.output.matchAll(new RegExp(`${id} (\\d+)$`, "gm"))].length
    await platform.start()
    // Without the lines in which the worker reports that the platform does not respond.
    const numbersOf = async () =>
      (await logsOf(platform, id)).flatMap(({ message }) => message.startsWith(id) ? [Number(message.split(" ")[1])] : [])
    // The worker outlives the platform, so its lines continue after those that the platform had read but not stored.
    const numbers = await until("lines of the time without a platform", async () => {
      const all = await numbersOf()
      return (all.at(-1) ?? 0) > printed + 100 ? all : undefined
    })
    expect(numbers.length).toBeGreaterThan(200)
    const steps = numbers.slice(1).map((number, index) => ({
      after: numbers[index] ?? 0,
      gap: number - (numbers[index] ?? 0) - 1
    }))
    const gaps = steps.filter(({ gap }) => gap !== 0).map(({ gap }) => gap)
    expect(gaps.length, JSON.stringify(steps.filter(({ gap }) => gap !== 0))).toBeLessThanOrEqual(1)
    expect(gaps[0] ?? 0).toBeGreaterThanOrEqual(0)
    expect(gaps[0] ?? 0).toBeLessThanOrEqual(256)
    await platform.request("POST", `/v2/talkative/cancel/${id}`)
  }, 60_000)
})
