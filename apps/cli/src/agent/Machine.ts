/**
 * What this machine has.
 */
import { AgentName, MAX_AGENT_WORKERS } from "@stint/contract/Agent"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { readdirSync } from "node:fs"
import { availableParallelism, hostname, totalmem } from "node:os"

const decodeName = Schema.decodeUnknownOption(AgentName)

/** This machine's host name, as a valid agent name. */
export const defaultName = (): string =>
  Option.getOrElse(
    decodeName(hostname().replaceAll(/[^A-Za-z0-9._-]/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 63)),
    () => "agent"
  )

/** The number of NVIDIA GPUs, as the driver lists them. The number of other GPUs must be set with `--gpus`. */
const gpuCount = (): number => {
  try {
    return Math.min(64, readdirSync("/proc/driver/nvidia/gpus").length)
  } catch {
    return 0
  }
}

/** The capacity of this machine. Defaults: two workers for each CPU, because most wait for something; the GPUs of the NVIDIA driver. */
export const capacity = (workers: number | undefined, gpus: number | undefined) => {
  const cpus = availableParallelism()
  return {
    cpus,
    memoryBytes: totalmem(),
    gpus: gpus ?? gpuCount(),
    workers: workers ?? Math.min(MAX_AGENT_WORKERS, 2 * cpus)
  }
}
