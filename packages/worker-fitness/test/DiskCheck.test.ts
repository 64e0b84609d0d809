import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, statfsSync } from "node:fs"
import * as DiskCheck from "../src/DiskCheck.ts"
import { reason } from "./CheckHarness.ts"

const here = statfsSync(".")
const percent = here.bavail / here.blocks * 100

// docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks
describe("the check \"disk\"", () => {
  it.effect("passes when enough of the working directory's file system is free", () =>
    Effect.gen(function*() {
      expect(yield* reason(DiskCheck.check({ minimumPercent: 0 }))).toBeUndefined()
      expect(yield* reason(DiskCheck.check({ minimumPercent: Math.max(0, percent - 2) }))).toBeUndefined()
    }))

  it.effect("fails when less is free, and names the share, the path and the variable", () =>
    Effect.gen(function*() {
      const message = yield* reason(
        DiskCheck.check({ minimumPercent: Math.ceil(percent) + 1, setting: "PLATFORM_MIN_DISK_PERCENT" })
      )
      const [, free, required, where] =
        /^(\d+\.\d) % of the disk is free, but (\d+) % is required \(PLATFORM_MIN_DISK_PERCENT\); \d+\.\d of \d+\.\d GB at (.*)$/
          .exec(message ?? "") ?? []
      expect(Math.abs(Number(free) - percent)).toBeLessThan(2)
      expect(required).toBe(String(Math.ceil(percent) + 1))
      expect(where).toBe(process.cwd())
    }))

  it.effect("fails when the file system does not respond", () =>
    Effect.gen(function*() {
      expect(yield* reason(DiskCheck.check({ minimumPercent: 10, path: "/no such folder" })))
        .toMatch(/^the file system of \/no such folder does not respond: ENOENT/)
    }))

  it.effect.skipIf(!existsSync("/proc/self"))("passes on a file system without a size", () =>
    Effect.gen(function*() {
      expect(yield* reason(DiskCheck.check({ minimumPercent: 100, path: "/proc" }))).toBeUndefined()
    }))
})
