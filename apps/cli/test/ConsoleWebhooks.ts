/**
 * What a person does with the webhooks of an endpoint: finds one that its receiver rejects, opens its job, and sends it again.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { receiveWebhooks } from "./WebhookReceiver.ts"

/** The walk-through. */
export const resendWebhooks = async (): Promise<void> => {
  let status = 500
  await using hooks = await receiveWebhooks(() => status)
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")], {
    STINT_WEBHOOKS_ALLOW: "127.0.0.1"
  })
  await using browser = await ConsoleBrowser.open(platform.url)
  const { body } = await platform.request("POST", "/v2/charge/run", { input: { text: "a card" }, webhook: hooks.url })
  const { id } = body as { readonly id: string }
  await until("the webhook", () => hooks.received[0], 60_000)

  const page = await browser.page(await browser.window())
  await browser.login(page, platform.key)
  await page.goto(`${platform.url}/console/endpoints/charge`)
  await page.getByRole("tab", { name: "Webhooks" }).click()
  const row = page.getByRole("row").filter({ hasText: hooks.url })
  await row.getByText("Pending", { exact: true }).waitFor()
  await row.getByText("500", { exact: true }).waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "endpoint-webhooks")
  await page.getByRole("button", { name: "Delivered" }).click()
  await page.getByText("No webhook is in this state.").waitFor()
  await page.getByRole("button", { name: "Pending" }).click()
  await row.waitFor()
  await page.getByRole("button", { name: "All" }).click()

  await row.getByRole("button", { name: "Resend completed" }).click()
  status = 200
  await page.getByRole("alertdialog").getByRole("button", { name: "Send the webhook" }).click()
  await row.getByText("Delivered", { exact: true }).waitFor()
  expect(new Set(hooks.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1)
  expect(hooks.received.length).toBeGreaterThan(1)
  await page.getByRole("button", { name: "Delivered" }).click()
  await row.getByText("200", { exact: true }).waitFor()
  await row.getByRole("link", { name: "completed" }).click()
  await page.getByText("Completed after 1 attempt").waitFor()
  expect(page.url()).toBe(`${platform.url}/console/jobs/charge/${id}`)
  await page.getByRole("tab", { name: "Webhooks" }).click()
  await row.getByText("Delivered", { exact: true }).waitFor()

  // Without `jobs:read`, the webhooks are listed, but their jobs are not links.
  const made = await platform.request("POST", "/api/v1/keys", { name: "operator", scopes: ["deploy"], endpoints: "all" })
  await page.getByRole("button", { name: "Log out" }).click()
  await browser.login(page, (made.body as { readonly secret: string }).secret)
  await page.goto(`${platform.url}/console/endpoints/charge`)
  await page.getByRole("tab", { name: "Webhooks" }).click()
  await row.getByText("completed", { exact: true }).waitFor()
  expect(await row.getByRole("link").count()).toBe(0)
  expect(browser.problems).toEqual([])
}
