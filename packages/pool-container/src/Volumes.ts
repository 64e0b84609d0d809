/**
 * The volumes of a container.
 *
 * The pool mounts a folder of the host only if the operator allowed it. Otherwise every caller who may create endpoints could mount the
 * platform's own data, or the whole disk. A name refers to a folder that the operator named, or else to a volume of the engine, which
 * needs no permission.
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import { folderOf, type NamedVolumes, volumeMissing } from "@stint/pool/NamedVolumes"
import type { WorkerModel } from "@stint/pool/WorkerModel"
import * as Effect from "effect/Effect"
import { realpath } from "node:fs/promises"
import { isAbsolute, relative, sep } from "node:path"

/** The source of an endpoint whose workers are containers. */
export type ContainerSource = Extract<EndpointSource, { readonly type: "container" }>

/** A mount in the form of the engine's API. */
export interface Mount {
  readonly Type: "bind" | "volume"
  readonly Source: string
  readonly Target: string
  readonly ReadOnly: boolean
}

/** Where a volume without a target is mounted: the platform's name, and RunPod's (docs/spec/environment.md). */
const TARGETS = ["/platform-volume", "/runpod-volume"]

/** Where the cache of models is mounted, unless a volume is mounted there (docs/operations/models.md#what-the-worker-sees). */
const MODEL_HOMES = TARGETS.map((target) => `${target}/huggingface-cache`)

/** Where the cache is mounted if the container has volumes at these places. */
const MODEL_HOME_BESIDE_VOLUMES = "/platform-models/huggingface-cache"

const isInside = (folder: string, path: string): boolean => {
  const rest = relative(folder, path)
  return rest === "" || (rest !== ".." && !rest.startsWith(`..${sep}`) && !isAbsolute(rest))
}

/**
 * The mounts of the cache of models, for an endpoint with a model. They are read-only, because all containers share the files. A cache
 * inside a volume would hide the volume's own folder of this name, or create one; inside a read-only volume, the engine cannot mount it.
 */
export const modelMountsOf = (model: WorkerModel | undefined, volumes: ReadonlyArray<Mount>): ReadonlyArray<Mount> => {
  if (model === undefined) return []
  const free = MODEL_HOMES.filter((home) => !volumes.some(({ Target }) => isInside(Target, home) || isInside(home, Target)))
  return (free.length === 0 ? [MODEL_HOME_BESIDE_VOLUMES] : free).map((Target) => ({
    Type: "bind",
    Source: model.home,
    Target,
    ReadOnly: true
  }))
}

const realpathOf = (path: string) => Effect.option(Effect.tryPromise(() => realpath(path)))

/** The mounts of a source. `allowed`: the folders of the host that endpoints may mount, with everything in them. */
export const mountsOf = Effect.fnUntraced(function*(
  source: ContainerSource,
  { allowed, named }: { readonly allowed: ReadonlyArray<string>; readonly named: NamedVolumes }
) {
  const mounts: Array<Mount> = []
  const folders = (yield* Effect.forEach(allowed, realpathOf)).flatMap((folder) => folder._tag === "Some" ? [folder.value] : [])
  for (const { readOnly = false, source: from, target } of source.volumes ?? []) {
    const isPath = isAbsolute(from)
    const isFolder = isPath || Object.hasOwn(named, from)
    let path = from
    if (isFolder && !isPath) path = yield* folderOf(from, named)
    if (isPath) {
      // Checks and mounts the real path, so that a link cannot lead out of an allowed folder.
      const real = yield* realpathOf(from)
      if (real._tag === "None") {
        return yield* volumeMissing(from, "there is no such folder", "Create it, or correct the endpoint's volumes.")
      }
      path = real.value
      if (!folders.some((folder) => isInside(folder, path))) {
        return yield* volumeMissing(
          from,
          allowed.length === 0
            ? "the platform mounts no folder of this machine"
            : `it is not in a folder that the platform may mount (${allowed.join(", ")})`,
          "Add it to STINT_ENGINE_VOLUMES and restart the platform, or use a named volume of the engine."
        )
      }
    }
    for (const Target of target === undefined ? TARGETS : [target]) {
      mounts.push({ Type: isFolder ? "bind" : "volume", Source: path, Target, ReadOnly: readOnly })
    }
  }
  return mounts
})
