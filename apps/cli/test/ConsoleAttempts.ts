/**
 * What a person sees of a job that took several attempts: each one with its outcome, worker, error and log, side by side and in the waterfall, and the
 * link to its trace.
 */
import { join } from "node:path"
import { expect } from "vitest"
import { runCommand } from "./CommandInProcess.ts"
import { ConsoleBrowser } from "./ConsoleBrowser.ts"
import { listen } from "./OtlpCollector.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** The walk-through. */
export const compareAttempts = async (): Promise<void> => {
  using collector = await listen()
  await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "console.config.ts")], {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_LOGS_EXPORTER: "otlp",
    STINT_TRACE_URL: "https://traces.example.org/trace/{traceId}?org=1"
  })
  await using browser = await ConsoleBrowser.open(platform.url)
  const { body } = await platform.request("POST", "/v2/charge/run", {
    input: { text: "checking the card of Ada", ms: 150, fail: "the card number 4242 has expired" },
    policy: { retry: { onError: true, maxAttempts: 3, backoff: { initialMs: 400, maxMs: 400, factor: 1 } } }
  })
  const { id } = body as { readonly id: string }
  expect((await platform.ended("charge", id)).status).toBe("FAILED")
  const { traceId } = await until("the job's trace", () => collector.spans.find(({ name }) => name === "send charge"))
  const url = `https://traces.example.org/trace/${traceId}?org=1`

  const attempts = await collector.wait(traceId, "attempt charge", 3)

  // The lines are log records of the attempts' spans.
  const lineOf = (message: string, attempt: number) =>
    until(
      `the record of ${message}`,
      () =>
        collector.records.find(({ body, spanId }) =>
          body.stringValue.startsWith(message) && spanId === attempts[attempt - 1]?.spanId
        )
    )
  for (const attempt of [1, 2, 3]) {
    const record = await lineOf("wrote word 5 of 5", attempt)
    expect(record).toMatchObject({ traceId, severityText: "INFO" })
    expect(record.attributes).toContainEqual({ key: "stint.job.attempt", value: { intValue: attempt } })
    expect(record.attributes).toContainEqual({ key: "stint.endpoint", value: { stringValue: "charge" } })
    expect(await lineOf(`Attempt ${attempt} failed after`, attempt)).toMatchObject({ severityText: "WARN" })
  }

  for (const look of [{}, { dark: true }, { phone: true }]) {
    const page = await browser.page(await browser.window(look))
    await browser.login(page, platform.key)
    await page.goto(`${platform.url}/console/jobs/charge/${id}`)
    await page.getByText("Failed after 3 attempts").waitFor()
    const timeline = page.getByRole("list", { name: "Timeline" })
    for (const number of [1, 2, 3]) await timeline.getByText(`Attempt ${number}`, { exact: true }).waitFor()
    expect(await timeline.getByText("Backoff and wait").count()).toBe(2)
    const link = page.getByRole("link", { name: "Open the trace" })
    expect(await link.getAttribute("href")).toBe(url)

    await page.getByRole("tab", { name: "Attempts" }).click()
    const columns = page.getByRole("list", { name: "Attempts, the newest first" }).getByRole("listitem")
    expect(await columns.getByRole("heading").allInnerTexts()).toEqual(["Attempt 3", "Attempt 2", "Attempt 1"])
    for (const index of [0, 1, 2]) {
      const one = columns.nth(index)
      await one.getByText("Failed", { exact: true }).waitFor()
      await one.getByText("TypeError: the card number 4242 has expired", { exact: true }).waitFor()
      await one.getByRole("log").getByText("wrote word 5 of 5").waitFor()
      expect(await one.getByRole("button", { name: /^Copy / }).count()).toBe(1)
    }
    await columns.first().scrollIntoViewIfNeeded()
    await browser.picture(page, `job-attempts${Object.keys(look).map((name) => `-${name}`).join("")}`)
    expect(await browser.violations(page)).toEqual([])
    expect(await browser.isTooWide(page)).toBe(false)

    await page.getByRole("tab", { name: "Logs" }).click()
    await page.getByLabel("Attempt", { exact: true }).selectOption("2")
    await page.getByRole("log").getByText(/^Attempt 2 failed after .*: TypeError: the card number 4242 has expired$/).waitFor()
    expect(await page.getByRole("log").getByText(/^Attempt 1 failed/).count()).toBe(0)
    await page.close()
  }
  const { stdout } = await runCommand(["trace", "charge", id], { env: { STINT_URL: platform.url, STINT_API_KEY: platform.key } })
  expect(stdout).toContain(url)
  expect(stdout).toMatch(/attempt 1 on .*, failed .*\n.*wait .*\n.*attempt 2 on .*, failed .*\n.*wait .*\n.*attempt 3 on /)
  expect(browser.problems).toEqual([])
}
