/**
 * Changes the settings of an endpoint in the console, and promotes and ends canaries there.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

interface Listed {
  readonly releases: ReadonlyArray<{ readonly number: number; readonly state: string; readonly message?: string }>
}

/** Edits a setting, reviews the difference, deploys it, and meets a deployment by somebody else. */
export const changeSettings = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const page = await browser.page(await browser.window(), [409])
  await browser.login(page, platform.key)
  const open = async () => {
    await page.goto(`${platform.url}/console/endpoints/archive`)
    await page.getByRole("tab", { name: "Settings" }).click()
    await page.getByRole("button", { name: "Change the settings" }).click()
  }
  await open()
  const most = page.getByLabel("Maximum workers")
  const review = page.getByRole("button", { name: "Review the changes" })
  await most.fill("-1")
  await page.getByText("Write a whole number from 0 to 10000.").waitFor()
  expect(await review.isDisabled()).toBe(true)
  await most.fill("2")
  await review.click()
  await page.getByText("workers.max: 0 → 2").waitFor()
  // An edit after the review needs a new review.
  await most.fill("3")
  await page.getByText("workers.max: 0 → 2").waitFor({ state: "detached" })
  await review.click()
  await page.getByText("workers.max: 0 → 3").waitFor()
  await page.getByLabel("Why (optional)").fill("Open the archive")
  const apply = page.getByRole("button", { name: "Deploy", exact: true })
  await apply.scrollIntoViewIfNeeded()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "settings-review")
  await page.setViewportSize({ width: 390, height: 844 })
  await until("a page that fits", async () => !await browser.isTooWide(page) || undefined)
  await browser.picture(page, "settings-review-phone")
  await apply.click()
  await page.getByText("has been deployed").waitFor()
  await page.getByText("0 to 3, idle for").waitFor()
  const { body } = await platform.request("GET", "/api/v1/endpoints/archive")
  expect(body).toMatchObject({ workers: { min: 0, max: 3 } })
  const job = await platform.run("archive", { text: "a word" })
  await until("the job", async () => (await platform.job("archive", job)).status === "COMPLETED" || undefined, 60_000)
  const releases = await platform.request("GET", "/api/v1/endpoints/archive/releases")
  expect((releases.body as Listed).releases[0]?.message).toBe("Open the archive")

  // Variables, and settings that an endpoint need not have.
  await page.setViewportSize({ width: 1280, height: 900 })
  await open()
  await page.getByRole("button", { name: "Add a variable" }).click()
  await page.getByLabel("Name of the variable").fill("CITY")
  await page.getByLabel("Value of CITY").fill("Zürich")
  await page.getByLabel("Concurrency key (optional)").fill("input.customer")
  await page.getByText("Write both, or neither.").waitFor()
  expect(await review.isDisabled()).toBe(true)
  await page.getByLabel("Running jobs with the same key").fill("2")
  await review.click()
  await apply.scrollIntoViewIfNeeded()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "settings-variables")
  await page.setViewportSize({ width: 390, height: 844 })
  await until("a page that fits", async () => !await browser.isTooWide(page) || undefined)
  await browser.picture(page, "settings-variables-phone")
  await apply.click()
  await page.getByText("has been deployed").waitFor()
  expect((await platform.request("GET", "/api/v1/endpoints/archive")).body).toMatchObject({
    env: { CITY: "Zürich" },
    concurrency: { key: "input.customer", limit: 2 },
    workers: { max: 3 }
  })

  // Somebody else deploys between the review and the deployment.
  await open()
  await most.fill("4")
  await review.click()
  await page.getByText("workers.max: 3 → 4").waitFor()
  const { createdAt: _createdAt, release: _release, ...spec } = body as { readonly createdAt: number; readonly release: number }
  const other = await platform.request("POST", "/api/v1/endpoints/archive/releases", { spec: { ...spec, maxAttempts: 9 } })
  expect(other.status, JSON.stringify(other.body)).toBe(201)
  await apply.click()
  await page.getByRole("alert").getByText(/release/).first().waitFor()
  expect((await platform.request("GET", "/api/v1/endpoints/archive")).body).toMatchObject({ maxAttempts: 9, workers: { max: 3 } })
  expect(browser.problems).toEqual([])
}

/** Ends one canary, and promotes the next one. */
export const decideCanaries = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const { body } = await platform.request("GET", "/api/v1/endpoints/stories")
  const { createdAt: _createdAt, release: _release, ...spec } = body as { readonly createdAt: number; readonly release?: number }
  const deploy = async (name: string) => {
    const json = { spec: { ...spec, env: { NAME: name } }, message: name, canary: { percent: 20 } }
    const { body } = await platform.request("POST", "/api/v1/endpoints/stories/releases", json)
    return body as { readonly number: number; readonly state: string }
  }
  const stateOf = async (number: number) => {
    const { body } = await platform.request("GET", "/api/v1/endpoints/stories/releases")
    return (body as Listed).releases.find((one) => one.number === number)?.state
  }
  // The first release replaces no worker, so it is active at once or rolls.
  const first = await deploy("the first")
  await until("the first release", async () => await stateOf(first.number) === "active" || undefined, 60_000)
  const second = await deploy("the second")
  expect(second.state).toBe("canary")

  const page = await browser.page(await browser.window())
  await browser.login(page, platform.key)
  await page.goto(`${platform.url}/console/endpoints/stories`)
  await page.getByRole("tab", { name: "Releases" }).click()
  const row = (number: number) =>
    page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: String(number), exact: true }) })
  await row(second.number).getByText("20 % of the jobs. 0 of 0 attempts failed; on the active release 0 of 0.").waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "canary")
  await row(second.number).getByRole("button", { name: "End the canary" }).click()
  await page.getByRole("alertdialog").getByRole("button", { name: "End the canary" }).click()
  await row(second.number).getByRole("button", { name: "Promote" }).waitFor({ state: "detached" })
  expect(await stateOf(second.number)).not.toBe("canary")

  const third = await deploy("the third")
  expect(third.state).toBe("canary")
  await row(third.number).getByRole("button", { name: "Promote" }).click()
  await page.getByRole("alertdialog").getByRole("button", { name: "Promote" }).click()
  await row(third.number).getByText("Active", { exact: true }).waitFor({ timeout: 60_000 })
  expect(await stateOf(third.number)).toBe("active")
  expect(browser.problems).toEqual([])
}
