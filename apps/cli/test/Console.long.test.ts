/**
 * Walks through every page of the web console in Chromium, against a real platform with jobs in every state.
 *
 * `STINT_SCREENSHOTS=folder` also takes a picture of every page, light and dark, for a desktop and for a phone.
 */
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { beforeAll, beforeEach, describe, expect, it } from "vitest"
import { compareAttempts } from "./ConsoleAttempts.ts"
import { buildConsole, ConsoleBrowser, program } from "./ConsoleBrowser.ts"
import { showOutputs } from "./ConsoleOutputs.ts"
import { followRun, populateRuns } from "./ConsolePipelines.ts"
import { runFromForm } from "./ConsolePlayground.ts"
import { choosePreferences, watchLive } from "./ConsolePreferences.ts"
import { manageSchedules, populateSchedules } from "./ConsoleSchedules.ts"
import { changeSettings, decideCanaries } from "./ConsoleSettings.ts"
import { strangerTasks } from "./ConsoleTasks.ts"
import { populateUsage, PRICES, readUsage } from "./ConsoleUsage.ts"
import { resendWebhooks } from "./ConsoleWebhooks.ts"
import { watchWorkers } from "./ConsoleWorkers.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** The most that the first page may load, gzipped. */
const FIRST_LOAD_BYTES = 200_000

const STORY = "Once upon a time a queue of jobs waited for a worker that was still importing its model"

interface Scene {
  readonly finished: string
  readonly failed: string
  readonly running: string
  readonly waiting: string
}

/** Jobs in every state. Each one keeps its state until the end of the test. */
const populate = async (platform: PlatformProcess): Promise<Scene> => {
  for (let n = 0; n < 130; n += 1) await platform.run("stories", { text: "one two" })
  const finished = await platform.run("stories", { text: STORY })
  const failed = await platform.run("charge", { text: "checking the card", fail: "the card number 4242 has expired" })
  for (let n = 0; n < 6; n += 1) await platform.run("charge", { fail: "no connection to the bank" })
  for (let n = 0; n < 3; n += 1) await platform.run("archive", { text: "later" })
  await platform.run("thumbnails", {})
  await platform.run("gpu-lab", { prompt: "a lighthouse" })
  const ended = async (endpoint: string, id: string) =>
    until(`the end of ${endpoint}'s job`, async () => {
      const { status } = await platform.job(endpoint, id)
      return status === "COMPLETED" || status === "FAILED" ? true : undefined
    }, 120_000)
  await ended("stories", finished)
  await ended("charge", failed)
  // Longer than the test: it is cancelled by the test, or ended by the platform's shutdown.
  const running = await platform.run("stories", { text: STORY.repeat(20), ms: 1_000 })
  await until(
    "a running job",
    async () => (await platform.job("stories", running)).status === "IN_PROGRESS" ? true : undefined,
    60_000
  )
  const waiting = await platform.run("archive", { text: "last in the queue" })
  return { finished, failed, running, waiting }
}

