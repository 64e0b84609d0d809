/**
 * What a person does on the console's pipeline pages: follows a run in its graph, sends it the event that it waits for, and retries it from
 * a node.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

interface Steps {
  readonly steps: ReadonlyArray<{ readonly path: string; readonly state: string }>
}

/** Starts a run of the album, which waits for its approval. */
const startAlbum = async (platform: PlatformProcess, title: string): Promise<string> => {
  const run = await platform.run("album", { title, photos: ["anna", "berta", "clara"] })
  await until("the wait for the approval", async () => {
    const { body, status } = await platform.request("GET", `/v2/album/steps/${run}`)
    // A job becomes a run when its worker first writes.
    if (status !== 200) return undefined
    const { steps } = body as Steps
    return steps.some(({ path, state }) => path === "approval" && state === "open") || undefined
  }, 120_000)
  return run
}

/** A run that waits for an event, and one that has failed. */
export const populateRuns = async (
  platform: PlatformProcess
): Promise<{ readonly waitingRun: string; readonly failedRun: string }> => {
  const failedRun = await startAlbum(platform, "autumn")
  const data = { approved: false, by: "Grace" }
  await platform.request("POST", "/v2/album/events", { name: "approval", key: "autumn", data })
  await platform.ended("album", failedRun)
  return { failedRun, waitingRun: await startAlbum(platform, "spring") }
}

/** The walk-through. */
export const followRun = async (): Promise<void> => {
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")])
  await using browser = await ConsoleBrowser.open(platform.url)
  const run = await startAlbum(platform, "spring")
  const page = await browser.page(await browser.window(), [403])
  await browser.login(page, platform.key)
  await page.getByRole("link", { name: "Pipelines", exact: true }).click()
  await page.getByRole("link", { name: "album", exact: true }).waitFor()
  await page.getByRole("link", { name: `${run.slice(0, 8)}..${run.slice(-4)}` }).click()

  // The node that waits for a person is shown first. The others are a click away, and the address says which.
  const graph = page.getByRole("group", { name: "The graph of album" })
  await page.getByRole("heading", { name: "approval" }).waitFor()
  expect(await graph.getByRole("button").count()).toBe(12)
  await graph.getByRole("button", { name: "thumbnail" }).getByText("3 of 3").waitFor()
  await graph.getByRole("button", { name: "pack" }).getByText("skipped").waitFor()
  await graph.getByRole("button", { name: "thumbnail" }).click()
  await page.getByLabel("the output", { exact: true }).getByText("anna.jpg").waitFor()
  await page.getByLabel("the output of list", { exact: true }).getByText("anna.raw").waitFor()
  await page.getByRole("rowheader", { name: "thumbnail[2]" }).waitFor()
  // A step that was retried is one row, which unfolds. The log has the lines of this node alone.
  const locked = page.getByText("berta.raw is locked", { exact: true })
  expect(await locked.count()).toBe(0)
  await page.getByRole("button", { name: "2 attempts" }).click()
  await locked.waitFor()
  await page.getByRole("rowheader", { name: "Attempt 2" }).waitFor()
  await page.getByRole("log").getByText("shrinks clara.raw").waitFor()
  await page.getByRole("log").scrollIntoViewIfNeeded()
  await browser.picture(page, "run-attempts")
  await page.reload()
  await page.getByRole("heading", { name: "thumbnail" }).waitFor()
  await graph.getByRole("button", { name: "story" }).click()
  await page.getByLabel("the input", { exact: true }).getByText("cover of 3.html").waitFor()
  await page.getByRole("link", { name: /^step-/ }).waitFor()
  expect(await page.getByRole("button", { name: "Retry from here" }).count(), "a retry of an open run").toBe(0)

  await graph.getByRole("button", { name: "approval" }).click()
  const data = page.getByLabel("Data of the event")
  await data.fill("{")
  expect(await page.getByRole("button", { name: "Send the event" }).isDisabled()).toBe(true)
  await data.fill(JSON.stringify({ approved: false, by: "Grace" }))
  await page.getByRole("button", { name: "Send the event" }).click()
  await graph.getByRole("button", { name: "publish" }).getByText("failed").waitFor()
  await graph.getByRole("button", { name: "publish" }).click()
  await page.getByLabel("Error").getByText("Grace declined the album").waitFor()
  await page.getByLabel("the input", { exact: true }).getByText("cover of 3.html").waitFor()
  expect((await platform.ended("album", run)).status).toBe("FAILED")

  await graph.getByRole("button", { name: "approval" }).click()
  await page.getByRole("button", { name: "Retry from here" }).click()
  await page.getByRole("button", { name: "Retry the run" }).click()
  await graph.getByRole("button", { name: "approval" }).getByText("waits").waitFor()
  await data.fill(JSON.stringify({ approved: true, by: "Ada" }))
  await page.getByRole("button", { name: "Send the event" }).click()
  // The box shows how long the step took, or that it completed within the same millisecond.
  await graph.getByRole("button", { name: "publish" }).getByText(/^step, (completed|[\d.]+ m?s)$/).waitFor()
  expect(await platform.ended("album", run)).toMatchObject({ status: "COMPLETED", output: "cover of 3.html" })

  await page.getByRole("link", { name: "Job and logs" }).click()
  await page.getByRole("link", { name: "Graph of the run" }).waitFor()

  // A viewer sees the graph and what the nodes recorded, but no button that changes anything.
  const other = await startAlbum(platform, "summer")
  const { body } = await platform.request("POST", "/api/v1/keys", { name: "viewer", scopes: ["jobs:read"], endpoints: ["album"] })
  const { secret } = body as { readonly secret: string }
  const viewer = await browser.page(await browser.window(), [403])
  await browser.login(viewer, secret)
  await viewer.goto(`${platform.url}/console/pipelines/album/${other}`)
  await viewer.getByText("Waits for the event").waitFor()
  await viewer.getByRole("group", { name: "The graph of album" }).getByRole("button", { name: "story" }).waitFor()
  for (const name of ["Send the event", "Cancel", "Retry from here"]) {
    expect(await viewer.getByRole("button", { name }).count(), name).toBe(0)
  }
  expect(browser.problems).toEqual([])
}
