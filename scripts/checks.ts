/**
 * The checks of the repository. `pnpm check` runs them; `pnpm test` runs them before the tests.
 *
 * A check is a command that prints nothing and exits 0 when it finds no problem. To add one, add an entry to `checks`.
 */
import { spawn } from "node:child_process"
import { availableParallelism } from "node:os"
import { delimiter, join } from "node:path"
import { stripVTControlCharacters } from "node:util"
import { root } from "./workspace.ts"

/** A command that prints nothing and exits 0 when it finds no problem. */
export interface Check {
  readonly name: string
  readonly command: ReadonlyArray<string>
  /** The check that must succeed before this one starts. */
  readonly after?: string
  /** Printed after a failure, for commands whose output does not say what to do. */
  readonly hint?: string
}

/** Every check, in the order in which they start. */
export const checks: ReadonlyArray<Check> = [
  { name: "build", command: ["turbo", "run", "build", "--output-logs=errors-only"] },
  { name: "types", command: ["tsc", "--noEmit", "-p", "tsconfig.json"] },
  // For browsers, with the DOM types, which no other package may use.
  { name: "console", command: ["tsc", "--noEmit", "-p", "apps/console/tsconfig.json"] },
  // The compiler does not report an Effect that is never run, or an Effect whose requirements include `any`.
  {
    name: "effects",
    command: [
      "effect-tsgo",
      "diagnostics",
      "--strict",
      "--severity",
      "error,warning",
      "--format",
      "text",
      "--project",
      "tsconfig.json"
    ]
  },
  {
    name: "docs",
    command: ["node", "scripts/check-docs.ts"],
    hint: "scripts/doc-blocks.ts explains how a page declares names that its blocks use without showing the imports."
  },
  { name: "lint", command: ["oxlint"], hint: "`pnpm format` applies the automatic fixes." },
  { name: "format", command: ["dprint", "check", "--list-different"], hint: "`pnpm format` formats everything." },
  { name: "manifests", command: ["node", "scripts/check-manifests.ts"] },
  {
    name: "unused",
    command: ["knip", "--config", "scripts/knip.config.ts", "--no-progress", "--no-config-hints"],
    hint: "Remove the unused code, or its `export`. If only users of the package need a name, put `@public` into its doc comment."
  },
  { name: "packed", command: ["node", "scripts/check-packed.ts"], after: "build" }
]

interface Outcome {
  readonly ok: boolean
  readonly output: string
  readonly seconds: number
}

const environment = {
  ...process.env,
  PATH: [join(root, "node_modules/.bin"), process.env["PATH"]].join(delimiter),
  FORCE_COLOR: undefined,
  NO_COLOR: "1",
  TURBO_TELEMETRY_DISABLED: "1",
  TURBO_NO_UPDATE_NOTIFIER: "1"
}

/** Runs a command in the root with the workspace's own programs first in PATH. Returns its output without colours. */
export const execute = ([program = "", ...args]: ReadonlyArray<string>): Promise<Outcome> => {
  const start = performance.now()
  return new Promise((resolve) => {
    const output: Array<string> = []
    const end = (ok: boolean) =>
      resolve({ ok, output: stripVTControlCharacters(output.join("")), seconds: (performance.now() - start) / 1000 })
    const child = spawn(program, args, { cwd: root, env: environment, stdio: ["ignore", "pipe", "pipe"] })
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => output.push(text))
    }
    child.on("error", (error) => {
      output.push(`${program} cannot be started: ${error.message}. Run \`pnpm install\`.\n`)
      end(false)
    })
    child.on("close", (code) => end(code === 0))
  })
}

/** Formats one line of the report: `types      ok   1.2 s`. */
export const line = (name: string, verdict: string, seconds: number): string =>
  `${name.padEnd(10)} ${verdict.padEnd(7)} ${seconds.toFixed(1).padStart(5)} s`

/**
 * Runs every check, at most one per core at a time, and prints a line for each. For a failed check, also prints its output. A failure
 * prevents only the checks that must run `after` it.
 *
 * @returns the number of failed checks
 */
export const runChecks = async (): Promise<number> => {
  const waiting = [...checks]
  const ended = new Map<string, boolean>()
  const ready = () => waiting.findIndex((one) => one.after === undefined || ended.has(one.after))

  const run = async (check: Check): Promise<void> => {
    if (check.after !== undefined && ended.get(check.after) !== true) {
      ended.set(check.name, false)
      console.log(line(check.name, "not run", 0))
      return
    }
    const outcome = await execute(check.command)
    ended.set(check.name, outcome.ok)
    console.log(line(check.name, outcome.ok ? "ok" : "FAILED", outcome.seconds))
    if (!outcome.ok) console.log([outcome.output.trimEnd(), check.hint ?? ""].filter((text) => text !== "").join("\n"))
  }

  const running = new Set<Promise<void>>()
  while (waiting.length > 0 || running.size > 0) {
    const next = running.size < availableParallelism() ? ready() : -1
    const [check] = next === -1 ? [] : waiting.splice(next, 1)
    if (check === undefined) {
      await Promise.race(running)
    } else {
      const task: Promise<void> = run(check).finally(() => running.delete(task))
      running.add(task)
    }
  }
  return [...ended.values()].filter((ok) => !ok).length
}
