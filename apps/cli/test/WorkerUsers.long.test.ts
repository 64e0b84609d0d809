/**
 * Workers of a real platform with a user for each endpoint (docs/operations/security.md#workers-under-another-user): a handler that tries to read
 * what belongs to the platform and to another endpoint. Needs root.
 */
import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint } from "./PlatformProcess.ts"

const isRoot = process.getuid?.() === 0

describe.skipIf(!isRoot)(`workers under other users${isRoot ? "" : " (need root)"}`, () => {
  it("cannot read the platform's key, data and environment, nor the environment of another endpoint's worker", async () => {
    const cache = await mkdtemp(join(tmpdir(), "stint-users-"))
    await chmod(cache, 0o755)
    try {
      await using platform = await PlatformProcess.create(["serve"], {
        STINT_WORKER_USER: "200000-265535",
        STINT_CACHE_DIR: cache
      })
      for (const endpoint of ["victim", "spy"]) {
        const create = ["endpoints", "create", endpoint, "--handler", join(FIXTURES, "contained.ts"), "--workers-min", "1"]
        expect(await stint(platform, create)).toMatchObject({ code: 0 })
      }
      const [victim, spy] = await Promise.all(["victim", "spy"].map(async (endpoint) => {
        const { output } = await platform.runSync(endpoint, { do: "identify" })
        return output as { readonly pid: number; readonly uid: number }
      }))
      expect(victim?.uid).toBeGreaterThanOrEqual(200_000)
      expect(spy?.uid).toBeGreaterThanOrEqual(200_000)
      expect(spy?.uid).not.toBe(victim?.uid)
      // The worker is there, and its environment has something to hide.
      expect(await readFile(`/proc/${victim?.pid}/environ`, "utf8")).toContain("RUNPOD_AI_API_KEY=")

      const keys = join(platform.configDir, "stint/keys")
      const [key = ""] = await readdir(keys)
      expect(await readFile(join(keys, key), "utf8")).toContain(platform.key)
      const { output } = await platform.runSync("spy", {
        do: "probe",
        read: [
          "/proc/self/environ",
          join(keys, key),
          keys,
          platform.dataDir,
          join(platform.dataDir, "admin-key.json"),
          `/proc/${platform.pid}/environ`,
          `/proc/${victim?.pid}/environ`
        ],
        connect: [],
        request: ["/api/v1/keys"],
        key: platform.key
      })
      expect(output).toMatchObject({
        read: ["succeeded", "EACCES", "EACCES", "EACCES", "EACCES", "EACCES", "EACCES"],
        write: "EACCES",
        requests: [expect.toBeOneOf([401, 403])],
        hasKey: false
      })
    } finally {
      await rm(cache, { recursive: true, force: true })
    }
  }, 180_000)
})
