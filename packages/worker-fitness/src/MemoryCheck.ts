/**
 * Checks the available memory (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks).
 *
 * It checks the memory that is available now, not the size of the machine: the available memory of the machine or of the container (see
 * `Cgroup`), whichever is smaller. A machine whose memory is in use by other processes is as unfit as a small machine.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { freemem, totalmem } from "node:os"
import { memoryBound } from "./Cgroup.ts"
import type { MemoryBound } from "./Cgroup.ts"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"
import { SystemFiles } from "./SystemFiles.ts"

/** Options for the check. */
export interface Options {
  /** Gigabytes of 1,073,741,824 bytes each, as in docs/spec/fitness-checks.md#automatic-checks. */
  readonly minimumGb: number
  /** The variable that sets the minimum, for the message. Default: none. */
  readonly setting?: string
}

/** This process's memory. Bytes. */
export interface Memory {
  /** The memory that it can still allocate. */
  readonly available: number
  /** The machine's memory. */
  readonly total: number
  /** The container's limit, if it determines `available`. */
  readonly container: MemoryBound | undefined
}

const GB = 2 ** 30

/** Rounds down, so that the message never shows a sufficient number for insufficient memory. */
const inGb = (bytes: number) => (Math.floor(bytes / GB * 100) / 100).toFixed(2)

/** The machine's memory. On Linux, `MemAvailable` counts file cache as available; other systems report only free memory. */
const machine = (files: SystemFiles): { readonly available: number; readonly total: number } => {
  const text = files("/proc/meminfo") ?? ""
  const bytes = (key: string) => {
    const found = new RegExp(`^${key}:\\s*(\\d+) kB$`, "m").exec(text)?.[1]
    return found === undefined ? undefined : Number(found) * 1024
  }
  return { available: bytes("MemAvailable") ?? freemem(), total: bytes("MemTotal") ?? totalmem() }
}

/** Reads the memory of this process from the system files. */
export const memoryOf = (files: SystemFiles): Memory => {
  const { available, total } = machine(files)
  const bound = memoryBound(files)
  return bound === undefined || bound.available >= available
    ? { available, total, container: undefined }
    : { available: bound.available, total, container: bound }
}

/** Fails when less memory is available. */
export const check = Effect.fnUntraced(function*({ minimumGb, setting }: Options) {
  const { available, container, total } = memoryOf(yield* SystemFiles)
  if (available >= minimumGb * GB) return
  const explanation = container === undefined
    ? `the machine has ${inGb(total)} GB in all`
    : `the container's limit is ${inGb(container.limit)} GB, of which ${inGb(container.used)} GB is in use`
  return yield* new FitnessCheckFailed({
    check: "memory",
    message: `${inGb(available)} GB of memory is available, but ${minimumGb} GB is required${
      settingSuffix(setting)
    }; ${explanation}`
  })
})

/**
 * Adds the check `memory`.
 *
 * @public
 */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf("memory", check(options))
