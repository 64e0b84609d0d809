/**
 * How much memory the control groups of this process leave it: what `docker run --memory`, a pod's limit or systemd set. Pure, over
 * {@link file://./SystemFiles.ts}.
 *
 * ```
 *                    v2: one hierarchy                    v1: one for memory
 *   which group      /proc/self/cgroup  0::/a/b           /proc/self/cgroup  4:memory:/a/b
 *   files            /sys/fs/cgroup/a/b/                  /sys/fs/cgroup/memory/a/b/
 *   limit            memory.max ("max": none)             memory.limit_in_bytes (2^63 or so: none)
 *   in use           memory.current                       memory.usage_in_bytes
 *   of which cache   memory.stat  inactive_file           memory.stat  total_inactive_file
 * ```
 *
 * A group is bound by those above it, too, so all of them are asked and the tightest counts. In a container the path often names a folder
 * of the host that is not there; the container's own group is then at the root.
 *
 * File cache that nobody uses at the moment counts as free, because the kernel gives it up before it kills anybody. Node's own
 * `process.availableMemory()` counts it as used, and would call a container full that has just read a model.
 */
import type { SystemFiles } from "./SystemFiles.ts"

/** A limit, and what is in use under it. Bytes. */
export interface MemoryBound {
  readonly limit: number
  readonly used: number
  readonly available: number
}

interface Version {
  readonly root: string
  readonly limit: string
  readonly usage: string
  readonly cache: string
}

const V1: Version = {
  root: "/sys/fs/cgroup/memory",
  limit: "memory.limit_in_bytes",
  usage: "memory.usage_in_bytes",
  cache: "total_inactive_file"
}

const V2: Version = { root: "/sys/fs/cgroup", limit: "memory.max", usage: "memory.current", cache: "inactive_file" }

/** Version 1 says "no limit" as the greatest multiple of a page. No machine has an exabyte. */
const NO_LIMIT = 2 ** 60

/** The groups of this process by version, out of `/proc/self/cgroup`: `hierarchy:controllers:path`. */
const groups = (text: string): ReadonlyArray<readonly [Version, string]> =>
  text.split("\n").flatMap((line) => {
    const [, hierarchy, controllers = "", path = ""] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? []
    if (hierarchy === "0" && controllers === "") return [[V2, path] as const]
    return controllers.split(",").includes("memory") ? [[V1, path] as const] : []
  })

/** The folders of a group and of all above it. A path outside of what this process sees leads to the root alone. */
const folders = ({ root }: Version, path: string): ReadonlyArray<string> => {
  const names = path.split("/").filter((name) => name !== "")
  if (names.includes("..")) return [root]
  return [root, ...names.map((_, index) => [root, ...names.slice(0, index + 1)].join("/"))]
}

const whole = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d+\s*$/.test(text) ? Number(text) : undefined

const boundOf = (files: SystemFiles, version: Version, folder: string): MemoryBound | undefined => {
  const limit = whole(files(`${folder}/${version.limit}`))
  if (limit === undefined || limit >= NO_LIMIT) return undefined
  const usage = whole(files(`${folder}/${version.usage}`)) ?? 0
  const cache = whole(new RegExp(`^${version.cache} (\\d+)$`, "m").exec(files(`${folder}/memory.stat`) ?? "")?.[1]) ?? 0
  const used = Math.max(0, usage - cache)
  return { limit, used, available: Math.max(0, limit - used) }
}

/** The tightest limit of this process; undefined where there is none. */
export const memoryBound = (files: SystemFiles): MemoryBound | undefined =>
  groups(files("/proc/self/cgroup") ?? "")
    .flatMap(([version, path]) => folders(version, path).map((folder) => boundOf(files, version, folder)))
    .reduce(
      (least, bound) => bound === undefined || (least !== undefined && least.available <= bound.available) ? least : bound,
      undefined
    )
