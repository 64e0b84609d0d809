/**
 * Shows the output of a job as pictures, audio, tables and Markdown.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** Opens a job whose output has one of each, and hostile Markdown. */
export const showOutputs = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "media.config.ts")])
  const job = await platform.runSync("media", {})
  expect(job).toMatchObject({ status: "COMPLETED" })
  await using browser = await ConsoleBrowser.open(platform.url)
  const page = await browser.page(await browser.window())
  await browser.login(page, platform.key)
  await page.goto(`${platform.url}/console/jobs/media/${job.id}`)

  const picture = page.getByRole("img", { name: "Picture in image" })
  await picture.waitFor()
  await until(
    "the decoded picture",
    async () => await page.evaluate("document.querySelector('img').naturalWidth") === 320 || undefined
  )
  expect(await page.getByLabel("Audio in speech").count()).toBe(1)
  await until(
    "the length of the sound",
    async () => await page.evaluate("document.querySelector('audio').duration") === 0.5 || undefined
  )
  expect(await page.getByRole("region", { name: "Table in scores" }).getByRole("row").allInnerTexts()).toEqual([
    "word\tscore\tknown",
    "tiger\t0.93\ttrue",
    "bear\t0.41\tfalse"
  ])

  // Markdown runs nothing and loads nothing.
  const markdown = page.getByRole("article", { name: "Markdown in summary" })
  await markdown.getByRole("heading", { name: "Two animals" }).waitFor()
  expect(await markdown.getByRole("listitem").count()).toBe(2)
  expect(await markdown.getByRole("link", { name: "described" }).getAttribute("href")).toBe("https://example.com/bear")
  expect(await markdown.locator("img, script").count()).toBe(0)
  expect(await markdown.locator("[href^='javascript:']").count()).toBe(0)
  expect(await markdown.innerText()).toContain("a picture (https://example.com/picture.png)")
  expect(await page.title()).not.toContain("hostile")

  // The JSON has short texts in place of the media, and its copy has everything.
  const json = await page.getByLabel("the output", { exact: true }).innerText()
  expect(json).toContain("(image/png, ")
  expect(json).toContain("(audio/wav, 4 KB)")
  expect(json).not.toContain("iVBOR")

  expect(await browser.isTooWide(page)).toBe(false)
  await picture.scrollIntoViewIfNeeded()
  await browser.picture(page, "output")
  expect(await browser.violations(page)).toEqual([])
  await page.setViewportSize({ width: 390, height: 844 })
  await until("a page that fits", async () => !await browser.isTooWide(page) || undefined)
  await browser.picture(page, "output-phone")
  expect(browser.problems).toEqual([])
}
