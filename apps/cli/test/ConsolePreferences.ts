/**
 * What a person does to adapt the console: colours, time zone, keys; and what the console does by itself: it shows alerts and new jobs at once.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** The walk-through of the choices and the keys. */
export const choosePreferences = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const job = await platform.run("archive", {})
  const page = await browser.page(await browser.window())
  await browser.login(page, platform.key)
  await page.getByRole("heading", { name: "Endpoints" }).waitFor()
  const background = async () => String(await page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
  const light = await background()

  await page.keyboard.press("?")
  const dialog = page.getByRole("dialog", { name: "Display and keys" })
  await dialog.getByText("The next or the previous row; Enter opens it").waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "preferences")
  await dialog.getByRole("button", { name: "Dark" }).click()
  expect(await background()).not.toBe(light)
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "preferences-dark")
  await dialog.getByLabel("Times in").selectOption("Asia/Tokyo")
  await page.keyboard.press("Escape")
  await dialog.waitFor({ state: "detached" })

  // The choices outlive the page, and apply to its times.
  await page.goto(`${platform.url}/console/jobs/archive/${job}`)
  expect(await background()).not.toBe(light)
  expect(await page.locator("time").first().getAttribute("title")).toMatch(/ GMT\+9$/)
  await page.getByRole("button", { name: "Display and keys" }).click()
  await dialog.getByRole("button", { name: "As the system" }).click()
  expect(await background()).toBe(light)

  const phone = await browser.page(await browser.window({ phone: true }))
  await browser.login(phone, platform.key)
  await phone.getByRole("button", { name: "Display and keys" }).click()
  await phone.getByRole("dialog", { name: "Display and keys" }).waitFor()
  expect(await browser.violations(phone)).toEqual([])
  expect(await browser.isTooWide(phone)).toBe(false)
  await browser.picture(phone, "preferences-phone")

  await page.goto(`${platform.url}/console/endpoints/archive`)
  await platform.request("POST", "/api/v1/keys", { name: "archivist", scopes: ["jobs"], endpoints: ["archive"] })
  await platform.request("POST", "/api/v1/keys", { name: "elsewhere", scopes: ["jobs"], endpoints: ["charge"] })
  await page.getByRole("tab", { name: "Keys" }).click()
  await page.getByRole("rowheader", { name: "archivist" }).waitFor()
  expect(await page.getByRole("rowheader", { name: "elsewhere" }).count()).toBe(0)
  await page.getByText("stint keys create my-app --scope jobs --endpoint archive").waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "endpoint-keys")
  expect(browser.problems).toEqual([])
}

const ALERTS = [
  {
    id: "a1",
    fingerprint: "queue_old/archive",
    kind: "queue_old",
    endpoint: "archive",
    summary: "The oldest waiting job of endpoint archive has waited for 16 minutes.",
    action: "Find out why it waits: stint jobs list archive --status IN_QUEUE, then stint status archive JOB --explain.",
    firedAt: Date.now() - 60_000
  },
  {
    id: "a2",
    fingerprint: "disk_low",
    kind: "disk_low",
    summary: "The disk of the database has 1.2 GB left.",
    action: "Free some space, or lower the retention of endpoints.",
    firedAt: Date.now() - 600_000
  }
]

/** The walk-through of what appears by itself. */
export const watchLive = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const page = await browser.page(await browser.window())
  const requests: Array<string> = []
  page.on("request", (request) => requests.push(new URL(request.url()).pathname))
  await browser.login(page, platform.key)
  await page.getByRole("heading", { name: "Endpoints" }).waitFor()
  await until("the stream of events", () => requests.includes("/api/v1/events") || undefined)
  await page.goto(`${platform.url}/console/jobs?endpoint=archive`)
  await page.getByText("No job matches").waitFor()
  await until("the stream of this page", () => requests.filter((path) => path === "/api/v1/events").length > 1 || undefined)
  // The page's clock stands still, so that no poll is due: the list is read again because of the event.
  await page.clock.install()
  await page.clock.pauseAt(Date.now() + 1_000)
  await platform.run("archive", { text: "new" })
  let passed = 0
  await until("the new job", async () => {
    // Long enough for the timers of the libraries, but far shorter than the interval of any poll.
    if (passed < 1_500) await page.clock.runFor(50)
    passed += 50
    return await page.getByRole("listitem").count() > 0 || undefined
  })
  await page.clock.resume()

  await page.route(
    "**/api/v1/alerts",
    (route) =>
      route.fulfill({
        contentType: "application/json",
        body: JSON.stringify({ configured: true, alerts: ALERTS, receivers: [] })
      })
  )
  await page.goto(platform.url)
  const alert = page.getByRole("listitem").filter({ hasText: "has waited for 16 minutes" })
  await alert.getByText("Find out why it waits").waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "home-alerts")
  await alert.getByRole("link", { name: "Waiting jobs" }).click()
  await page.waitForURL(/\/console\/jobs\?.*endpoint=archive/)
  const phone = await browser.page(await browser.window({ phone: true, dark: true }))
  await phone.route(
    "**/api/v1/alerts",
    (route) =>
      route.fulfill({
        contentType: "application/json",
        body: JSON.stringify({ configured: true, alerts: ALERTS, receivers: [] })
      })
  )
  await browser.login(phone, platform.key)
  await phone.getByText("The disk of the database has 1.2 GB left.").waitFor()
  expect(await browser.violations(phone)).toEqual([])
  expect(await browser.isTooWide(phone)).toBe(false)
  await browser.picture(phone, "home-alerts-phone-dark")
  expect(browser.problems).toEqual([])
}
