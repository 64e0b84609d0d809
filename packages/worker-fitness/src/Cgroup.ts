/**
 * Reads the memory limit of this process from its control groups, as set by `docker run --memory`, a pod's limit or systemd. It is pure:
 * the files come from {@link file://./SystemFiles.ts}.
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
 * The limits of parent groups apply too, so all groups on the path are read and the tightest limit counts. In a container the path often names a
 * folder on the host, which does not exist in the container; the container's own group is then at the root.
 *
 * Inactive file cache counts as free, because the kernel reclaims it before it kills a process. Node's `process.availableMemory()` counts
 * it as used, and would report no free memory in a container that has just read a model.
 */
import type { SystemFiles } from "./SystemFiles.ts"

/** A limit and the memory in use under it. Bytes. */
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

/** Version 1 represents "no limit" as the largest multiple of the page size. No machine has an exabyte of memory. */
const NO_LIMIT = 2 ** 60

/** Parses the groups of this process from `/proc/self/cgroup`: `hierarchy:controllers:path`. */
const groups = (text: string): ReadonlyArray<readonly [Version, string]> =>
  text.split("\n").flatMap((line) => {
    const [, hierarchy, controllers = "", path = ""] = /^(\d+):([^:]*):(.*)$/.exec(line) ?? []
    if (hierarchy === "0" && controllers === "") return [[V2, path] as const]
    return controllers.split(",").includes("memory") ? [[V1, path] as const] : []
  })

/** The folders of a group and its parents. For a path outside the visible hierarchy, only the root. */
const folders = ({ root }: Version, path: string): ReadonlyArray<string> => {
  const names = path.split("/").filter((name) => name !== "")
  if (names.includes("..")) return [root]
  return [root, ...names.map((_, index) => [root, ...names.slice(0, index + 1)].join("/"))]
}

const parseBytes = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d+\s*$/.test(text) ? Number(text) : undefined

const boundOf = (files: SystemFiles, version: Version, folder: string): MemoryBound | undefined => {
  const limit = parseBytes(files(`${folder}/${version.limit}`))
  if (limit === undefined || limit >= NO_LIMIT) return undefined
  const usage = parseBytes(files(`${folder}/${version.usage}`)) ?? 0
  const cache = parseBytes(new RegExp(`^${version.cache} (\\d+)$`, "m").exec(files(`${folder}/memory.stat`) ?? "")?.[1]) ?? 0
  const used = Math.max(0, usage - cache)
  return { limit, used, available: Math.max(0, limit - used) }
}

/** The tightest limit of this process, or undefined if there is none. */
export const memoryBound = (files: SystemFiles): MemoryBound | undefined =>
  groups(files("/proc/self/cgroup") ?? "")
    .flatMap(([version, path]) => folders(version, path).map((folder) => boundOf(files, version, folder)))
    .reduce(
      (least, bound) => bound === undefined || (least !== undefined && least.available <= bound.available) ? least : bound,
      undefined
    )
