/**
 * What a person does on the console's workers page: finds a worker by its state and endpoint, and opens what it runs and what it ran.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** The walk-through. */
export const watchWorkers = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const finished = await platform.run("charge", { text: "a card" })
  await until("its end", async () => (await platform.job("charge", finished)).status === "COMPLETED" || undefined, 60_000)
  const running = await platform.run("stories", { text: "word ".repeat(400), ms: 1_000 })
  await until("its start", async () => (await platform.job("stories", running)).status === "IN_PROGRESS" || undefined, 60_000)
  await platform.run("thumbnails", {})
  const page = await browser.page(await browser.window(), [503])
  await browser.login(page, platform.key)
  await page.getByRole("link", { name: "Workers", exact: true }).click()
  const row = (endpoint: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name: endpoint, exact: true }) })
  await row("thumbnails").getByText("Unhealthy").waitFor({ timeout: 60_000 })
  await row("stories").getByText("Running").first().waitFor()
  await row("charge").getByText("Idle").first().waitFor()
  await row("stories").getByText("1 of 1", { exact: true }).first().waitFor()
  await row("charge").getByText("0 of 1", { exact: true }).first().waitFor()
  expect(await page.getByRole("row").nth(1).innerText(), "the failing worker is first").toContain("thumbnails")
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "workers-walk")

  await page.getByRole("button", { name: /^Running/ }).click()
  await row("charge").waitFor({ state: "detached" })
  await row("stories").first().waitFor()
  expect(Object.fromEntries(new URL(page.url()).searchParams)).toEqual({ state: "running" })
  await page.reload()
  await row("stories").first().waitFor()
  expect(await row("charge").count()).toBe(0)
  await page.getByRole("combobox", { name: "Endpoint" }).selectOption("charge")
  await page.getByText("No worker is in this state.").waitFor()
  await page.getByRole("button", { name: /^All/ }).click()
  await row("charge").getByRole("link", { name: `Log of ${finished.slice(0, 8)}` }).click()
  await page.getByText("Completed after 1 attempt").waitFor()
  await page.getByRole("log", { name: "Log" }).getByText("the text is at its end").waitFor()

  // A worker is drained: it finishes its job, and its replacement is not.
  await page.goto(`${platform.url}/console/workers?endpoint=charge`)
  await row("charge").first().getByRole("button", { name: /^Drain / }).click()
  const dialog = page.getByRole("alertdialog")
  await dialog.getByText("It runs no job.").waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "workers-drain")
  await dialog.getByRole("button", { name: "Drain the worker" }).click()
  await page.getByText("No worker runs").waitFor({ timeout: 30_000 })

  await page.goto(`${platform.url}/console/workers?endpoint=stories`)
  await row("stories").getByTitle(running).click()
  await page.getByText("Running").first().waitFor()
  await page.goto(`${platform.url}/console/workers?endpoint=gpu-lab`)
  await page.getByText("stint worker-env gpu-lab").waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "workers-empty")

  // A partial list of workers must not look like a complete one.
  await page.route("**/api/v1/overview/stories", (route) =>
    route.fulfill({
      status: 503,
      contentType: "application/problem+json",
      body: JSON.stringify({ error: "The store is away.", hint: "Wait." })
    }))
  await page.goto(`${platform.url}/console/workers`)
  await page.getByRole("alert").getByText("The store is away.").waitFor()
  expect(await page.getByRole("table").count()).toBe(0)
  await page.unroute("**/api/v1/overview/stories")
  await page.getByRole("button", { name: "Try again" }).click()
  await row("stories").first().waitFor()

  // A key for one endpoint sees only that endpoint's workers. Without `jobs:read`, their jobs are not links.
  const loginWith = async (scope: string, endpoints: "all" | ReadonlyArray<string>) => {
    const made = await platform.request("POST", "/api/v1/keys", { name: scope, scopes: [scope], endpoints })
    await page.getByRole("button", { name: "Log out" }).click()
    await browser.login(page, (made.body as { readonly secret: string }).secret)
    await page.goto(`${platform.url}/console/workers`)
    await row("stories").first().waitFor()
  }
  const link = page.getByRole("link", { name: new RegExp(`^${running.slice(0, 8)}`) })
  const buttons = page.getByRole("button", { name: /^(?:Drain|Stop) / })
  await loginWith("jobs:read", ["stories"])
  expect(await buttons.count(), "a viewer sees no buttons").toBe(0)
  expect([await row("charge").count(), await link.count()]).toEqual([0, 1])
  await loginWith("deploy", "all")
  expect(await buttons.count()).toBeGreaterThan(1)
  expect([await page.getByTitle(running).count(), await link.count()]).toEqual([1, 0])
  expect(browser.problems).toEqual([])
}
