import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import { freemem, totalmem } from "node:os"
import { memoryBound } from "../src/Cgroup.ts"
import * as MemoryCheck from "../src/MemoryCheck.ts"
import { SystemFiles } from "../src/SystemFiles.ts"
import { reason } from "./CheckHarness.ts"

const GB = 2 ** 30

type Files = { readonly [path: string]: string }

const reader = (files: Files): SystemFiles => (path) => files[path]

const meminfo = (totalGb: number, availableGb: number): Files => ({
  "/proc/meminfo": [
    `MemTotal:       ${totalGb * 2 ** 20} kB`,
    `MemFree:          ${2 ** 10} kB`,
    `MemAvailable:   ${Math.floor(availableGb * 2 ** 20)} kB`,
    "Buffers:           42284 kB",
    ""
  ].join("\n")
})

/** The files of a version 2 group. */
const v2 = (path: string, limit: number | "max", current: number, cache: number): Files => {
  const folder = `/sys/fs/cgroup${path === "/" ? "" : path}`
  return {
    [`${folder}/memory.max`]: `${limit}\n`,
    [`${folder}/memory.current`]: `${current}\n`,
    [`${folder}/memory.stat`]: `anon 1\nfile 2\ninactive_anon 3\nactive_anon 4\ninactive_file ${cache}\nactive_file 5\n`
  }
}

/** The files of a version 1 group. */
const v1 = (path: string, limit: number, usage: number, cache: number): Files => {
  const folder = `/sys/fs/cgroup/memory${path === "/" ? "" : path}`
  return {
    [`${folder}/memory.limit_in_bytes`]: `${limit}\n`,
    [`${folder}/memory.usage_in_bytes`]: `${usage}\n`,
    [`${folder}/memory.stat`]:
      `cache 1\nrss 2\ninactive_file 7\nhierarchical_memory_limit ${limit}\ntotal_inactive_file ${cache}\n`
  }
}

/** The limit that version 1 reports when there is none. */
const UNLIMITED_V1 = 9223372036854771712

const group = (text: string): Files => ({ "/proc/self/cgroup": `${text}\n` })

describe("the memory limit of control groups", () => {
  it.each<[string, Files, { readonly limit: number; readonly used: number } | undefined]>([
    ["no control groups", {}, undefined],
    ["version 2, in a container", { ...group("0::/"), ...v2("/", 2 * GB, GB, 0) }, { limit: 2 * GB, used: GB }],
    ["version 2, inactive cache counts as free", { ...group("0::/"), ...v2("/", 2 * GB, 2 * GB, 1.5 * GB) }, {
      limit: 2 * GB,
      used: 0.5 * GB
    }],
    ["version 2, without a limit", { ...group("0::/"), ...v2("/", "max", GB, 0) }, undefined],
    ["version 2, in a group below the root", { ...group("0::/system.slice/app"), ...v2("/system.slice/app", 3 * GB, GB, 0) }, {
      limit: 3 * GB,
      used: GB
    }],
    ["version 2, the parent group has the tighter limit", {
      ...group("0::/slice/app"),
      ...v2("/slice/app", 8 * GB, GB, 0),
      ...v2("/slice", 4 * GB, 3.5 * GB, 0)
    }, { limit: 4 * GB, used: 3.5 * GB }],
    ["version 2, the path is the host's", { ...group("0::/docker/0123"), ...v2("/", GB, 0, 0) }, { limit: GB, used: 0 }],
    ["version 2, the path is outside the visible hierarchy", {
      ...group("0::/../../kubepods/pod1"),
      ...v2("/", GB, 0, 0),
      "/sys/fs/cgroup/../../kubepods/pod1/memory.max": "1\n"
    }, { limit: GB, used: 0 }],
    ["version 1, in a container", {
      ...group("5:cpu,cpuacct:/docker/0123\n4:memory:/docker/0123\n1:name=systemd:/docker/0123\n0::/"),
      ...v1("/", GB, 0.75 * GB, 0.25 * GB)
    }, { limit: GB, used: 0.5 * GB }],
    ["version 1, in a group below the root", {
      ...group("4:memory:/a/b"),
      ...v1("/", UNLIMITED_V1, 20 * GB, 0),
      ...v1("/a/b", 2 * GB, 0, 0)
    }, { limit: 2 * GB, used: 0 }],
    ["version 1, without a limit", { ...group("4:memory:/"), ...v1("/", UNLIMITED_V1, GB, 0) }, undefined],
    ["a limit of another resource", { ...group("3:cpu:/a"), ...v1("/a", GB, 0, 0) }, undefined],
    ["malformed files", { ...group("what\n0::/"), "/sys/fs/cgroup/memory.max": "lots\n" }, undefined]
  ])("%s", (_name, files, expected) => {
    expect(memoryBound(reader(files))).toEqual(
      expected === undefined ? undefined : { ...expected, available: expected.limit - expected.used }
    )
  })

  it("reports 0 available bytes when more than the limit is in use", () =>
    expect(memoryBound(reader({ ...group("0::/"), ...v2("/", GB, 2 * GB, 0) }))?.available).toBe(0))
})

