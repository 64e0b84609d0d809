/**
 * Five tasks of somebody who knows only the console, each from the home page. Counts the clicks (docs/reference/console-checklist.md#tasks).
 */
import { join } from "node:path"
import type { Locator, Page } from "playwright-core"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** The number of jobs that are cancelled at once. */
const MANY = 500

/** A person at a page. */
class Person {
  readonly page: Page
  clicks = 0

  constructor(page: Page) {
    this.page = page
  }

  async click(target: Locator): Promise<void> {
    this.clicks += 1
    await target.click()
  }
}

/** The tasks, and the clicks of each. */
export const strangerTasks = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const ended = (endpoint: string, id: string) =>
    until("its end", async () => ["COMPLETED", "FAILED"].includes((await platform.job(endpoint, id)).status) || undefined, 60_000)
  const { body } = await platform.request("GET", "/api/v1/endpoints/charge")
  const { createdAt: _, ...charge } = body as { readonly createdAt: number; readonly id: string }
  // A changed variable replaces the workers.
  const deploy = async (number: number) => {
    const spec = { ...charge, maxAttempts: 1, env: { RELEASE: String(number) } }
    const deployed = await platform.request("POST", "/api/v1/endpoints/charge/releases", { spec, message: "Another bank" })
    expect(deployed.status, JSON.stringify(deployed.body)).toBe(201)
    await until(`release ${number}`, async () => {
      const { body } = await platform.request("GET", "/api/v1/endpoints/charge/releases")
      const { releases } = body as { readonly releases: ReadonlyArray<{ readonly state: string; readonly number: number }> }
      return releases.some((one) => one.number === number && one.state === "active") || undefined
    }, 60_000)
  }
  await deploy(1)
  await ended("charge", await platform.run("charge", { fail: "an old error" }))
  await deploy(2)
  const failed = await platform.run("charge", { text: "one", fail: "no connection to the bank" })
  await ended("charge", failed)
  const waiting = await platform.run("archive", { text: "first" })
  await Promise.all(Array.from({ length: MANY - 1 }, (_, n) => platform.run("archive", { n })))

  const page = await browser.page(await browser.window())
  await browser.login(page, platform.key)
  const figures: Array<string> = []
  const task = async (name: string, most: number, act: (person: Person) => Promise<void>) => {
    await page.goto(platform.url)
    await page.getByRole("heading", { name: "Endpoints" }).waitFor()
    const person = new Person(page)
    const begun = performance.now()
    await act(person)
    figures.push(`${name}: ${person.clicks} clicks, ${((performance.now() - begun) / 1_000).toFixed(1)} s`)
    expect(person.clicks, name).toBeLessThanOrEqual(most)
  }

  await task("why a job waits", 2, async (person) => {
    await person.click(page.getByRole("button", { name: "Go to…" }))
    await page.getByRole("combobox", { name: "Page, endpoint or job id" }).fill(waiting)
    await person.click(page.getByRole("option", { name: `Job ${waiting.slice(0, 8)} of archive` }))
    await page.getByRole("heading", { name: "Why it waits" }).waitFor()
    await page.getByText("workers.max").first().waitFor()
  })
  await task("what failed since the last release", 2, async (person) => {
    await person.click(page.getByRole("link", { name: "Errors" }))
    await page.getByText("an old error").waitFor()
    // A choice in a list counts as one click.
    person.clicks += 1
    await page.getByLabel("Seen").selectOption("latest")
    await page.getByText("an old error").waitFor({ state: "detached" })
    await page.getByText("no connection to the bank").waitFor()
  })
  await task("rerun a failed job with a changed input", 4, async (person) => {
    await person.click(page.getByRole("link", { name: "2 failed jobs of charge" }))
    await person.click(page.getByRole("listitem").filter({ hasText: "no connection" }).getByRole("link"))
    await person.click(page.getByRole("link", { name: "Edit and run again" }))
    const input = page.getByLabel("Input", { exact: true })
    await until("the earlier input", async () => (await input.inputValue()).includes("no connection") || undefined)
    await input.fill(JSON.stringify({ text: "one" }))
    await person.click(page.getByRole("button", { name: "Run", exact: true }))
    await page.getByText("Completed").filter({ visible: true }).first().waitFor({ timeout: 60_000 })
  })
  await task(`cancel ${MANY} jobs by filter`, 3, async (person) => {
    await person.click(page.getByRole("link", { name: `${MANY} waiting jobs of archive` }))
    await person.click(page.getByRole("button", { name: "Cancel all" }))
    await person.click(page.getByRole("alertdialog").getByRole("button", { name: `Cancel ${MANY} jobs` }))
    await page.getByText(/Begins in \d+ s/).waitFor()
  })
  await task("roll back", 4, async (person) => {
    await person.click(page.getByRole("row").getByRole("link", { name: "charge", exact: true }))
    await person.click(page.getByRole("tab", { name: "Releases" }))
    const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: "1", exact: true }) })
    await person.click(row.getByRole("button", { name: "Roll back" }))
    await person.click(page.getByRole("alertdialog").getByRole("button", { name: "Roll back" }))
    await page.getByText("Back to release 1").waitFor()
  })
  expect((await platform.job("archive", waiting)).status).toMatch(/IN_QUEUE|CANCELLED/)
  expect(browser.problems).toEqual([])
  // oxlint-disable-next-line no-console -- figures of the documentation
  console.log(figures.join("\n"))
}
