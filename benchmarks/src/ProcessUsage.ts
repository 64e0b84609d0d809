/**
 * CPU time, memory and written bytes of processes, from Linux's /proc.
 */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { readFile } from "node:fs/promises"
import type { Cost } from "./Rounds.ts"

const setting = (name: string): number => Number(execFileSync("getconf", [name], { encoding: "utf8" }))

const TICKS_A_SECOND = setting("CLK_TCK")
const PAGE = setting("PAGESIZE")

export interface ProcessUsage {
  /** CPU time of all threads since the process's start, and of its children that have ended. */
  readonly seconds: number
  /** Resident memory, in MiB. */
  readonly memory: number
}

const parseUsage = (text: string): ProcessUsage => {
  // Field 2, the process name, may contain any character. The fields from 3 on are separated by spaces.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const field = (place: number) => Number(fields[place - 3])
  return { seconds: (field(14) + field(15) + field(16) + field(17)) / TICKS_A_SECOND, memory: field(24) * PAGE / 2 ** 20 }
}

export const usageOf = async (pid: number): Promise<ProcessUsage> => parseUsage(await readFile(`/proc/${pid}/stat`, "utf8"))

/** A file of a process in /proc; empty if the process has ended or the system does not have the file. */
const textOf = (pid: number, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8")
  } catch {
    return ""
  }
}

/** The bytes that a process has caused to be written to storage. 0 if the system does not say. */
const writtenBy = (pid: number): number => Number(/^write_bytes: (\d+)$/m.exec(textOf(pid, "io"))?.[1] ?? 0)

/** The memory of a process in MiB, in which memory that several processes share counts once. */
const memoryOf = (pid: number, resident: number): number => {
  const shared = /^Pss: +(\d+) kB$/m.exec(textOf(pid, "smaps_rollup"))?.[1]
  return shared === undefined ? resident : Number(shared) / 1024
}

/** A process and all its descendants. */
export const processTreeOf = (pid: number): ReadonlyArray<number> => {
  const children = textOf(pid, `task/${pid}/children`).split(" ").filter((one) => one !== "").map(Number)
  return [pid, ...children.flatMap(processTreeOf)]
}

/**
 * Starts to measure what processes and their descendants cost. The returned function says what a job cost since then, of `jobs` jobs. Neither waits, so
 * that both can be called at the moment at which a count is reached. What an ended process did counts for its parent.
 */
export const startCost = (pids: ReadonlyArray<number>): (jobs: number) => Cost => {
  const read = () => {
    const all = pids.flatMap(processTreeOf)
    // A process may end in between.
    const usages = all.flatMap((pid) => {
      const text = textOf(pid, "stat")
      return text === "" ? [] : [{ pid, ...parseUsage(text) }]
    })
    return {
      seconds: usages.reduce((sum, { seconds }) => sum + seconds, 0),
      memory: usages.reduce((sum, { memory, pid }) => sum + memoryOf(pid, memory), 0),
      written: all.reduce((sum, pid) => sum + writtenBy(pid), 0)
    }
  }
  const before = read()
  return (jobs) => {
    const after = read()
    return {
      cpuMicros: (after.seconds - before.seconds) * 1e6 / jobs,
      written: (after.written - before.written) / jobs,
      memory: after.memory
    }
  }
}
