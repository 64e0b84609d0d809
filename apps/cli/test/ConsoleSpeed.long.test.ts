/**
 * Measures the console in Chromium with many stored jobs, while more arrive (docs/operations/console.md#speed).
 *
 * `STINT_CONSOLE_JOBS` sets the number of stored jobs, whose default is that of the page above.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Sqlite from "@stint/store-sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import process from "node:process"
import type { Page } from "playwright-core"
import { beforeEach, describe, expect, it } from "vitest"
import { ConsoleBrowser, program } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const STORED = Number(process.env["STINT_CONSOLE_JOBS"] ?? 100_000)

/** Arriving jobs per second, and how often they are submitted. */
const RATE = 200
const ARRIVALS_PER_SECOND = 10

/** How many jobs are submitted at the same time, so that they share commits. */
const SUBMITTERS = 1_000

/** How long each page stays open while jobs arrive. Milliseconds. */
const WATCH_MILLIS = 1_500

/**
 * Records when the content of a page appeared, and the tasks of the main thread that took longer than 50 ms. The page is interactive once a frame
 * with the content was drawn, because the browser then handles input.
 */
const RECORD = `
globalThis.measured = { tasks: [], at: undefined }
new PerformanceObserver((list) => {
  for (const { startTime, duration } of list.getEntries()) measured.tasks.push({ startTime, duration })
}).observe({ type: "longtask", buffered: true })
globalThis.awaitContent = (selector) => new Promise((done) => {
  const look = () => document.querySelector(selector) === null
    ? requestAnimationFrame(look)
    : requestAnimationFrame(() => setTimeout(() => done(measured.at = performance.now())))
  look()
})
`

interface Figures {
  readonly page: string
  /** From the start of the navigation. Milliseconds. */
  readonly interactive: number
  /** The longest task of the main thread until then, and after it. 0: none took more than 50 ms. */
  readonly longestBefore: number
  readonly longestAfter: number
  /** The CPU time of the longest task. Unlike its duration, other programs of a busy machine do not extend it. Milliseconds. */
  readonly longestCpu: number
  readonly nodes: number
  readonly heapMegabytes: number
}

const decodeTrace = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({
  traceEvents: Schema.Array(Schema.Struct({
    name: Schema.String,
    pid: Schema.Int,
    tid: Schema.Int,
    /** Microseconds of CPU time of the thread. */
    tdur: Schema.optionalKey(Schema.Number),
    args: Schema.optionalKey(Schema.Struct({ name: Schema.optionalKey(Schema.Unknown) }))
  }))
})))

/** The CPU time of the longest task of a page's main thread, in milliseconds. */
const longestTask = (trace: string): number => {
  const { traceEvents } = decodeTrace(trace)
  const threads = new Set(
    traceEvents.filter(({ args, name }) => name === "thread_name" && args?.name === "CrRendererMain").map(({ pid, tid }) =>
      `${pid} ${tid}`
    )
  )
  const tasks = traceEvents.filter(({ name, pid, tid }) => name.endsWith("RunTask") && threads.has(`${pid} ${tid}`))
  expect(tasks.length).toBeGreaterThan(10)
  return Math.round(Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000)
}

/** Stores waiting jobs of an endpoint, while the platform is stopped. */
const fill = async (platform: PlatformProcess, id: string, jobs: number) => {
  await platform.end("SIGTERM")
  const endpoint = Schema.decodeUnknownSync(Endpoint)({ id, source: { type: "external" }, createdAt: 0 })
  const layer = JobQueue.layer.pipe(
    Layer.provide(WorkerRegistry.layer),
    Layer.provide(Sqlite.layer({ file: join(platform.dataDir, "stint.db"), durability: "D1", space: {} }))
  )
  const submitAll = Effect.gen(function*() {
    const queue = yield* JobQueue.JobQueue
    yield* Effect.forEach(
      Array.from({ length: jobs }, (_, n) => n),
      (n) => queue.submit({ endpoint, id: JobId.make(randomUUID()), input: toJsonText({ n, text: "a stored job" }) }),
      { concurrency: SUBMITTERS, discard: true }
    )
  })
  await Effect.runPromise(submitAll.pipe(Effect.provide(layer), Effect.scoped))
  await platform.start()
}

