/**
 * Runs the code blocks of a page like a reader who pastes them one after the other, and compares their outputs with the page.
 * doc-plan.ts documents the comments that a page uses.
 *
 * Ports: where a page says `127.0.0.1:4600`, it runs on a free port instead. The same applies to every other port that it names with this address.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { blocksOf, type Fence, markOf } from "./doc-blocks.ts"
import { containsText, isText, jsonDifference, varyingOf } from "./doc-compare.ts"
import { type Plan, planOf, type SettingName, type Step } from "./doc-plan.ts"
import { type Background, DocShell } from "./doc-shell.ts"

/** How long a program in the background may take until it is ready: `pnpm start` in a new clone builds the web console first. Milliseconds. */
const READY_MILLIS = 240_000

/** Where a page runs. */
export interface Setting {
  readonly name: SettingName
  /** The folder in which the page starts. */
  readonly folder: string
  /** The folder for modules that a page does not save. Every package that the documentation imports resolves from here. */
  readonly modules: string
  /** The folder of the examples. The hidden imports of a page name it by its path in the repository. */
  readonly examples: string
  readonly env: NodeJS.ProcessEnv
  /** Commands on the pages, and their replacements in this setting. */
  readonly commands: ReadonlyArray<readonly [RegExp, string]>
  /** The port to use for each port on the page. Default: free ports. */
  readonly ports?: ReadonlyMap<string, number>
  /** How long a block may take. Default: 4 minutes. */
  readonly blockMillis?: number
  /** Called with each command that has ended. */
  readonly record?: (command: Recorded) => void
}

/** A page's command, as the page shows it, with its output. */
export interface Recorded {
  readonly lines: ReadonlyArray<string>
  readonly output: string
  readonly millis: number
}

