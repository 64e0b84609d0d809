/**
 * Opens `/docs` in Chromium, and sends a request from the page.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { chromium, type Page } from "playwright-core"
import { beforeEach } from "vitest"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "../src/ServerTest.ts"

/** Debian's Chromium. Playwright's own browsers are not in npm packages. */
const program = (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "chromium")).find((file) =>
  existsSync(file)
)

const browserPage = Effect.acquireRelease(
  // Chromium cannot create its sandbox as root, which containers run as. The test opens only its own server.
  Effect.promise(() => chromium.launch({ executablePath: program ?? "chromium", args: ["--no-sandbox"] })),
  (browser) => Effect.promise(() => browser.close())
).pipe(Effect.flatMap((browser) => Effect.promise(() => browser.newPage({ viewport: { width: 1400, height: 1000 } }))))

/**
 * Reports what the page's policy blocks. Scalar's validation library tests whether it may compile code, and interprets its schemas when it
 * may not.
 */
const REPORT_BLOCKED = `document.addEventListener("securitypolicyviolation", ({ blockedURI, violatedDirective }) => {
  if (blockedURI !== "eval") console.error("blocked by " + violatedDirective + ": " + blockedURI)
})`

/** The URLs of all requests that the page sends or tries to send, and what its policy blocks. */
const watch = async (page: Page) => {
  const requests: Array<string> = []
  const problems: Array<string> = []
  page.on("request", (request) => requests.push(request.url()))
  page.on("pageerror", (error) => problems.push(error.message))
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes("404")) {
      problems.push(`${message.text()} ${message.location().url}`)
    }
  })
  await page.addInitScript({ content: REPORT_BLOCKED })
  return { requests, problems }
}

/** Fills in the request form of an operation and sends it until the platform accepts it. Returns the status that the page shows. */
const send = async (page: Page, operation: RegExp, endpoint: string): Promise<string> => {
  await page.getByRole("button", { name: operation }).first().click()
  const form = page.getByRole("dialog").filter({ hasText: "Send" }).last()
  await form.locator("input[placeholder]").first().fill(ADMIN_KEY)
  await form.locator("tr", { hasText: "endpoint" }).first().locator("[contenteditable=true]").last().fill(endpoint)
  // The form stores a typed value after a delay that the page does not show: an early request has no endpoint, and the response is a 404.
  for (let attempt = 0; attempt < 10; attempt++) {
    const response = page.waitForResponse((one) => one.request().method() === "POST", { timeout: 10_000 })
    await form.getByRole("button", { name: /^Send/ }).first().click()
    if ((await response).status() !== 404) break
  }
  return form.getByText(/^\d{3} /).first().innerText()
}

describe("the API reference in a browser", () => {
  beforeEach(({ skip }) => skip(program === undefined, "PATH has no chromium: apt-get install chromium"))

  it.live("sends no request to other hosts, and submits a job from the page", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const page = yield* browserPage
      const { problems, requests } = yield* Effect.promise(() => watch(page))
      yield* Effect.promise(() => page.goto(`${server.baseUrl}/docs`))
      const shown = yield* Effect.promise(() => send(page, /Test Request.*\/run\b/, endpoint.id))
      assert.match(shown, /^200/)
      const worker = yield* endpoint.worker()
      assert.deepInclude(yield* worker.next, { input: { name: "Ada" } })
      const foreign = requests.filter((url) => !url.startsWith(`${server.baseUrl}/`) && !/^(?:data|blob):/.test(url))
      assert.deepStrictEqual(foreign, [])
      assert.deepStrictEqual(problems, [])
    }).pipe(Effect.provide(layerServer())), 60_000)
})
