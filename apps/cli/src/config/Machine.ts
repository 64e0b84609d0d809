/**
 * What this machine has.
 */
import { type AgentCapacity, AgentName, MAX_AGENT_WORKERS } from "@stint/contract/Agent"
import type { MachineCapacity } from "@stint/pool/MachineReservations"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { readdirSync } from "node:fs"
import { availableParallelism, hostname, totalmem } from "node:os"
import process from "node:process"

const decodeName = Schema.decodeUnknownOption(AgentName)

/** This machine's host name, as a valid agent name. */
export const defaultName = (): string =>
  Option.getOrElse(
    decodeName(hostname().replaceAll(/[^A-Za-z0-9._-]/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 63)),
    () => "agent"
  )

/** The NVIDIA GPUs, as their driver lists them. */
const driverGpus = (): ReadonlyArray<string> => {
  try {
    return readdirSync("/proc/driver/nvidia/gpus").slice(0, 64).map((_, index) => String(index))
  } catch {
    return []
  }
}

/** The GPUs that `CUDA_VISIBLE_DEVICES` names. CUDA ignores everything after the first invalid name, such as `-1`. */
const visibleGpus = (text: string): ReadonlyArray<string> => {
  const ids = text.split(",").map((id) => id.trim())
  const end = ids.findIndex((id) => !/^(?:\d+|(?:GPU|MIG)-[\w/-]+)$/.test(id))
  return (end === -1 ? ids : ids.slice(0, end)).slice(0, 64)
}

/**
 * The GPUs for workers, as in `CUDA_VISIBLE_DEVICES`: those that this variable names, or else those of NVIDIA's driver. `count`: how many of them; the
 * GPUs of other drivers are unknown, so they must be counted here.
 */
export const gpuIds = (count: number | undefined, visible = process.env["CUDA_VISIBLE_DEVICES"]): ReadonlyArray<string> => {
  const found = visible === undefined ? driverGpus() : visibleGpus(visible)
  return count === undefined ? found : Array.from({ length: count }, (_, index) => found[index] ?? String(index))
}

/** The memory that this process and its children may occupy. Bytes. */
const memoryBytes = (): number => {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** What this machine has for workers. A given value overrides what was found; `memoryBytes` in bytes. */
export const capacity = (given: {
  readonly cpus?: number | undefined
  readonly memoryBytes?: number | undefined
  readonly gpus?: number | undefined
}): MachineCapacity => ({
  cpus: given.cpus ?? availableParallelism(),
  memoryBytes: given.memoryBytes ?? memoryBytes(),
  gpuIds: gpuIds(given.gpus)
})

/** What an agent reports. Default: two workers for each CPU, because most wait for something. */
export const agentCapacity = ({ cpus, gpuIds, memoryBytes }: MachineCapacity, workers: number | undefined): AgentCapacity => ({
  cpus,
  memoryBytes,
  gpus: gpuIds.length,
  workers: workers ?? Math.min(MAX_AGENT_WORKERS, 2 * cpus)
})
