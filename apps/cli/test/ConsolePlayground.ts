/**
 * Runs a typed handler from the form of the playground.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** Fills the form from the handler's Schema beside the JSON of the input, and runs the job. */
export const runFromForm = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "typed.config.ts")])
  await until("the schema", async () => (await platform.request("GET", "/v2/poster/schema")).status === 200 || undefined, 60_000)
  await using browser = await ConsoleBrowser.open(platform.url)
  const page = await browser.page(await browser.window())
  await browser.login(page, platform.key)
  await page.goto(`${platform.url}/console/playground?endpoint=poster`)
  const json = page.getByLabel("Input", { exact: true })
  const input = async (): Promise<unknown> => JSON.parse(await json.inputValue())
  const title = page.getByLabel("Title", { exact: true })
  await title.waitFor()
  expect(await page.getByText("Required.").count()).toBe(3)
  await title.fill("Löwe & <b>Co</b>")
  await page.getByLabel("Style").selectOption("printed")
  const width = page.getByLabel("Width")
  await width.fill("5000")
  await page.getByText("Enter 4096 or less.").waitFor()
  await width.fill("300")
  await page.getByLabel("Words (optional)").fill("roar\nagain")
  await page.getByLabel("Framed (optional)").selectOption("true")
  const filled = {
    title: "Löwe & <b>Co</b>",
    style: "printed",
    size: { width: 300 },
    words: ["roar", "again"],
    isFramed: true
  }
  expect(await input()).toEqual(filled)
  expect(await page.getByText("Required.").count()).toBe(0)
  await page.getByLabel("Framed (optional)").selectOption("")
  const { isFramed: _, ...unframed } = filled
  expect(await input()).toEqual(unframed)

  // The JSON and the form show the same input.
  await json.fill(JSON.stringify({ ...unframed, title: "Bear", colors: [{ red: 255 }] }))
  expect(await title.inputValue()).toBe("Bear")
  await title.fill("Tiger")
  expect(await input()).toEqual({ ...unframed, title: "Tiger", colors: [{ red: 255 }] })
  const text = await json.inputValue()
  await json.fill("{")
  await page.getByText("The form shows the input again when its JSON is valid.").waitFor()
  expect(await title.count()).toBe(0)
  await json.fill(text)
  await title.waitFor()
  expect(await browser.violations(page)).toEqual([])
  await browser.picture(page, "playground-form")
  await page.setViewportSize({ width: 390, height: 844 })
  await until("a page that fits", async () => !await browser.isTooWide(page) || undefined)
  await browser.picture(page, "playground-form-phone")
  await page.setViewportSize({ width: 1280, height: 900 })
  await page.getByRole("button", { name: "Run", exact: true }).click()
  await page.getByText("Tiger, printed, 300 wide: roar again").waitFor()

  // A saved input is there again after a reload, for its endpoint alone.
  const saved = await input()
  await page.getByRole("button", { name: "Save as an input" }).click()
  await page.getByLabel("Name", { exact: true }).fill("Tigers")
  await page.getByRole("button", { name: "Save", exact: true }).click()
  await page.reload()
  await title.waitFor()
  expect(await input()).toEqual({})
  await page.getByRole("button", { name: "Tigers" }).click()
  expect(await input()).toEqual(saved)
  await page.getByRole("button", { name: "Remove the input Tigers" }).waitFor()

  // A function has no Schema, so that only the JSON is shown.
  await page.getByLabel("Endpoint").selectOption("stories")
  await title.waitFor({ state: "detached" })
  expect(await page.getByRole("button", { name: "Tigers" }).count()).toBe(0)
  expect(await json.isVisible()).toBe(true)
  expect(browser.problems).toEqual([])
}
