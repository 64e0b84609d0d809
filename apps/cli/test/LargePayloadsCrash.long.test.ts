/**
 * Large payloads survive a kill -9 of the platform.
 */
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "large.config.ts")]
const KIBIBYTE = 1024

/** A payload folder that is removed after the test. */
const folder = async (): Promise<AsyncDisposable & { readonly path: string }> => {
  const path = await mkdtemp(join(tmpdir(), "stint-payloads-e2e-"))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

describe("a platform with a payload store", () => {
  it(
    "R1: has every large payload of every acknowledged job after kill -9, and starts despite the files that the crash left behind",
    async () => {
      await using payloads = await folder()
      await using platform = await PlatformProcess.create(CONFIG, {
        STINT_PAYLOADS: `dir:${payloads.path}`,
        STINT_PAYLOADS_THRESHOLD: "1 KiB"
      })
      const acknowledged = new Map<string, number>()
      let killed: Promise<unknown> | undefined
      const submitAll = async () => {
        for (let n = 0; killed === undefined; n++) {
          const length = 20 * KIBIBYTE + n
          try {
            acknowledged.set(await platform.run("large", { text: "x".repeat(length), bytes: 5 * KIBIBYTE + n }), length)
          } catch (error) {
            if (killed === undefined) throw error
          }
          if (acknowledged.size >= 150) killed ??= platform.end("SIGKILL")
        }
      }
      await Promise.all(Array.from({ length: 8 }, submitAll))
      await killed
      expect(acknowledged.size).toBeGreaterThanOrEqual(150)
      const parts = join(payloads.path, ".parts")
      await writeFile(join(parts, "unfinished"), "x")
      const left = await readdir(parts)
      await platform.start()
      const present = await readdir(parts)
      expect(left.filter((name) => present.includes(name))).toEqual([])
      for (const [id, length] of acknowledged) {
        const job = await platform.ended("large", id)
        expect(job.status, JSON.stringify(job.error)).toBe("COMPLETED")
        expect(job.output).toEqual({ taken: length, text: "y".repeat(length - 15 * KIBIBYTE) })
      }
      // Jobs whose submission was not acknowledged may still be writing their outputs.
      await until("every write to be finished", async () => (await readdir(parts)).length === 0 ? true : undefined)
    },
    120_000
  )
})
