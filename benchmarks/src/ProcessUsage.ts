/**
 * CPU time and memory of processes, from Linux's /proc.
 */
import { execFileSync } from "node:child_process"
import { readFile } from "node:fs/promises"

const setting = (name: string): number => Number(execFileSync("getconf", [name], { encoding: "utf8" }))

const TICKS_A_SECOND = setting("CLK_TCK")
const PAGE = setting("PAGESIZE")

export interface ProcessUsage {
  /** CPU time of all threads since the process's start, and of its children that have ended. */
  readonly seconds: number
  /** Resident memory, in MiB. */
  readonly memory: number
}

export const usageOf = async (pid: number): Promise<ProcessUsage> => {
  const text = await readFile(`/proc/${pid}/stat`, "utf8")
  // Field 2, the process name, may contain any character. The fields from 3 on are separated by spaces.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
  const field = (place: number) => Number(fields[place - 3])
  return { seconds: (field(14) + field(15) + field(16) + field(17)) / TICKS_A_SECOND, memory: field(24) * PAGE / 2 ** 20 }
}

/** A process and all its descendants. */
export const processTreeOf = async (pid: number): Promise<ReadonlyArray<number>> => {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "")
  const children = text.split(" ").filter((one) => one !== "").map(Number)
  return [pid, ...(await Promise.all(children.map(processTreeOf))).flat()]
}