/** The counts of a page, and its first failure. */
export interface Outcome {
  readonly page: string
  /** Blocks that ran or were saved. */
  readonly run: number
  /** Outputs that were compared. */
  readonly compared: number
  /** Blocks that did not run: their lines and reasons. */
  readonly skipped: ReadonlyArray<string>
  readonly problems: ReadonlyArray<string>
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().on("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

/** The ports that a page names, and the free port that replaces each of them. 4600 is the platform's port. */
const portsOf = async (source: string): Promise<ReadonlyMap<string, number>> => {
  const ports = new Map<string, number>()
  for (
    const name of [
      "4600",
      ...Array.from(source.matchAll(/(?:127\.0\.0\.1|localhost):(\d{4,5})\b/g), ([, port = ""]) => port)
    ]
  ) {
    if (!ports.has(name)) ports.set(name, await freePort())
  }
  return ports
}

/** Lines that npm and pnpm add, and that pages do not show. */
const noise =
  /^(?:npm (?:warn|notice)|\$ node |> |\(node:\d+\) ExperimentalWarning|\(Use `node --trace-warnings).*\n|^Debugger .*\n/gm

/** The environment in which a page runs, without the settings of the person who runs the tests. */
const environmentOf = (folder: string, setting: Setting, port: number): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) =>
      !/^(?:STINT_|RUNPOD_|PLATFORM_|XDG_|npm_(?!config_)|VITEST|NODE_(?:ENV|OPTIONS|PATH|V8_COVERAGE)$|CI$|TEST$|PORT$)/.test(
        name
      )
    )
  ),
  HOME: folder,
  TMPDIR: folder,
  NO_COLOR: "1",
  PORT: String(port),
  EXAMPLES: setting.examples,
  STINT_URL: `http://127.0.0.1:${port}`,
  ...setting.env
})

class Failed extends Error {}

class PageRun implements AsyncDisposable {
  readonly #page: string
  readonly #source: string
  readonly #setting: Setting
  readonly #ports: ReadonlyMap<string, number>
  readonly #shell: DocShell
  readonly #folder: string
  #output = ""
  /** The program whose output the next block shows, and the last program that was started. */
  #background: Background | undefined
  #started: Background | undefined

  constructor(page: string, source: string, plan: Plan, setting: Setting, ports: ReadonlyMap<string, number>) {
    this.#page = page
    this.#source = source
    this.#setting = setting
    this.#ports = ports
    this.#folder = realpathSync(mkdtempSync(join(tmpdir(), "stint-page-")))
    for (const one of ["home", "empty", "blocks"]) mkdirSync(join(this.#folder, one))
    // curl shows its progress only when its output is not a terminal, so readers do not see it.
    writeFileSync(join(this.#folder, "home/.curlrc"), "no-progress-meter\n")
    this.#shell = new DocShell({
      cwd: plan.startsEmpty ? join(this.#folder, "empty") : setting.folder,
      env: environmentOf(join(this.#folder, "home"), setting, ports.get("4600") ?? 0),
      folder: join(this.#folder, "blocks")
    })
  }

  /** The text of a block as it runs: with its replacements, this setting's commands and the free ports. */
  #textOf(fence: Fence, lines: ReadonlyArray<string> = fence.lines): string {
    let text = lines.join("\n")
    for (const [name, value] of fence.marks) {
      if (name !== "replace") continue
      const [from = "", to] = value.split(" => ")
      if (to === undefined || !fence.lines.some((line) => line.includes(from))) {
        throw new Failed(`\`replace: ${value}\` must be \`text => replacement\`, and a line of the block must contain the text.`)
      }
      text = text.replaceAll(from, to)
    }
    for (const [from, to] of this.#setting.commands) text = text.replaceAll(from, to)
    text = text.replaceAll(/(["'])(?:\.\.\/)+examples\//g, (_, quote: string) => `${quote}${this.#setting.examples}/`)
    for (const [name, port] of this.#ports) text = text.replaceAll(new RegExp(`\\b${name}\\b`, "g"), String(port))
    return text
  }

  /** The output as the page shows it: with the page's ports, and without the lines of package managers. */
  #shown(output: string): string {
    let text = output.replaceAll(noise, "")
    for (const [name, port] of this.#ports) text = text.replaceAll(new RegExp(`\\b${port}\\b`, "g"), name)
    return text
  }

  async #command(code: string, fence: Fence): Promise<string> {
    const start = performance.now()
    const ended = await this.#shell.run(
      markOf(fence, "stdout") === undefined ? code : `{ ${code}\n} 2>/dev/null`,
      this.#setting.blockMillis
    )
    const output = this.#shown(ended.output)
    if (!fence.isHidden) this.#setting.record?.({ lines: fence.lines, output, millis: performance.now() - start })
    const expected = Number(markOf(fence, "exit") ?? 0)
    if (ended.code !== expected) {
      const what = ended.failed === undefined ? "" : ` (${ended.failed})`
      throw new Failed(`Exit code ${ended.code}, not ${expected}${what}. The output:\n${output}`)
    }
    return output
  }

  async #run(code: string, fence: Fence): Promise<void> {
    const ready = markOf(fence, "background")
    if (ready === undefined) {
      this.#background = undefined
      this.#output = await this.#command(code, fence)
      return
    }
    const background = await this.#shell.start(code)
    this.#background = background
    this.#started = background
    if (!await background.until((output) => this.#shown(output).includes(ready), READY_MILLIS)) {
      const when = background.hasEnded() ? "before it ended" : `within ${READY_MILLIS / 1000} s`
      throw new Failed(`The program did not print \`${ready}\` ${when}. Its output:\n${this.#shown(background.output())}`)
    }
  }

  /** Runs each command of a transcript and compares its output. */
  async #transcript(fence: Fence): Promise<void> {
    const commands: Array<{ readonly code: string; readonly output: Array<string> }> = []
    for (const line of fence.lines) {
      if (line.startsWith("$ ")) commands.push({ code: line.slice(2), output: [] })
      else commands.at(-1)?.output.push(line)
    }
    for (const { code, output } of commands) {
      this.#output = await this.#command(this.#textOf(fence, [code]), fence)
      this.#compareText(output, this.#output)
    }
  }

  #compareText(expected: ReadonlyArray<string>, output: string): void {
    if (!isText(expected, output)) throw new Failed(`The page shows:\n${expected.join("\n")}\n\nThe output:\n${output}`)
  }

  async #module(fence: Fence): Promise<void> {
    const name = markOf(fence, "file")
    const file = name ?? join(this.#setting.modules, `${basename(this.#page, ".md")}-${fence.first}.test.${fence.language}`)
    if (name === undefined) {
      const lines = blocksOf(this.#source).find(({ first }) => first === fence.first)?.lines ?? fence.lines
      writeFileSync(file, `${this.#textOf(fence, lines)}\n`)
    } else {
      await this.#save(fence, name)
    }
    const command = markOf(fence, "run") ?? "node $FILE"
    await this.#run(this.#textOf({ ...fence, marks: [] }, [`FILE='${file}' FOLDER='${dirname(file)}'`, command]), fence)
  }

  /** Saves what the reader sees, in the shell's folder. */
  async #save(fence: Fence, name: string): Promise<void> {
    const file = join(this.#folder, "blocks", "saved")
    writeFileSync(file, `${this.#textOf(fence)}\n`)
    const { code, output } = await this.#shell.run(`mkdir -p "$(dirname '${name}')" && cp '${file}' '${name}'`)
    if (code !== 0) throw new Failed(`${name} cannot be saved: ${output}`)
  }

  async #compare(fence: Fence): Promise<void> {
    const isInterrupt = markOf(fence, "interrupt") !== undefined
    const background = isInterrupt || markOf(fence, "prints") !== undefined ? this.#started : this.#background
    if (background !== undefined) {
      const before = background.output().length
      if (isInterrupt) background.interrupt()
      const printed = (output: string) => this.#shown(isInterrupt ? output.slice(before) : output)
      if (!await background.until((output) => containsText(fence.lines, printed(output)), 60_000)) {
        throw new Failed(
          `The page shows:\n${fence.lines.join("\n")}\n\nThe program has printed:\n${printed(background.output())}`
        )
      }
      return
    }
    if (fence.language !== "json") {
      this.#compareText(fence.lines, this.#output)
      return
    }
    let value: unknown
    try {
      // A command may first print something on stderr, such as its job's id.
      value = JSON.parse(this.#output.replace(/^(?![{[]).*\n/gm, (line) => /^[\s}\]]/.test(line) ? line : ""))
    } catch {
      throw new Failed(`The page shows JSON. The output:\n${this.#output}`)
    }
    const difference = jsonDifference(JSON.parse(fence.lines.join("\n")), value, varyingOf(markOf(fence, "varies") ?? ""))
    if (difference !== undefined) throw new Failed(`${difference}. The output:\n${this.#output}`)
  }

  async step({ fence, kind }: Step): Promise<void> {
    switch (kind) {
      case "shell":
        return this.#run(this.#textOf(fence), fence)
      case "console":
        return this.#transcript(fence)
      case "module":
        return this.#module(fence)
      case "save":
        return this.#save(fence, markOf(fence, "file") ?? "")
      case "output":
        return this.#compare(fence)
      case "skip":
        return
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#shell[Symbol.asyncDispose]()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Runs a page up to its first failure. */
export const runPage = async (page: string, source: string, setting: Setting): Promise<Outcome> => {
  const plan = planOf(source, setting.name)
  const skipped = plan.steps.flatMap((step) =>
    step.kind === "skip" && !step.fence.isHidden ? [`${page}:${step.fence.first} ${step.reason}`] : []
  )
  const counts = { run: 0, compared: 0 }
  const outcome = (problems: ReadonlyArray<string>): Outcome => ({ page, ...counts, skipped, problems })
  if (plan.problems.length > 0) return outcome(plan.problems.map((problem) => `${page}, ${problem}`))
  if (plan.steps.every(({ kind }) => kind === "skip")) return outcome([])

  await using run = new PageRun(page, source, plan, setting, setting.ports ?? await portsOf(source))
  for (const step of plan.steps) {
    try {
      await run.step(step)
    } catch (error) {
      if (!(error instanceof Failed)) throw error
      return outcome([`${page}:${step.fence.first} ${error.message}`])
    }
    if (step.fence.isHidden || step.kind === "skip") continue
    if (step.kind === "output") counts.compared += 1
    else {
      counts.run += 1
      if (step.kind === "console") counts.compared += 1
    }
  }
  return outcome([])
}
