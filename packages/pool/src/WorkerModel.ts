/**
 * The model that a worker uses, and how its program finds it.
 */
import type { ModelReference } from "@stint/contract/Model"
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"

/** A model in the cache on the platform's machine. */
export interface WorkerModel {
  readonly model: ModelReference
  /** The folder on the machine that contains `hub`, the hub client's cache. Workers need to read it, and must not write to it. */
  readonly home: string
  /** The folder of the model's files, relative to `home`. */
  readonly snapshot: string
}

/**
 * The variables for a worker that finds the cache at `home`. The hub's client reads them when it is imported, so they must be set before the
 * program starts. With `HF_HUB_OFFLINE`, it uses the files in the cache and sends the hub no requests.
 */
export const modelVariables = ({ model, snapshot }: WorkerModel, home: string): Record<string, string> => ({
  HF_HOME: home,
  HF_HUB_CACHE: `${home}/hub`,
  HF_HUB_OFFLINE: "1",
  ...Object.fromEntries(
    ENV_PREFIXES.flatMap((prefix) => [[`${prefix}MODEL`, model], [`${prefix}MODEL_PATH`, `${home}/${snapshot}`]])
  )
})
