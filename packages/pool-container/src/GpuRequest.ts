/**
 * Turns the GPUs of a worker into the engine's device request. Pure.
 *
 * | engine | request | what the machine needs |
 * |---|---|---|
 * | Docker | driver `nvidia`, the devices by number | NVIDIA's container runtime |
 * | Podman 5.4 and later | driver `cdi`, the devices as `nvidia.com/gpu=N` | a CDI specification, which `nvidia-ctk cdi generate` writes |
 * | Podman before 5.4 | none | refused |
 *
 * Podman ignores requests to other drivers than `cdi`, and before version 5.4 all of them: the container would start without a GPU. So an old Podman
 * is refused instead.
 */
import type { EngineVersion } from "./Engine.ts"

/** A device request of the engine's API. */
export interface DeviceRequest {
  readonly Driver: "cdi" | "nvidia"
  /** -1: all. */
  readonly Count?: number
  readonly DeviceIDs?: ReadonlyArray<string>
  readonly Capabilities: ReadonlyArray<ReadonlyArray<string>>
}

/** Why an engine cannot give GPUs to containers. */
export interface GpusRefused {
  /** Without a full stop. */
  readonly problem: string
  readonly hint: string
}

/** The first version of Podman whose Docker-compatible API gives devices to containers. */
const FIRST_PODMAN = [5, 4] as const

/** The device names of the CDI specification that NVIDIA's tool writes. */
const CDI_KIND = "nvidia.com/gpu"

const isAtLeast = (version: string, [major, minor]: readonly [number, number]): boolean => {
  const [, foundMajor, foundMinor] = /^(\d+)\.(\d+)/.exec(version) ?? []
  // An unknown form of version is new.
  if (foundMajor === undefined || foundMinor === undefined) return true
  return Number(foundMajor) > major || Number(foundMajor) === major && Number(foundMinor) >= minor
}

/** The names of the devices for an engine that knows only names: `all`, or the first ones if the pool assigned none. */
const cdiNames = (gpus: number | "all", gpuIds: ReadonlyArray<string> | undefined): ReadonlyArray<string> =>
  (gpuIds ?? (gpus === "all" ? ["all"] : Array.from({ length: gpus }, (_, index) => String(index)))).map((id) =>
    `${CDI_KIND}=${id}`
  )

/**
 * The request for a number of GPUs. `gpuIds`: those that the pool of the machine assigned; an engine that is asked for a number always returns the first
 * ones, also when another worker uses them.
 */
export const gpuRequestOf = (
  { isPodman, version }: EngineVersion,
  gpus: number | "all",
  gpuIds: ReadonlyArray<string> | undefined
): DeviceRequest | GpusRefused => {
  const Capabilities = [["gpu"]]
  if (!isPodman) {
    const devices = gpuIds === undefined ? { Count: gpus === "all" ? -1 : gpus } : { DeviceIDs: gpuIds }
    return { Driver: "nvidia", ...devices, Capabilities }
  }
  if (!isAtLeast(version, FIRST_PODMAN)) {
    return {
      problem: `Podman ${version} gives no GPUs to containers through its Docker-compatible API`,
      hint: `Install Podman ${
        FIRST_PODMAN.join(".")
      } or later, or Docker with NVIDIA's container runtime, or run the worker as a command.`
    }
  }
  return { Driver: "cdi", DeviceIDs: cdiNames(gpus, gpuIds), Capabilities }
}

/** What to do when the engine refused the devices. Undefined when its message is about something else. */
export const gpuHintOf = (problem: string): string | undefined => {
  if (/CDI device|nvidia\.com\/gpu/i.test(problem)) {
    return "Describe the GPUs to the engine: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml. Repeat it after an update of the driver."
  }
  return /device driver.*gpu/i.test(problem)
    ? "Install the NVIDIA Container Toolkit, then nvidia-ctk runtime configure --runtime=docker, and restart Docker."
    : undefined
}
