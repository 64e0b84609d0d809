/**
 * Counts the usage of an endpoint's workers, from their start until their exit.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import type { WorkerHandle } from "@stint/pool/WorkerPool"
import { UsageMeter } from "@stint/queue/UsageMeter"
import * as Effect from "effect/Effect"
import { readdirSync } from "node:fs"

/**
 * The number of GPUs of this machine, for workers that receive all of them: counts NVIDIA's device files. At least 1, because such a worker
 * runs only on a machine with a GPU.
 */
const hostGpus = (): number => {
  try {
    return Math.max(1, readdirSync("/dev").filter((name) => /^nvidia\d+$/.test(name)).length)
  } catch {
    return 1
  }
}

/** Returns a function that counts a worker until the scope closes. `isReady`: it was already ready under an earlier platform. */
export const make = (id: EndpointId) =>
  Effect.map(
    UsageMeter,
    (meter) => ({ id: worker, resources = Effect.undefined }: WorkerHandle, { source }: Endpoint, isReady = false) => {
      const gpus = source.type === "external" ? 0 : source.gpus ?? 0
      return meter.watch({ endpoint: id, worker, gpus: gpus === "all" ? hostGpus() : gpus, resources, isReady })
    }
  )
