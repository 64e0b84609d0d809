/**
 * What a person does on the console's usage page: compares days, releases and keys, reads budgets, and downloads a bill.
 */
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { Page } from "playwright-core"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess } from "./PlatformProcess.ts"

/** The file with prices and budgets. */
export const PRICES = join(FIXTURES, "prices.json")

const HOUR = 3_600_000

/** The share of a day's work in each hour: little at night. */
const DAY_SHAPE = Array.from({ length: 24 }, (_, hour) => Math.max(0.05, Math.sin(((hour - 5) / 24) * 2 * Math.PI)))

/** Endpoints with their GPUs and their size; the last two endpoints were removed. */
const WORK = [
  ["stories", 0, 900],
  ["charge", 0, 240],
  ["gpu-lab", 1, 500],
  ["album", 0, 130],
  ["thumbnails", 0, 90],
  ["archive", 0, 60],
  ["translate", 0, 45],
  ["rembrandt-upscaler", 2, 70]
] as const

/**
 * Writes the usage of the last 40 days into the database, as if the platform had run that long. The platform is stopped while this happens, so that
 * its budgets include this usage.
 */
export const populateUsage = async (platform: PlatformProcess): Promise<void> => {
  const hour = Math.floor(Date.now() / HOUR) * HOUR
  await platform.end("SIGTERM")
  {
    using db = new DatabaseSync(join(platform.dataDir, "stint.db"))
    const insert = db.prepare(
      "INSERT OR IGNORE INTO usage_hours (hour, endpoint, release, key, attempts, execution_ms, worker_ms, cpu_ms, gpu_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    db.exec("BEGIN")
    // From the current hour on: in the first hour of a day, the chart's last bar would otherwise have no parts.
    for (let back = 0; back < 40 * 24; back += 1) {
      const at = hour - back * HOUR
      const date = new Date(at)
      const quiet = date.getUTCDay() === 0 || date.getUTCDay() === 6 ? 0.35 : 1
      for (const [index, [endpoint, gpus, size]] of WORK.entries()) {
        const load = size * quiet * (DAY_SHAPE[date.getUTCHours()] ?? 0) * (1 + ((back * (index + 3)) % 7) / 10)
        const release = back > 12 * 24 ? 1 : 2
        const execution = Math.round(load * 1_000)
        const worker = Math.round(load * 1_600)
        insert.run(at, endpoint, release, "platform", Math.round(load / 3), execution, 0, 0, 0)
        insert.run(at, endpoint, release, "", 0, 0, worker, Math.round(execution * 0.7), worker * gpus)
      }
    }
    // More than its daily budget, whenever the test runs. No test submits a job to this endpoint.
    insert.run(hour, "translate", 0, "", 0, 0, 12_000_000, 0, 0)
    db.exec("COMMIT")
  }
  await platform.start()
}

/** Saves what a button downloads. */
const download = async (page: Page, name: string): Promise<{ readonly file: string; readonly text: string }> => {
  const waiting = page.waitForEvent("download")
  await page.getByRole("button", { name }).click()
  const saved = await waiting
  return { file: saved.suggestedFilename(), text: await readFile(await saved.path(), "utf8") }
}

/** The walk-through with prices. */
export const readUsage = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")], {
    STINT_PRICES: PRICES
  })
  await using browser = await ConsoleBrowser.open(platform.url)
  await populateUsage(platform)
  const page = await browser.page(await browser.window(), [400, 503])
  await browser.login(page, platform.key)
  await page.getByRole("link", { name: "Usage", exact: true }).click()
  const slider = page.getByLabel("Time", { exact: true }).and(page.getByRole("slider"))
  await slider.waitFor()
  const name = (text: string) => page.getByRole("rowheader", { name: text, exact: true })
  await name("rembrandt-upscaler (removed)").waitFor()
  await name("stories").waitFor()

  // The page shows the sums that the API returns.
  const from = Math.floor(Date.now() / (24 * HOUR)) * 24 * HOUR - 29 * 24 * HOUR
  const { body } = await platform.request("GET", `/api/v1/usage?from=${from}`)
  const { total } = body as { readonly total: { readonly cost: number; readonly attempts: number } }
  const totals = page.getByRole("row").filter({ has: name("Total") })
  await totals.getByText(total.cost.toFixed(2), { exact: true }).waitFor()
  await totals.getByText(total.attempts.toLocaleString("en"), { exact: true }).waitFor()

  const budgets = page.getByRole("region", { name: "Budgets" })
  await page.getByText("A budget is used up, and new jobs are refused: translate (daily).").waitFor()
  await budgets.getByText("New jobs are refused").waitFor()
  await budgets.getByText(/of 80\.00 EUR/).waitFor()
  await budgets.getByText(/each month/).first().waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "usage-costs")

  // With the keyboard alone, a person can read each bar and show one part of the bars.
  await slider.focus()
  const last = await slider.getAttribute("aria-valuetext")
  await page.keyboard.press("ArrowLeft")
  const earlier = await slider.getAttribute("aria-valuetext")
  expect(earlier).toMatch(/^\d{4}-\d\d-\d\d UTC: [\d.]+ EUR\. .*stories [\d.]+ EUR/)
  expect(earlier).not.toBe(last)
  const bars = () => page.locator(".chart-plot rect[class^=part]").count()
  const all = await bars()
  const legend = page.getByRole("list", { name: "Parts" })
  await legend.getByRole("button", { name: /^gpu-lab/ }).focus()
  await page.keyboard.press("Enter")
  expect(await bars()).toBe(30)
  expect(all).toBeGreaterThan(30 * 6)
  expect(await legend.getByRole("button", { name: /^gpu-lab/ }).getAttribute("aria-pressed")).toBe("true")

  const csv = await download(page, "Download CSV")
  expect(csv.file).toMatch(/^usage-\d{4}-\d\d-\d\d-to-\d{4}-\d\d-\d\d-by-endpoint\.csv$/)
  expect(csv.text.split("\r\n")[0]).toBe(
    "from,endpoint,attempts,executionSeconds,workerSeconds,cpuSeconds,gpuSeconds,cost,currency"
  )
  expect(csv.text.split("\r\n").length, "30 days of 8 endpoints, a line of names, and the end").toBeGreaterThanOrEqual(30 * 8)
  const json = await download(page, "Download JSON")
  expect(JSON.parse(json.text)).toMatchObject({ by: "endpoint", step: "day", currency: "EUR" })

  // The choice is in the address, and stays the same after a reload.
  await page.getByRole("button", { name: "7 days" }).click()
  await page.getByLabel("By", { exact: true }).selectOption("release")
  await page.getByRole("combobox", { name: "Endpoint" }).selectOption("stories")
  await page.getByLabel("Step").selectOption("hour")
  await page.getByRole("button", { name: "Execution" }).click()
  await name("stories release 2").waitFor()
  expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({
    range: "7d",
    by: "release",
    endpoint: "stories",
    step: "hour",
    measure: "execution"
  })
  await page.reload()
  await name("stories release 2").waitFor()
  expect(await page.getByRole("button", { name: "Execution" }).getAttribute("aria-pressed")).toBe("true")
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "usage-hours")
  await page.getByLabel("By", { exact: true }).selectOption("key")
  await name("the platform's key").waitFor()

  // A period without usage, an invalid period and a failed request have different messages.
  await page.getByRole("button", { name: "Custom" }).click()
  await page.getByLabel("From").fill("2021-01-01")
  await page.getByLabel("Until").fill("2020-12-31")
  await page.getByText("The last day is before the first day.").waitFor()
  expect(await page.getByText("Nothing ran in this time").count()).toBe(0)
  await page.getByLabel("Until").fill("2021-01-31")
  await page.getByText("Nothing ran in this time").waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "usage-empty")
  await page.route("**/api/v1/usage?*", (route) =>
    route.fulfill({
      status: 503,
      contentType: "application/problem+json",
      body: JSON.stringify({ error: "The store is away.", hint: "Wait." })
    }))
  await page.getByRole("button", { name: "30 days" }).click()
  await page.getByRole("alert").getByText("The store is away.").waitFor()
  expect(await page.getByText("Nothing ran in this time").count()).toBe(0)
  await page.unroute("**/api/v1/usage?*")
  await page.getByRole("button", { name: "Try again" }).click()
  await name("Total").waitFor()

  for (const width of [1_100, 820]) {
    await page.setViewportSize({ width, height: 900 })
    expect(await browser.isTooWide(page), `wider than ${width} pixels`).toBe(false)
    await browser.picture(page, `usage-${width}`)
  }
  const phone = await browser.page(await browser.window({ phone: true, dark: true }))
  await browser.login(phone, platform.key)
  await phone.goto(`${platform.url}/console/usage?by=key&step=month`)
  await phone.getByRole("rowheader", { name: "Total" }).scrollIntoViewIfNeeded()
  await browser.picture(phone, "usage-table-phone")
  await phone.getByText("New jobs are refused", { exact: true }).scrollIntoViewIfNeeded()
  expect(await browser.violations(phone)).toEqual([])
  expect(await browser.isTooWide(phone)).toBe(false)
  await browser.picture(phone, "usage-budgets-phone")
  expect(browser.problems).toEqual([])
}