describe("the speed of the console", () => {
  beforeEach(({ skip }) => skip(program === undefined, "PATH has no chromium: apt-get install chromium"))

  it("is interactive at once and draws only the visible rows, with many stored jobs and 200 arriving each second", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
    await using browser = await ConsoleBrowser.open(platform.url)
    await fill(platform, "gpu-lab", STORED)
    const { body } = await platform.request("GET", "/api/v1/overview/gpu-lab")
    expect(body).toMatchObject({ jobs: { waiting: STORED } })
    const story = await platform.run("stories", { text: "one two three" })
    await until("its end", async () => (await platform.job("stories", story)).status === "COMPLETED" || undefined, 60_000)
    const context = await browser.window()
    await context.addInitScript({ content: RECORD })
    await browser.login(await browser.page(context), platform.key)

    let arrived = 0
    const arrive = async (n: number) => {
      await platform.run("gpu-lab", { n })
      arrived += 1
    }
    const submit = () => {
      for (let n = 0; n < RATE / ARRIVALS_PER_SECOND; n += 1) {
        void arrive(n)
      }
    }
    const timer = setInterval(submit, 1_000 / ARRIVALS_PER_SECOND)
    const measure = async (
      name: string,
      path: string,
      selector: string,
      use: (page: Page) => Promise<void>
    ): Promise<Figures> => {
      const page = await browser.page(context)
      await browser.startTracing(page)
      await page.goto(platform.url + path, { waitUntil: "commit" })
      const interactive: number = await page.evaluate(`awaitContent(${JSON.stringify(selector)})`)
      await use(page)
      await page.waitForTimeout(WATCH_MILLIS)
      const tasks: ReadonlyArray<{ startTime: number; duration: number }> = await page.evaluate("measured.tasks")
      const longest = (before: boolean) =>
        Math.max(0, ...tasks.filter(({ startTime }) => (startTime < interactive) === before).map(({ duration }) => duration))
      const figures: Figures = {
        page: name,
        interactive: Math.round(interactive),
        longestBefore: longest(true),
        longestAfter: longest(false),
        longestCpu: longestTask(await browser.stopTracing()),
        nodes: await page.evaluate("document.querySelectorAll('*').length"),
        heapMegabytes: Math.round(await page.evaluate<number>("performance.memory.usedJSHeapSize") / 1e5) / 10
      }
      await page.close()
      return figures
    }
    const scroll = async (page: Page) => {
      for (let n = 0; n < 30; n += 1) {
        await page.mouse.wheel(0, 4_000)
        await page.waitForTimeout(60)
      }
      // Scrolling loads older pages; the rows outside of the window do not exist.
      expect(await page.locator(".job-item").count()).toBeLessThanOrEqual(60)
      expect(await page.evaluate<number>("document.querySelector('.job-list').offsetHeight")).toBeGreaterThan(200 * 40)
    }
    const rest = () => Promise.resolve()
    const figures = [
      await measure("home", "/", "main tbody tr", rest),
      await measure("jobs", "/console/jobs", ".job-row", scroll),
      await measure("endpoint", "/console/endpoints/gpu-lab", ".small-chart + .small-chart", rest),
      await measure("job", `/console/jobs/stories/${story}`, ".timeline", rest)
    ]
    clearInterval(timer)
    // oxlint-disable-next-line no-console -- figures of the documentation
    console.log(`${STORED} stored jobs, ${arrived} arrived:\n${figures.map((one) => JSON.stringify(one)).join("\n")}`)
    for (const { heapMegabytes, interactive, longestCpu, nodes, page } of figures) {
      // Far above the figures of an idle machine, so that only a defect exceeds them. The duration of a task depends on other programs too.
      expect(interactive, page).toBeLessThan(4_000)
      expect(longestCpu, page).toBeGreaterThan(0)
      expect(longestCpu, page).toBeLessThan(200)
      expect(nodes, page).toBeLessThan(2_000)
      expect(heapMegabytes, page).toBeLessThan(100)
    }
    expect(browser.problems).toEqual([])
  }, 300_000)
})
