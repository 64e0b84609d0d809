/**
 * Is there enough memory (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks)?
 *
 * What counts is the memory that is available now, not what the machine has: the smaller of what the machine has left and of what the
 * container's limit leaves (see `Cgroup`). A worker that finds its machine full of other work is as unfit as one on a small machine.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { freemem, totalmem } from "node:os"
import { memoryBound } from "./Cgroup.ts"
import type { MemoryBound } from "./Cgroup.ts"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"
import { SystemFiles } from "./SystemFiles.ts"

/** What the check asks for. */
export interface Options {
  /** Gigabytes of 1,073,741,824 bytes each, as in docs/spec/fitness-checks.md#automatic-checks. */
  readonly minimumGb: number
  /** What to change for another minimum, for the message: the name of a variable. Default: none. */
  readonly setting?: string
}

/** The memory of a process. Bytes. */
export interface Memory {
  /** What it can still get. */
  readonly available: number
  /** What the machine has. */
  readonly total: number
  /** The limit of its container, where that is what `available` comes from. */
  readonly container: MemoryBound | undefined
}

const GB = 2 ** 30

/** Rounded down, so that what is too little does not look like enough. */
const inGb = (bytes: number) => (Math.floor(bytes / GB * 100) / 100).toFixed(2)

/** The machine's own word. `MemAvailable` counts file cache as available; elsewhere than on Linux there is only what is free. */
const machine = (files: SystemFiles): { readonly available: number; readonly total: number } => {
  const text = files("/proc/meminfo") ?? ""
  const bytes = (key: string) => {
    const found = new RegExp(`^${key}:\\s*(\\d+) kB$`, "m").exec(text)?.[1]
    return found === undefined ? undefined : Number(found) * 1024
  }
  return { available: bytes("MemAvailable") ?? freemem(), total: bytes("MemTotal") ?? totalmem() }
}

/** The memory of this process, as these files have it. */
export const memoryOf = (files: SystemFiles): Memory => {
  const { available, total } = machine(files)
  const bound = memoryBound(files)
  return bound === undefined || bound.available >= available
    ? { available, total, container: undefined }
    : { available: bound.available, total, container: bound }
}

/** Fails where less is available. */
export const check = Effect.fnUntraced(function*({ minimumGb, setting }: Options) {
  const { available, container, total } = memoryOf(yield* SystemFiles)
  if (available >= minimumGb * GB) return
  const because = container === undefined
    ? `the machine has ${inGb(total)} GB in all`
    : `the container may use ${inGb(container.limit)} GB, of which ${inGb(container.used)} GB are in use`
  return yield* new FitnessCheckFailed({
    check: "memory",
    message: `${inGb(available)} GB of memory are available and ${minimumGb} GB are required${settingSuffix(setting)}; ${because}`
  })
})

/** Adds the check `memory`. */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf("memory", check(options))
