/**
 * Process lookups for the pool: whether a process is still the one that it started, and which processes belong to a group.
 *
 * A pid alone is ambiguous, because the kernel reuses it. Pid, start time and boot id together are unique. Both are read from `/proc`. Without
 * `/proc` only the platform's own children can be identified.
 */
import { readdirSync, readFileSync } from "node:fs"

/** A process, distinguished from later processes with the same pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time in clock ticks since the boot, and the boot id. */
  readonly start: string
}

const read = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    // Exited, or not readable: unknown either way.
    return undefined
  }
}

const boot = (): string => (read("/proc/sys/kernel/random/boot_id") ?? "").trim()

/** Fields of `/proc/<pid>/stat` after the name, which is in parentheses and may contain any character. See proc(5). */
const stat = (pid: number): { readonly state: string; readonly group: number; readonly startTicks: string } | undefined => {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  const [state = "", , group = "", ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const startTicks = rest[16]
  return startTicks === undefined ? undefined : { state, group: Number(group), startTicks }
}

/** A zombie: an exited process stays in the table until its parent reads its status, which may never happen for an orphan. */
const isOver = (state: string): boolean => state === "Z" || state === "X"

/** The current process with this pid; undefined when there is none, or when unknown. */
export const identityOf = (pid: number): ProcessIdentity | undefined => {
  const found = stat(pid)
  return found === undefined || isOver(found.state) ? undefined : { pid, start: `${found.startTicks}@${boot()}` }
}

/** Whether this exact process is still running. */
export const isRunning = (identity: ProcessIdentity): boolean => identityOf(identity.pid)?.start === identity.start

/** Processes of a process group whose environment contains `NAME=value`: those that an exited group leader left behind. */
export const membersOf = (group: number, variable: string): ReadonlyArray<ProcessIdentity> => {
  let names: ReadonlyArray<string>
  try {
    names = readdirSync("/proc")
  } catch {
    return []
  }
  return names.flatMap((name) => {
    const pid = Number(name)
    if (!Number.isInteger(pid) || stat(pid)?.group !== group) return []
    const identity = identityOf(pid)
    const environment = read(`/proc/${pid}/environ`) ?? ""
    return identity !== undefined && environment.split("\0").includes(variable) ? [identity] : []
  })
}

/** Sends a signal. Does nothing when there is no such process. A negative pid addresses its process group. */
export const signal = (pid: number, name: "SIGTERM" | "SIGKILL"): void => {
  try {
    process.kill(pid, name)
  } catch {
    // ESRCH: already exited. EPERM: not our process.
  }
}