describe("the web console in a browser", () => {
  beforeEach(({ skip }) => skip(program === undefined, "PATH has no chromium: apt-get install chromium"))
  beforeAll(() => {
    if (program !== undefined) buildConsole()
  }, 120_000)

  it("shows every page, sends no request elsewhere, and violates neither its policy nor WCAG AA", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")], {
      STINT_PRICES: PRICES
    })
    await using browser = await ConsoleBrowser.open(platform.url)
    await populateUsage(platform)
    const scene = await populate(platform)
    await platform.request("PUT", "/api/v1/secrets/token", { value: "a value" })
    await populateSchedules(platform)
    const { failedRun, waitingRun } = await populateRuns(platform)
    const pages: ReadonlyArray<readonly [name: string, path: string, shows: string]> = [
      ["home", "/", "Needs attention"],
      ["endpoint", "/console/endpoints/stories", "Recent jobs"],
      ["jobs", "/console/jobs?endpoint=stories", "Completed"],
      ["jobs-failed", "/console/jobs?endpoint=charge&status=FAILED", "no connection to the bank"],
      ["jobs-query", "/console/jobs?q=status%3Afailed+error%3A%22no+connection%22+since%3A2h", "no connection to the bank"],
      ["job-failed", `/console/jobs/charge/${scene.failed}`, "giving up: the card number 4242 has expired"],
      ["job-waiting", `/console/jobs/archive/${scene.waiting}`, "Why it waits"],
      ["job-running", `/console/jobs/stories/${scene.running}`, "Once upon a time"],
      ["job-finished", `/console/jobs/stories/${scene.finished}`, "importing its model"],
      ["playground", "/console/playground?endpoint=stories", "The same call as a program"],
      ["pipelines", "/console/pipelines", "Open runs"],
      ["pipeline", "/console/pipelines/album", "Definition"],
      ["run-waiting", `/console/pipelines/album/${waitingRun}`, "Send the event"],
      ["run-failed", `/console/pipelines/album/${failedRun}`, "Grace declined the album"],
      ["run-retried", `/console/pipelines/album/${failedRun}?node=thumbnail`, "shrinks clara.raw"],
      ["schedules", "/console/schedules", "monthly-invoices"],
      ["schedule", "/console/schedules/stories/nightly", "Next firings"],
      ["schedule-new", "/console/schedules/new", "The next times"],
      ["workers", "/console/workers", "Heartbeat"],
      ["usage", "/console/usage", "Total"],
      ["errors", "/console/errors", "the card number <n> has expired"],
      ["logs", "/console/logs?endpoint=stories&contains=wrote", "wrote word"],
      ["logs-none", "/console/logs?endpoint=stories&contains=never", "No line matches"],
      ["keys", "/console/keys", "No keys have been created yet"],
      ["audit", "/console/audit", "secrets.setSecret"],
      ["unknown", "/console/nothing", "There is no page at this address"]
    ]
    for (const dark of [false, true]) {
      for (const phone of [false, true]) {
        const look = `${phone ? "phone" : "desktop"}-${dark ? "dark" : "light"}`
        const context = await browser.window({ dark, phone })
        const page = await browser.page(context)
        await page.goto(platform.url)
        await page.getByLabel("Key", { exact: true }).waitFor()
        expect(await browser.violations(page), `login ${look}`).toEqual([])
        await browser.picture(page, `login-${look}`)
        await browser.login(page, platform.key)
        for (const [name, path, shows] of pages) {
          await page.goto(platform.url + path)
          await page.locator("main").getByText(shows).first().waitFor()
          // Waits for lists that load after the rest of the page.
          await page.locator(".loading").first().waitFor({ state: "detached" })
          expect(await page.getByRole("alert").allInnerTexts(), `${name} ${look}`).toEqual([])
          expect(await browser.violations(page), `${name} ${look}`).toEqual([])
          expect(await browser.isTooWide(page), `${name} ${look} is wider than the window`).toBe(false)
          await browser.picture(page, `${name}-${look}`)
        }
        await context.close()
      }
    }
    expect(browser.problems).toEqual([])
  }, 600_000)

  it("logs in, runs a job and shows its stream, cancels, retries, filters, and logs out", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
    await using browser = await ConsoleBrowser.open(platform.url)
    const context = await browser.window()
    const page = await browser.page(context)

    await page.goto(platform.url)
    await page.getByLabel("Key", { exact: true }).fill("not the key")
    await page.getByRole("button", { name: "Log in" }).click()
    await page.getByText("The platform does not know this key.").waitFor()
    await browser.login(page, platform.key)
    // No script on the page can read the key.
    expect(await page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])")).toBe(
      "[{},{},\"\"]"
    )
    const [cookie] = await context.cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict" })
    expect(cookie?.value).not.toContain(platform.key)

    await page.getByRole("link", { name: "Playground" }).click()
    await page.getByRole("combobox", { name: "Endpoint" }).selectOption("stories")
    await page.getByLabel("Input", { exact: true }).fill("{ \"text\": ")
    await page.getByText(/end of JSON|Unexpected/).waitFor()
    expect(await page.getByRole("button", { name: "Run", exact: true }).isDisabled()).toBe(true)
    await page.getByLabel("Input", { exact: true }).fill(JSON.stringify({ text: "alpha beta gamma" }))
    await page.getByRole("button", { name: "Run", exact: true }).click()
    await page.getByLabel("Streamed output").getByText("alpha beta gamma").waitFor()
    await page.getByText("Completed").filter({ visible: true }).first().waitFor()

    await page.getByRole("link", { name: "Open the job" }).click()
    await page.getByText("Completed after 1 attempt").waitFor()
    await page.getByRole("tab", { name: "Logs" }).click()
    await page.getByText("wrote word 3 of 3").waitFor()
    await page.getByLabel("Level").selectOption("WARN")
    await page.getByText("the text is at its end").waitFor()
    await page.getByText("wrote word 3 of 3").waitFor({ state: "detached" })
    await page.getByRole("tab", { name: "Input" }).click()
    await page.getByLabel("the input", { exact: true }).getByText("alpha beta gamma").waitFor()
    await page.getByRole("link", { name: "Edit and run again" }).click()
    await until(
      "the earlier input",
      async () => (await page.getByLabel("Input", { exact: true }).inputValue()).includes("alpha") || undefined
    )

    await page.getByRole("link", { name: "Logs", exact: true }).click()
    await page.getByText("Choose an endpoint to search").waitFor()
    await page.getByLabel("Endpoint").selectOption("stories")
    const found = page.getByRole("region", { name: "Log of stories, newest first" })
    await found.getByText("wrote word 3 of 3").waitFor()
    await page.getByLabel("Contains").fill("WORD 2 of")
    await page.keyboard.press("Enter")
    await found.getByText("wrote word 3 of 3").waitFor({ state: "detached" })
    await found.getByText("wrote word 2 of 3").waitFor()
    await page.getByText(/Searched \d+ lines: all/).waitFor()
    expect(new URL(page.url()).search).toBe("?endpoint=stories&contains=WORD+2+of")
    await found.getByRole("link").click()
    await page.getByText("Completed after 1 attempt").waitFor()

    const waiting = await platform.run("archive", {})
    await page.goto(`${platform.url}/console/jobs/archive/${waiting}`)
    await page.getByText("the endpoint is paused").waitFor()
    await page.getByRole("button", { name: "Cancel" }).click()
    await page.getByRole("button", { name: "Cancel the job" }).click()
    await page.getByText("Cancelled after 0 attempts").waitFor()
    expect((await platform.job("archive", waiting)).status).toBe("CANCELLED")

    const failed = await platform.run("charge", { fail: "no money" })
    await page.goto(`${platform.url}/console/jobs/charge/${failed}`)
    await page.getByRole("button", { name: "Retry" }).click()
    await page.getByRole("button", { name: "Retry the job" }).click()
    await page.getByText("Failed after 2 attempts").waitFor()

    await page.getByRole("link", { name: "Jobs", exact: true }).click()
    await page.getByRole("combobox", { name: "Endpoint" }).selectOption("charge")
    await page.getByRole("button", { name: "Completed" }).click()
    await page.getByText("No job matches").waitFor()
    await page.getByRole("button", { name: "Failed" }).click()
    await page.getByRole("listitem").getByText("no money").waitFor()
    expect(new URL(page.url()).searchParams.get("q")).toBe("endpoint:charge status:failed")
    expect(await page.getByLabel("Query").inputValue()).toBe("endpoint:charge status:failed")
    await page.reload()
    await page.getByRole("listitem").getByText("no money").waitFor()

    await page.getByRole("button", { name: "Log out" }).click()
    await page.getByLabel("Key", { exact: true }).waitFor()
    expect(await page.getByText("no money").count()).toBe(0)
    expect(await context.cookies()).toEqual([])
    expect(browser.problems).toEqual([])
  }, 300_000)

  it(
    "finds jobs by a query, saves the query as a view, cancels a bulk operation before it begins, and shows one that continues without its tab",
    async () => {
      await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
      await using browser = await ConsoleBrowser.open(platform.url)
      const ids = [
        await platform.run("archive", { n: 1 }),
        await platform.run("archive", { n: 2 }),
        await platform.run("archive", {})
      ]
      const statuses = async () => Promise.all(ids.map(async (id) => (await platform.job("archive", id)).status))
      const context = await browser.window()
      const page = await browser.page(context)
      await browser.login(page, platform.key)
      await page.goto(`${platform.url}/console/jobs`)
      const query = page.getByLabel("Query")
      await query.fill("endpoint:archive status:wating")
      await page.getByText("Did you mean \"waiting\"? At character 25.").or(page.getByText("There is no status \"wating\"."))
        .first().waitFor()
      expect(await page.getByRole("button", { name: "Find" }).isDisabled()).toBe(true)
      expect(await browser.violations(page)).toEqual([])
      await browser.picture(page, "jobs-mistake")
      await query.fill("endpoint:archive status:waiting")
      await page.keyboard.press("Enter")
      await page.getByRole("listitem").nth(2).waitFor()
      await page.getByRole("button", { name: "Save as a view" }).click()
      await page.getByLabel("Name").fill("Archive queue")
      await page.keyboard.press("Enter")
      await page.getByRole("button", { name: "All", exact: true }).click()
      await until("the query without a status", async () => await query.inputValue() === "endpoint:archive" || undefined)
      await page.reload()
      await page.getByRole("button", { name: "Archive queue" }).click()
      await until("the saved query", async () => await query.inputValue() === "endpoint:archive status:waiting" || undefined)

      const start = async () => {
        await page.getByRole("button", { name: "Cancel all" }).click()
        await page.getByRole("alertdialog").getByText("Cancel 3 jobs?").waitFor()
      }
      await start()
      expect(await browser.violations(page)).toEqual([])
      await browser.picture(page, "bulk-question")
      await page.getByRole("alertdialog").getByRole("button", { name: "Cancel 3 jobs" }).click()
      await page.getByText(/Begins in \d+ s/).waitFor()
      expect(await browser.violations(page)).toEqual([])
      await browser.picture(page, "bulk-held")
      await page.getByRole("button", { name: "Take back" }).click()
      await page.getByText("Cancelled. No job was changed.").waitFor()
      expect(await statuses()).toEqual(["IN_QUEUE", "IN_QUEUE", "IN_QUEUE"])

      await start()
      await page.getByRole("alertdialog").getByRole("button", { name: "Cancel 3 jobs" }).click()
      await page.getByText(/Begins in \d+ s/).waitFor()
      await page.close()
      await until("the cancelled jobs", async () => (await statuses()).every((one) => one === "CANCELLED") || undefined, 60_000)
      const later = await browser.page(context)
      await later.goto(`${platform.url}/console/jobs?q=endpoint%3Aarchive`)
      await later.getByText("Cancelled 3 jobs.").waitFor()
      await browser.picture(later, "bulk-done")
      const dark = await browser.window({ dark: true, phone: true })
      const phone = await browser.page(dark)
      await browser.login(phone, platform.key)
      await phone.goto(`${platform.url}/console/jobs?q=endpoint%3Aarchive`)
      await phone.getByText("Cancelled 3 jobs.").waitFor()
      expect(await browser.violations(phone)).toEqual([])
      expect(await browser.isTooWide(phone)).toBe(false)
      await browser.picture(phone, "bulk-done-phone-dark")
      expect(browser.problems).toEqual([])
    },
    300_000
  )

  it(
    "shows a viewer everything but no buttons, ends the session together with its key, and distinguishes a failure from an empty list",
    async () => {
      await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
      await using browser = await ConsoleBrowser.open(platform.url)
      const made = await platform.request("POST", "/api/v1/keys", {
        name: "viewer",
        scopes: ["jobs:read"],
        endpoints: ["archive"]
      })
      const { key, secret } = made.body as { readonly key: { readonly id: string }; readonly secret: string }
      const waiting = await platform.run("archive", {})
      const page = await browser.page(await browser.window(), [401, 403, 503])
      await browser.login(page, secret)
      await page.getByRole("link", { name: "archive" }).first().waitFor()
      expect(await page.getByRole("link", { name: "stories" }).count()).toBe(0)
      await page.getByRole("link", { name: "Usage" }).waitFor()
      for (const name of ["Playground", "Schedules", "Keys", "Audit"]) {
        expect(await page.getByRole("link", { name }).count(), name).toBe(0)
      }
      await page.goto(`${platform.url}/console/jobs/archive/${waiting}`)
      await page.getByText("Why it waits").waitFor()
      for (const name of ["Cancel", "Retry"]) expect(await page.getByRole("button", { name }).count(), name).toBe(0)
      await page.goto(`${platform.url}/console/endpoints/archive`)
      await page.getByText("3 workers").or(page.getByText("of at most 0")).first().waitFor()
      expect(await page.getByRole("tab", { name: "Settings" }).count()).toBe(0)

      await page.route("**/api/v1/jobs?*", (route) =>
        route.fulfill({
          status: 503,
          contentType: "application/problem+json",
          body: JSON.stringify({ error: "The store is away.", hint: "Wait." })
        }))
      await page.goto(`${platform.url}/console/jobs?endpoint=archive`)
      await page.getByRole("alert").getByText("The store is away.").waitFor()
      for (const name of ["Retry all", "Cancel all"]) expect(await page.getByRole("button", { name }).count(), name).toBe(0)
      expect(await page.getByText("no stored jobs").count()).toBe(0)
      await page.unroute("**/api/v1/jobs?*")
      await page.getByRole("button", { name: "Try again" }).click()
      await page.getByRole("listitem").first().waitFor()

      await platform.request("POST", `/api/v1/keys/${key.id}/revoke`, {})
      await page.getByLabel("Key", { exact: true }).waitFor()
      expect(browser.problems).toEqual([])
    },
    300_000
  )

  it("opens a page, an endpoint and a job from the command palette, with the keyboard alone", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
    await using browser = await ConsoleBrowser.open(platform.url)
    const job = await platform.run("archive", {})
    const page = await browser.page(await browser.window())
    await browser.login(page, platform.key)
    await page.getByRole("heading", { name: "Endpoints" }).waitFor()
    const goTo = async (text: string, option: string) => {
      await page.keyboard.press("Control+k")
      await page.getByRole("combobox", { name: "Page, endpoint or job id" }).waitFor()
      await page.keyboard.type(text)
      await page.getByRole("option", { name: option, exact: true }).waitFor()
    }
    await goTo("archive", "Failed jobs of archive")
    expect(await browser.violations(page)).toEqual([])
    await browser.picture(page, "palette")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.waitForURL("**/console/jobs?endpoint=archive")
    await goTo("keys", "Keys")
    await page.keyboard.press("Enter")
    await page.getByRole("heading", { name: "Keys" }).waitFor()
    await goTo(job, `Job ${job.slice(0, 8)} of archive`)
    await page.getByRole("option", { name: `Job ${job.slice(0, 8)} of archive` }).click()
    await page.getByText("Why it waits").waitFor()
    await page.keyboard.press("Control+k")
    await page.getByRole("combobox").waitFor()
    await page.keyboard.press("Escape")
    await page.getByRole("combobox").waitFor({ state: "detached" })
    expect(browser.problems).toEqual([])
  }, 300_000)

  it("lists the releases of an endpoint with their changes, and rolls one back", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
    await using browser = await ConsoleBrowser.open(platform.url)
    const deploy = async (maxAttempts: number, message: string) => {
      const spec = { id: "trials", source: { type: "external" }, maxAttempts }
      const deployed = await platform.request("POST", "/api/v1/endpoints/trials/releases", { spec, message })
      expect(deployed).toMatchObject({ status: 201, body: { state: "active" } })
    }
    await deploy(5, "The first one")
    await deploy(7, "Try more often")
    const page = await browser.page(await browser.window())
    await browser.login(page, platform.key)
    await page.goto(`${platform.url}/console/endpoints/trials`)
    await page.getByRole("tab", { name: "Releases" }).click()
    const row = (number: number) =>
      page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: String(number), exact: true }) })
    await row(2).getByText("Try more often").waitFor()
    await row(2).getByText("Active").waitFor()
    await row(2).getByText("1 setting").click()
    await row(2).getByText(/maxAttempts: 5 → 7/).waitFor()
    expect(await browser.violations(page)).toEqual([])
    await browser.picture(page, "releases")
    await row(1).getByRole("button", { name: "Roll back" }).click()
    await page.getByRole("alertdialog").getByRole("button", { name: "Roll back" }).click()
    await row(3).getByText("Back to release 1").waitFor()
    await row(3).getByText("Active").waitFor()
    const { body } = await platform.request("GET", "/api/v1/endpoints/trials")
    expect(body).toMatchObject({ maxAttempts: 5 })
    expect(browser.problems).toEqual([])
  }, 300_000)

  it("runs a typed handler from the form of its Schema", runFromForm, 300_000)

  it("shows pictures, audio, tables and Markdown in outputs, and runs nothing in them", showOutputs, 300_000)

  it("changes settings after a review of the differences, and refuses one that is out of date", changeSettings, 300_000)

  it("shows a canary with its figures, ends it, and promotes the next one", decideCanaries, 300_000)

  it("creates a schedule with the form, then runs, pauses, changes and removes it", manageSchedules, 300_000)

  it("shows usage and budgets, also by keyboard, downloads them, and tells a failure from an empty period", readUsage, 300_000)

  it("finds workers of all endpoints by state, and opens their jobs", watchWorkers, 300_000)

  it("remembers the colours and the time zone, lists its keys, and shows the keys of an endpoint", choosePreferences, 300_000)

  it("shows alerts with what to do, and new jobs at once without polling", watchLive, 300_000)

  it("shows the attempts of a job side by side, and links to its trace", compareAttempts, 300_000)

  it("lists the webhooks of an endpoint by state, and sends one again", resendWebhooks, 300_000)

  it("needs few clicks for the tasks of somebody who knows only the console", strangerTasks, 300_000)

  it("follows a run in its graph, sends it an event, and retries it from a node", followRun, 300_000)

  it("shows who did what in the console, filtered by result", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
    await using browser = await ConsoleBrowser.open(platform.url)
    const waiting = await platform.run("archive", {})
    const page = await browser.page(await browser.window())
    await browser.login(page, platform.key)
    await page.goto(`${platform.url}/console/jobs/archive/${waiting}`)
    await page.getByRole("button", { name: "Cancel" }).click()
    await page.getByRole("button", { name: "Cancel the job" }).click()
    await page.getByText("Cancelled after 0 attempts").waitFor()
    await page.getByRole("link", { name: "Audit", exact: true }).click()
    const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: "jobs.cancel", exact: true }) })
    await row.getByText(`endpoint/archive/job/${waiting}`).waitFor()
    await row.getByText("in the console").waitFor()
    await page.getByRole("button", { name: "Refused" }).click()
    await page.getByText("No operation matches").waitFor()
    await page.getByRole("button", { name: "All" }).click()
    await page.getByLabel("Action").fill("jobs")
    await page.keyboard.press("Enter")
    await row.waitFor()
    expect(page.url()).toMatch(/\/console\/audit\?action=jobs$/)
    expect(browser.problems).toEqual([])
  }, 300_000)

  it("loads at most 200 KB, gzipped, before the first page is shown", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
    await using browser = await ConsoleBrowser.open(platform.url)
    const page = await browser.page(await browser.window())
    const sizes: Array<Promise<number>> = []
    page.on("response", (response) => {
      if (!/\/(?:api|v2)\//.test(response.url())) {
        sizes.push(response.body().then((body) => gzipSync(body, { level: 9 }).byteLength))
      }
    })
    await browser.login(page, platform.key)
    await page.getByRole("heading", { name: "Endpoints" }).waitFor()
    const bytes = (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
    console.log(`first load of the console: ${bytes} bytes`) // oxlint-disable-line no-console -- a figure of the documentation
    expect(bytes).toBeGreaterThan(50_000)
    expect(bytes).toBeLessThanOrEqual(FIRST_LOAD_BYTES)
  }, 120_000)
})
