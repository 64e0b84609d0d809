/**
 * What a person does on the console's schedule pages: creates a schedule with the form, runs it, pauses it, changes it and removes it.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** Schedules in every state that the list shows. */
export const populateSchedules = async (platform: PlatformProcess): Promise<void> => {
  const put = (endpoint: string, name: string, spec: unknown) =>
    platform.request("PUT", `/api/v1/endpoints/${endpoint}/schedules/${name}`, spec)
  await put("stories", "nightly", { cron: "0 3 * * *", timeZone: "Europe/Berlin", input: { text: "good night" } })
  await put("charge", "monthly-invoices", { cron: "0 8 1 * *", input: {}, overlap: "queue", catchUp: "all" })
  await put("archive", "launch", { at: "2099-12-01T09:00:00Z" })
  await platform.request("POST", "/api/v1/endpoints/stories/schedules/nightly/run-now")
  await platform.request("POST", "/api/v1/endpoints/archive/schedules/launch/run-now")
  await platform.request("POST", "/api/v1/endpoints/archive/schedules/launch/pause")
}

const stored = async (platform: PlatformProcess, name: string): Promise<unknown> =>
  (await platform.request("GET", `/api/v1/endpoints/archive/schedules/${name}`)).body

/** The walk-through. */
export const manageSchedules = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const page = await browser.page(await browser.window())
  await browser.login(page, platform.key)
  await page.getByRole("link", { name: "Schedules", exact: true }).click()
  await page.getByText("No schedule yet").waitFor()
  await page.getByRole("link", { name: "New schedule" }).click()

  await page.getByLabel("Endpoint").selectOption("archive")
  const create = page.getByRole("button", { name: "Create the schedule" })
  expect(await create.isDisabled(), "a schedule without a name").toBe(true)
  await page.getByLabel("Name").fill("hourly")
  await page.getByLabel("Cron expression").fill("0 * * *")
  await page.getByText("Write five fields").waitFor()
  expect(await create.isDisabled(), "a wrong expression").toBe(true)
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "schedule-mistake")
  await page.getByLabel("Cron expression").fill("0 * * * *")
  await page.getByLabel("Time zone").fill("Asia/Tokyo")
  await page.getByRole("listitem").nth(4).waitFor()
  await page.getByLabel("Input of each job").fill("{\"text\": \"from the form\"}")
  await create.click()

  await page.getByRole("heading", { name: "Next firings" }).waitFor()
  expect(await stored(platform, "hourly")).toMatchObject({
    spec: { cron: "0 * * * *", timeZone: "Asia/Tokyo", input: { text: "from the form" } }
  })
  expect(await page.getByRole("listitem").count(), "the next firings").toBe(5)
  await page.getByRole("listitem").first().getByText("GMT+9").waitFor()
  await page.getByLabel("Times in").selectOption("UTC")
  await page.getByRole("listitem").first().getByText("UTC").waitFor()
  await page.reload()
  await page.getByRole("listitem").first().getByText("UTC").waitFor()

  await page.getByRole("button", { name: "Run now: hourly of archive" }).click()
  const job = page.getByRole("link", { name: /^Job / })
  await job.waitFor()
  await page.getByText("by hand").waitFor()
  await page.getByRole("button", { name: "Pause: hourly of archive" }).click()
  await page.getByText("None while it is paused.").waitFor()
  expect(await stored(platform, "hourly")).toMatchObject({ paused: true })
  await page.getByRole("button", { name: "Resume: hourly of archive" }).click()
  await page.getByText("Active").waitFor()

  await page.getByRole("button", { name: "Edit" }).click()
  await page.getByLabel("While the previous job runs").selectOption("replace")
  await page.getByRole("button", { name: "Save the settings" }).click()
  await page.getByText("Replace: submit the job").waitFor()
  expect(await stored(platform, "hourly")).toMatchObject({ spec: { cron: "0 * * * *", overlap: "replace" } })

  // A second schedule with the same name would replace the first one.
  await page.goto(`${platform.url}/console/schedules/new`)
  await page.getByLabel("Endpoint").selectOption("archive")
  await page.getByLabel("Name").fill("hourly")
  await page.getByText("archive has a schedule hourly").waitFor()
  expect(await create.isDisabled(), "a name that is in use").toBe(true)

  await page.getByRole("link", { name: "Schedules", exact: true }).click()
  await page.getByRole("link", { name: "hourly", exact: true }).waitFor()
  await job.click()
  await page.getByText("Why it waits").waitFor()
  await page.goto(`${platform.url}/console/schedules/archive/hourly`)
  await page.getByRole("button", { name: "Remove" }).click()
  await page.getByRole("button", { name: "Remove the schedule" }).click()
  await page.getByText("No schedule yet").waitFor()
  await until("the removal", async () => {
    const { status } = await platform.request("GET", "/api/v1/endpoints/archive/schedules/hourly")
    return status === 404 ? true : undefined
  })
  expect(browser.problems).toEqual([])
}
