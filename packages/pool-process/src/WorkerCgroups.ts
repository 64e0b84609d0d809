/**
 * Limits the CPU time, the memory and the number of processes of workers with Linux control groups.
 *
 * ```
 *   version 2:  <the platform's group>/               its controllers are given to the two folders below
 *                 +-- stint-platform/                 the platform itself: only a group without processes can limit the groups below it
 *                 +-- stint-<hash of the data folder>/<worker>/
 *   version 1:  <the platform's group of the controller>/stint-<hash>/<worker>/       in each of the hierarchies cpu, memory and pids
 * ```
 *
 * A limit applies to one worker with all its processes. A worker without limits has no group, and nothing is changed before the first worker with
 * a limit starts.
 *
 * A group of version 2 must be the platform's own: systemd delegates one with `Delegate=yes`. The platform does not use a group in which
 * programs that it did not start also run, such as the group of a login session. It uses the parent when its own group is called
 * `stint-platform`, because it has moved there itself, or because systemd put it there (`DelegateSubgroup=stint-platform`).
 */
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import { accessSync, constants, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs"
import { basename, dirname, join, relative } from "node:path"
import process from "node:process"
import * as ProcessTable from "./ProcessTable.ts"

/** The limits of one worker. */
export interface WorkerLimits {
  /** CPUs. */
  readonly cpus?: number
  /** Memory without swap. */
  readonly memoryBytes?: number
  /** Processes and threads. */
  readonly pids?: number
}

const CONTROLLERS = ["cpu", "memory", "pids"] as const
type Controller = (typeof CONTROLLERS)[number]

/** The names of the limits in messages. */
const WORDS: Readonly<Record<Controller, string>> = { cpu: "CPU time", memory: "memory", pids: "number of processes" }

/** A group in which the platform can create groups. */
interface Parent {
  readonly version: 1 | 2
  readonly folder: string
  readonly controllers: ReadonlyArray<Controller>
}

/** What the system can limit. */
export interface Support {
  readonly parents: ReadonlyArray<Parent>
  /** The limits that can be enforced, as words such as `memory`. */
  readonly enforced: ReadonlyArray<string>
  /** The other limits. */
  readonly missing: ReadonlyArray<string>
  /** Why not, as a sentence with what to do; empty if all limits can be enforced. */
  readonly reason: string
}

/** The platform's own group in version 2. */
const PLATFORM = "stint-platform"

/** The period of CPU limits in microseconds, the kernel's default. */
const CPU_PERIOD = 100_000

const lines = (file: string): ReadonlyArray<string> => {
  try {
    return readFileSync(file, "utf8").split("\n").filter((line) => line !== "")
  } catch {
    return []
  }
}

const words = (file: string): ReadonlyArray<string> => lines(file).flatMap((line) => line.split(" "))

const isWritable = (folder: string): boolean => {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** The processes of a group, by their pids. */
const processesIn = (folder: string): ReadonlyArray<number> => words(join(folder, "cgroup.procs")).map(Number)

/** The folder of the platform's group. `files`: a folder with the files `cgroup` and `mountinfo` of proc(5). */
const ownFolder = (files: string, controller: Controller | undefined): string | undefined => {
  // hierarchy-ID:controller-list:path, and an empty list for version 2.
  const path = lines(join(files, "cgroup")).map((line) => /^\d+:([^:]*):(.*)$/.exec(line)).find((match) =>
    controller === undefined ? match?.[1] === "" : match?.[1]?.split(",").includes(controller)
  )?.[2]
  if (path === undefined) return undefined
  for (const line of lines(join(files, "mountinfo"))) {
    const [before = "", after = ""] = line.split(" - ")
    const [, , , root = "", point = ""] = before.split(" ")
    const [type, , options = ""] = after.split(" ")
    if (controller === undefined ? type !== "cgroup2" : type !== "cgroup" || !options.split(",").includes(controller)) continue
    const inside = relative(root, path)
    if (!inside.startsWith("..")) return join(point, inside)
  }
  return undefined
}

/** Whether the platform may use a group of version 2, and if not, why not. */
const obstacleOf = (own: string, folder: string): string | undefined => {
  if (!isWritable(folder) || !isWritable(join(folder, "cgroup.procs"))) {
    return `The platform may not create groups in ${folder}. Run it as a service of systemd with Delegate=yes.`
  }
  // Only the root of the hierarchy has no type. It may contain processes and groups.
  if (folder !== own || !existsSync(join(folder, "cgroup.type"))) return undefined
  const family = new Set(ProcessTable.descendantsOf(process.pid))
  const others = processesIn(folder).filter((pid) => !family.has(pid))
  return others.length === 0
    ? undefined
    : `Other programs run in the platform's control group ${folder}, for example process ${
      others[0]
    }. Run the platform as a service of ` +
      "systemd with Delegate=yes."
}

/** Finds out what the system can limit. Changes nothing. `files` is for tests. */
export const support = (files = "/proc/self"): Support => {
  const parents: Array<Parent> = []
  const left = new Set<Controller>(CONTROLLERS)
  let reason: string | undefined
  const own = ownFolder(files, undefined)
  const folder = own !== undefined && basename(own) === PLATFORM ? dirname(own) : own
  const known = folder === undefined ? [] : words(join(folder, "cgroup.controllers"))
  const controllers = CONTROLLERS.filter((one) => known.includes(one))
  if (own !== undefined && folder !== undefined && controllers.length > 0) {
    reason = obstacleOf(own, folder)
    if (reason === undefined) {
      parents.push({ version: 2, folder, controllers })
      for (const one of controllers) left.delete(one)
    }
  }
  for (const controller of [...left]) {
    const folder = ownFolder(files, controller)
    if (folder === undefined) continue
    if (isWritable(folder)) {
      parents.push({ version: 1, folder, controllers: [controller] })
      left.delete(controller)
    } else reason = `The platform may not create groups in ${folder}. Only root may.`
  }
  reason ??= own === undefined
    ? "This system has no control groups."
    : `The platform's control group ${own} does not have all controllers. Run the platform as a service of systemd with Delegate=yes.`
  return {
    parents,
    enforced: CONTROLLERS.filter((one) => !left.has(one)).map((one) => WORDS[one]),
    missing: [...left].map((one) => WORDS[one]),
    reason: left.size === 0 ? "" : reason
  }
}

/** Gives the controllers of a group of version 2 to the groups below it. */
const give = ({ controllers }: Parent, folder: string): void =>
  writeFileSync(join(folder, "cgroup.subtree_control"), controllers.map((one) => `+${one}`).join(" "))

/** Creates the folder of the workers' groups. */
const open = (parent: Parent, name: string): string => {
  const folder = join(parent.folder, name)
  if (parent.version === 2) {
    if (existsSync(join(parent.folder, "cgroup.type"))) {
      const own = join(parent.folder, PLATFORM)
      mkdirSync(own, { recursive: true })
      for (const pid of processesIn(parent.folder)) writeFileSync(join(own, "cgroup.procs"), String(pid))
    }
    give(parent, parent.folder)
  }
  mkdirSync(folder, { recursive: true })
  if (parent.version === 2) give(parent, folder)
  return folder
}

/** The files of a group, and their content. A name that begins with `?` is that of a file that not every kernel has. */
const settingsOf = (
  version: 1 | 2,
  controller: Controller,
  { cpus, memoryBytes, pids }: WorkerLimits
): Record<string, string> => {
  switch (controller) {
    case "cpu": {
      const quota = cpus === undefined ? undefined : Math.max(1_000, Math.round(cpus * CPU_PERIOD))
      if (quota === undefined) return {}
      return version === 2
        ? { "cpu.max": `${quota} ${CPU_PERIOD}` }
        : { "cpu.cfs_period_us": String(CPU_PERIOD), "cpu.cfs_quota_us": String(quota) }
    }
    case "memory": {
      if (memoryBytes === undefined) return {}
      const bytes = String(memoryBytes)
      // Without the group kill, the kernel would kill one process of a worker, and the others would wait for it.
      return version === 2
        ? { "memory.max": bytes, "?memory.swap.max": "0", "memory.oom.group": "1" }
        : { "memory.limit_in_bytes": bytes, "?memory.memsw.limit_in_bytes": bytes }
    }
    case "pids":
      return pids === undefined ? {} : { "pids.max": String(pids) }
  }
}

/** The groups of a pool's workers. */
export interface WorkerCgroups {
  /** Moves a process and its children into a group with these limits. Returns a warning if not all of them can be enforced. */
  readonly limit: (worker: string, pid: number, limits: WorkerLimits) => string | undefined
  /** Whether the kernel killed a process of the worker because the worker had reached its memory limit. */
  readonly ranOutOfMemory: (worker: string) => boolean
  /** Removes the worker's group. Its processes have ended. */
  readonly remove: (worker: string) => Effect.Effect<void>
}

/** How often to try to remove a group whose last process is about to end. */
const TRIES = 20

const isGone = (folder: string): boolean => {
  try {
    rmdirSync(folder)
    return true
  } catch {
    return !existsSync(folder)
  }
}

/** `dataDir` names the platform's groups. `isRecorded`: whether a worker of an earlier platform still has a record. `files` is for tests. */
export const make = (dataDir: string, isRecorded: (worker: string) => boolean, files?: string): WorkerCgroups => {
  const found = support(files)
  const name = `stint-${createHash("sha256").update(dataDir).digest("hex").slice(0, 12)}`
  const opened = new Map<Parent, string>()

  const folderOf = (parent: Parent): string => {
    const known = opened.get(parent)
    if (known !== undefined) return known
    const folder = open(parent, name)
    opened.set(parent, folder)
    return folder
  }

  /** The groups of a worker that exist. */
  const groupsOf = (worker: string) =>
    found.parents.map(({ folder }) => join(folder, name, worker)).filter((folder) => existsSync(folder))

  // What a killed platform left behind. The group of a worker that still runs cannot be removed.
  for (const { folder } of found.parents) {
    for (const worker of existsSync(join(folder, name)) ? readdirSync(join(folder, name)) : []) {
      if (!isRecorded(worker)) isGone(join(folder, name, worker))
    }
  }

  return {
    limit: (worker, pid, limits) => {
      const wanted = CONTROLLERS.filter((controller) => Object.keys(settingsOf(2, controller, limits)).length > 0)
      const enforced = new Set<Controller>()
      let problem = found.reason
      for (const parent of found.parents) {
        const controllers = parent.controllers.filter((one) => wanted.includes(one))
        if (controllers.length === 0) continue
        try {
          const group = join(folderOf(parent), worker)
          mkdirSync(group, { recursive: true })
          const settings = Object.assign({}, ...controllers.map((one) => settingsOf(parent.version, one, limits)))
          for (const [file, content] of Object.entries<string>(settings)) {
            if (!file.startsWith("?")) writeFileSync(join(group, file), content)
            else if (existsSync(join(group, file.slice(1)))) writeFileSync(join(group, file.slice(1)), content)
          }
          // Children that the process started meanwhile would escape the limits.
          for (const one of ProcessTable.descendantsOf(pid)) writeFileSync(join(group, "cgroup.procs"), String(one))
          for (const one of controllers) enforced.add(one)
        } catch (cause) {
          problem = `A control group in ${parent.folder} cannot be set up: ${
            cause instanceof Error ? cause.message : String(cause)
          }.`
        }
      }
      const not = wanted.filter((one) => !enforced.has(one)).map((one) => WORDS[one])
      return not.length === 0 ? undefined : `The limits of ${not.join(", ")} are not enforced. ${problem}`
    },
    ranOutOfMemory: (worker) =>
      groupsOf(worker).some((group) =>
        [...lines(join(group, "memory.events")), ...lines(join(group, "memory.oom_control"))].some((line) =>
          /^oom_kill [1-9]/.test(line)
        )
      ),
    remove: Effect.fnUntraced(function*(worker) {
      for (const { folder, version } of found.parents) {
        const group = join(folder, name, worker)
        if (!existsSync(group)) continue
        for (let tries = 0; tries < TRIES && !isGone(group); tries += 1) yield* Effect.sleep("50 millis")
        // Without workers, nothing remains in version 1. systemd removes the groups of version 2 with the service.
        if (version === 1) isGone(join(folder, name))
      }
    })
  }
}
