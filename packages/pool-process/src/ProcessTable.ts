/**
 * Looks up processes for the pool: whether a pid still belongs to the process that the pool started, and which processes belong to a group.
 *
 * A pid alone is ambiguous, because the kernel reuses it. Pid, start time and boot id together are unique. The start time and the boot id
 * are read from `/proc`. Without `/proc` only the platform's own children can be identified.
 */
import { readdirSync, readFileSync } from "node:fs"

/** A process, distinguishable from later processes with the same pid. */
export interface ProcessIdentity {
  readonly pid: number
  /** Start time in clock ticks since the boot, and the boot id. */
  readonly start: string
}

const read = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    // The process has exited or cannot be read; in both cases it is unknown.
    return undefined
  }
}

const boot = (): string => (read("/proc/sys/kernel/random/boot_id") ?? "").trim()

/** The fields of `/proc/<pid>/stat` that follow the process name, which is in parentheses and may contain any character. See proc(5). */
const stat = (pid: number): { readonly state: string; readonly group: number; readonly startTicks: string } | undefined => {
  const text = read(`/proc/${pid}/stat`)
  if (text === undefined) return undefined
  const [state = "", , group = "", ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const startTicks = rest[16]
  return startTicks === undefined ? undefined : { state, group: Number(group), startTicks }
}

/**
 * Whether this is the state of an exited process. Such a zombie stays in the table until its parent reads its status, which may never
 * happen for an orphan.
 */
const isOver = (state: string): boolean => state === "Z" || state === "X"

/** The identity of the process that currently has this pid; undefined when there is no such process or when it cannot be determined. */
export const identityOf = (pid: number): ProcessIdentity | undefined => {
  const found = stat(pid)
  return found === undefined || isOver(found.state) ? undefined : { pid, start: `${found.startTicks}@${boot()}` }
}

/** Whether this exact process is still running. */
export const isRunning = (identity: ProcessIdentity): boolean => identityOf(identity.pid)?.start === identity.start

/** The pids of all processes. Empty without `/proc`. */
export const pids = (): ReadonlyArray<number> => {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger)
  } catch {
    return []
  }
}

/** The value of a variable in the environment that a process was started with; undefined when it has none or cannot be read. */
export const variableOf = (pid: number, name: string): string | undefined =>
  read(`/proc/${pid}/environ`)?.split("\0").find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1)

/** The pids of the running processes in a process group. Empty without `/proc`. */
const groupOf = (group: number): ReadonlyArray<number> =>
  pids().filter((pid) => {
    const found = stat(pid)
    return found !== undefined && found.group === group && !isOver(found.state)
  })

/** Whether every process of this process group is waiting, for example for input, and none is about to handle any. */
export const isGroupWaiting = (group: number): boolean => groupOf(group).every((pid) => stat(pid)?.state !== "R")

/** How much each process of this process group has read since its start, as one text. Equal texts: nothing was read in between. */
export const readsOf = (group: number): string =>
  groupOf(group).map((pid) => `${pid} ${/^rchar: (\d+)$/m.exec(read(`/proc/${pid}/io`) ?? "")?.[1]}`).join(", ")

/** Whether a process of this process group is running. */
export const isGroupRunning = (group: number): boolean => groupOf(group).length > 0

/** The processes in a process group with this variable. Finds the processes that an exited group leader left behind. */
export const membersOf = (group: number, name: string, value: string): ReadonlyArray<ProcessIdentity> =>
  groupOf(group).flatMap((pid) => variableOf(pid, name) === value ? identityOf(pid) ?? [] : [])

/** The fields of `/proc/<pid>/stat` are in ticks of a hundredth of a second on every platform that Node supports. */
const TICK_MILLIS = 10

/** The maximum number of processes to read, so that a worker with many of them does not delay the platform. */
const MAX_COUNTED = 200

/** The running children of a process. Empty without `/proc`. */
const childrenOf = (pid: number): ReadonlyArray<number> =>
  (read(`/proc/${pid}/task/${pid}/children`) ?? "").split(" ").filter((child) => child !== "").map(Number)

/** A process and its running descendants, at most {@link MAX_COUNTED} of them. Empty for a process that has exited, and without `/proc`. */
export const descendantsOf = (pid: number): ReadonlyArray<number> => {
  if (stat(pid) === undefined) return []
  const found = [pid]
  // The list grows during the loop.
  for (const one of found) found.push(...childrenOf(one).slice(0, MAX_COUNTED - found.length))
  return found
}

/** The resident memory of a process. Zombies and kernel threads have none. */
const residentBytes = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(read(`/proc/${pid}/status`) ?? "")?.[1] ?? 0) * 1_024

/**
 * The CPU time of a process in milliseconds, including its running children and the ended children that it has waited for, and the resident memory
 * of the process and its running children. Memory that processes share counts once for each. Reads only these processes, and at most
 * {@link MAX_COUNTED} of them. Undefined without `/proc`, and for a process that has exited.
 */
export const resourcesOf = (pid: number): { readonly cpuMillis: number; readonly memoryBytes: number } | undefined => {
  const found = [pid]
  let ticks: number | undefined
  let memoryBytes = 0
  // The list grows during the loop.
  for (const one of found) {
    const text = read(`/proc/${one}/stat`)
    if (text === undefined) continue
    const times = text.slice(text.lastIndexOf(")") + 2).split(" ").slice(11, 15)
    ticks = times.reduce((sum, time) => sum + Number(time), ticks ?? 0)
    memoryBytes += residentBytes(one)
    found.push(...childrenOf(one).slice(0, MAX_COUNTED - found.length))
  }
  return ticks === undefined ? undefined : { cpuMillis: ticks * TICK_MILLIS, memoryBytes }
}

/** Sends a signal. Does nothing when there is no such process. A negative pid addresses its process group. */
export const signal = (pid: number, name: "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT"): void => {
  try {
    process.kill(pid, name)
  } catch {
    // ESRCH: already exited. EPERM: not our process.
  }
}