describe("the memory of a process", () => {
  it("is the smaller of the machine's and the container's available memory", () =>
    fc.assert(fc.property(
      fc.integer({ min: 0, max: 64 }),
      fc.integer({ min: 1, max: 64 }),
      fc.integer({ min: 0, max: 64 }),
      fc.boolean(),
      (machine, limit, used, modern) => {
        const files = {
          ...meminfo(64, machine),
          ...modern
            ? { ...group("0::/"), ...v2("/", limit * GB, used * GB, 0) }
            : { ...group("4:memory:/"), ...v1("/", limit * GB, used * GB, 0) }
        }
        const { available, container } = MemoryCheck.memoryOf(reader(files))
        expect(available).toBe(Math.min(machine, Math.max(0, limit - used)) * GB)
        expect(container === undefined).toBe(machine <= Math.max(0, limit - used))
      }
    )))

  it("comes from Node when there is no /proc", () => {
    const before = freemem()
    const { available, total } = MemoryCheck.memoryOf(reader({}))
    expect(total).toBe(totalmem())
    expect(Math.abs(available - before)).toBeLessThan(2 * GB)
  })

  it.effect("is read from this machine by default", () =>
    Effect.gen(function*() {
      const { available, total } = MemoryCheck.memoryOf(yield* SystemFiles)
      expect(available).toBeGreaterThan(0)
      expect(available).toBeLessThanOrEqual(total)
    }))
})

// docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks
describe("the check \"memory\"", () => {
  const on = (files: Files, options: MemoryCheck.Options) =>
    reason(MemoryCheck.check(options)).pipe(Effect.provideService(SystemFiles, reader(files)))

  it.effect("passes with the required memory and fails with less", () =>
    Effect.gen(function*() {
      expect(yield* on(meminfo(8, 4), { minimumGb: 4 })).toBeUndefined()
      expect(yield* on(meminfo(8, 3.999), { minimumGb: 4, setting: "PLATFORM_MIN_MEMORY_GB" })).toBe(
        "3.99 GB of memory is available, but 4 GB is required (PLATFORM_MIN_MEMORY_GB); the machine has 8.00 GB in all"
      )
    }))

  it.effect("names the container limit when the container is too small", () =>
    Effect.gen(function*() {
      const files = { ...meminfo(64, 60), ...group("0::/"), ...v2("/", 2 * GB, 0.75 * GB, 0) }
      expect(yield* on(files, { minimumGb: 1.25 })).toBeUndefined()
      expect(yield* on(files, { minimumGb: 4 })).toBe(
        "1.25 GB of memory is available, but 4 GB is required; the container's limit is 2.00 GB, of which 0.75 GB is in use"
      )
    }))
})
