/**
 * Which processes there are, as far as a pool must know: whether the one that it started is still that one, and who belongs to it.
 *
 * A pid alone says little: it is given to somebody else when its process is gone. With the time of its start and the boot that it started
 * in it is unique. Both are read from `/proc`; on systems without it nothing is known of any process but our own children.
 */
import { readdirSync, readFileSync } from "node:fs"

/** A process, told apart from later ones of the same pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Start in clock ticks since the boot, and the id of that boot. */
  readonly start: string
}

const read = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    // Gone, or somebody else's: either way nothing is known of it.
    return undefined
  }
}

const boot = (): string => (read("/proc/sys/kernel/random/boot_id") ?? "").trim()

/** Fields of `/proc/<pid>/stat` after the name, which stands in brackets and may hold anything. See proc(5). */
const stat = (pid: number): { readonly state: string; readonly group: number; readonly startTicks: string } | undefined => {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  const [state = "", , group = "", ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const startTicks = rest[16]
  return startTicks === undefined ? undefined : { state, group: Number(group), startTicks }
}

/** A process that has ended stays in the table until its parent asks how; nobody may ever ask for an orphan. */
const isOver = (state: string): boolean => state === "Z" || state === "X"

/** The process that has this pid now; undefined when there is none, or where that cannot be known. */
export const identityOf = (pid: number): ProcessIdentity | undefined => {
  const found = stat(pid)
  return found === undefined || isOver(found.state) ? undefined : { pid, start: `${found.startTicks}@${boot()}` }
}

/** Whether that very process still runs. */
export const isRunning = (identity: ProcessIdentity): boolean => identityOf(identity.pid)?.start === identity.start

/** Processes of a process group whose environment holds that `NAME=value`: what a dead leader has left behind. */
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

/** Sends a signal; nothing happens when there is nobody to get it. A negative pid means its whole group. */
export const signal = (pid: number, name: "SIGTERM" | "SIGKILL"): void => {
  try {
    process.kill(pid, name)
  } catch {
    // ESRCH: it is gone already, which is what was wanted. EPERM: it is not ours.
  }
}
