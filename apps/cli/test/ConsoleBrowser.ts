/**
 * A Chromium that opens the console and records what must not happen: requests to other hosts, errors, and content that the page's policy
 * blocks.
 */
import axe from "axe-core"
import { execFileSync } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { delimiter, join, resolve } from "node:path"
import process from "node:process"
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core"

/** Debian's Chromium. Playwright's own browsers are not in npm packages. Undefined when it is not installed. */
export const program = (process.env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "chromium")).find((file) =>
  existsSync(file)
)

/** Builds the console, which `stint serve` from a clone shows. */
export const buildConsole = (): void => {
  const folder = resolve(import.meta.dirname, "../../console")
  const vite = join(folder, "node_modules/vite/bin/vite.js")
  // Vitest sets NODE_ENV, with which React and other libraries would be built for development.
  const env = { ...process.env, NODE_ENV: "production" }
  execFileSync(process.execPath, [vite, "build", "--logLevel", "warn"], { cwd: folder, env })
}

/** The limit of every wait: far longer than a page needs on a busy machine. Milliseconds. */
const WAIT_MILLIS = 60_000

const REPORT_BLOCKED = `document.addEventListener("securitypolicyviolation", ({ blockedURI, violatedDirective }) => {
  console.error("blocked by " + violatedDirective + ": " + blockedURI)
})`

/** Where the pictures go when STINT_SCREENSHOTS names a folder. */
const pictures = process.env["STINT_SCREENSHOTS"]

/** A browser for one test. */
export class ConsoleBrowser {
  readonly #browser: Browser
  readonly #base: string
  /** Requests to other hosts, errors of scripts, and what the policy blocked. */
  readonly problems: Array<string> = []
  /** The bytes of scripts, styles and pages that the first page needed, as they were sent. */
  bytes = 0

  private constructor(browser: Browser, base: string) {
    this.#browser = browser
    this.#base = base
  }

  static async open(base: string): Promise<ConsoleBrowser> {
    // Chromium cannot create its sandbox as root, which containers run as. The test opens only its own server.
    const browser = await chromium.launch({ executablePath: program ?? "chromium", args: ["--no-sandbox"] })
    return new ConsoleBrowser(browser, base)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close()
  }

  /** A window with its own cookies. */
  async window(options: { readonly dark?: boolean; readonly phone?: boolean } = {}): Promise<BrowserContext> {
    const context = await this.#browser.newContext({
      viewport: options.phone === true ? { width: 390, height: 844 } : { width: 1440, height: 900 },
      colorScheme: options.dark === true ? "dark" : "light",
      reducedMotion: "reduce"
    })
    context.setDefaultTimeout(WAIT_MILLIS)
    await context.addInitScript({ content: REPORT_BLOCKED })
    return context
  }

  /** A page in a window. `expected` are statuses that the test provokes: Chromium reports every response with an error status as an error. */
  async page(context: BrowserContext, expected: ReadonlyArray<number> = []): Promise<Page> {
    const page = await context.newPage()
    page.on("request", (request) => {
      const url = request.url()
      if (!url.startsWith(`${this.#base}/`) && !/^(?:data|blob):/.test(url)) this.problems.push(`requested ${url}`)
    })
    page.on("pageerror", (error) => this.problems.push(error.stack ?? error.message))
    page.on("console", (message) => {
      if (message.type() !== "error" && message.type() !== "warning") return
      const { url } = message.location()
      // The page asks who is logged in, and a wrong key is refused.
      if (url.endsWith("/api/v1/session") && message.text().includes("status of 401")) return
      if (expected.some((status) => message.text().includes(`status of ${status}`))) return
      this.problems.push(`${message.text()} ${url}`)
    })
    return page
  }

  /** Logs in on the page that is shown. */
  async login(page: Page, key: string, path = "/"): Promise<void> {
    await page.goto(this.#base + path)
    await page.getByLabel("Key", { exact: true }).fill(key)
    await page.getByRole("button", { name: "Log in" }).click()
    await page.getByRole("button", { name: "Log out" }).waitFor()
  }

  /** The serious and critical violations of WCAG 2.2 AA that axe finds on a page, as sentences. */
  async violations(page: Page): Promise<ReadonlyArray<string>> {
    await page.evaluate(axe.source)
    const found: ReadonlyArray<axe.Result> = await page.evaluate(
      `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }).then(({ violations }) => violations)`
    )
    return found.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ help, id, nodes }) =>
      `${id}: ${help}: ${nodes.map(({ html }) => html).join(" ")}`
    )
  }

  /** Records the tasks of a page's threads. */
  startTracing(page: Page): Promise<void> {
    return this.#browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline"] })
  }

  /** Ends the recording: the text of a trace. */
  async stopTracing(): Promise<string> {
    return (await this.#browser.stopTracing()).toString()
  }

  /** Whether the page is wider than its window. */
  isTooWide(page: Page): Promise<boolean> {
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
  }

  /** Takes a picture, if STINT_SCREENSHOTS names a folder. */
  async picture(page: Page, name: string): Promise<void> {
    if (pictures === undefined) return
    await mkdir(pictures, { recursive: true })
    await page.screenshot({ path: join(pictures, `${name}.png`) })
  }
}
