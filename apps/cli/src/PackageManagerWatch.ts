/**
 * Notices that the package manager that started this process has exited.
 *
 * ```
 *   npm exec  <-- SIGTERM from a service manager ends only this process
 *     +-- sh -c pnpm start
 *           +-- pnpm start
 *                 +-- sh -c "node ... serve"
 *                       +-- this process: would keep running, and keep its port
 * ```
 *
 * npm and pnpm forward SIGINT, but end on SIGTERM without forwarding it, and nothing can forward SIGKILL. So this process watches them. It
 * needs `/proc`; on other systems, run node directly (docs/operations/service.md).
 */
import * as ProcessTable from "@stint/pool-process/ProcessTable"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { readFileSync } from "node:fs"
import { basename } from "node:path"
import process from "node:process"

const CHECK = "500 millis"

const MANAGER = /^(npm|npx|pnpm|pnpx|yarn)(-cli)?(\.[cm]?js)?$/

/** A process as `/proc` shows it; undefined when it has exited, or without `/proc`. */
const processOf = (pid: number): { readonly parent: number; readonly words: ReadonlyArray<string> } | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
    // npm replaces its command line with a title, which has spaces instead of NUL characters.
    const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split(/[\0 ]/)
    return { parent: Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]), words }
  } catch {
    return undefined
  }
}

const isManager = ([program = "", script = ""]: ReadonlyArray<string>): boolean =>
  MANAGER.test(basename(program)) || (/^(node|sh|dash|bash)/.test(basename(program)) && MANAGER.test(basename(script)))

/** A shell that runs one command, as package managers start it. */
const isCommandShell = ([program = "", option]: ReadonlyArray<string>): boolean =>
  /^(sh|dash|bash)$/.test(basename(program)) && option === "-c"

/** The ancestors of this process up to the outermost package manager. Empty when no package manager started it. */
const findLaunchers = (): ReadonlyArray<ProcessTable.ProcessIdentity> => {
  const found: Array<ProcessTable.ProcessIdentity> = []
  let managers = 0
  for (let pid = process.ppid; pid > 1;) {
    const ancestor = processOf(pid)
    const identity = ProcessTable.identityOf(pid)
    if (ancestor === undefined || identity === undefined) break
    const manager = isManager(ancestor.words)
    if (!manager && !isCommandShell(ancestor.words)) break
    found.push(identity)
    if (manager) managers = found.length
    pid = ancestor.parent
  }
  return found.slice(0, managers)
}

/** Completes when a package manager that started this process has exited. Never completes when none started it. */
export const awaitExit: Effect.Effect<void> = Effect.suspend(() => {
  const launchers = findLaunchers()
  return launchers.length === 0
    ? Effect.never
    : Effect.asVoid(Effect.repeat(Effect.sync(() => launchers.every(ProcessTable.isRunning)), {
      while: (running) => running,
      schedule: Schedule.spaced(CHECK)
    }))
})
