/**
 * The permissions of the data folder: created, corrected or refused, and those of every file that a platform writes.
 */
import * as Effect from "effect/Effect"
import { chmod, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as DataFolder from "../src/config/DataFolder.ts"
import { FIXTURES, PlatformProcess } from "./PlatformProcess.ts"

const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8)

describe.skipIf(process.platform === "win32")("the data folder", () => {
  let root: string
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "stint-data-folder-"))
  })
  afterAll(() => rm(root, { recursive: true, force: true }))

  const open = (folder: string) => Effect.runPromise(Effect.result(DataFolder.open(folder)))

  it("can be accessed only by its owner, whatever the umask", async () => {
    const folder = join(root, "new", "data")
    expect(await open(folder)).toMatchObject({ _tag: "Success", success: folder })
    expect(await modeOf(folder)).toBe("700")
  })

  it("is corrected when only Stint's files are in it, together with these files", async () => {
    const folder = join(root, "wide")
    await mkdir(join(folder, "workers"), { recursive: true })
    await writeFile(join(folder, "stint.db"), "")
    await writeFile(join(root, "elsewhere"), "")
    await symlink(join(root, "elsewhere"), join(folder, "stint.db-wal"))
    for (const [path, mode] of [[folder, 0o755], [join(folder, "workers"), 0o755], [join(folder, "stint.db"), 0o644]] as const) {
      await chmod(path, mode)
    }
    await chmod(join(root, "elsewhere"), 0o644)
    expect(await open(folder)).toMatchObject({ _tag: "Success" })
    expect(await Promise.all([folder, join(folder, "workers"), join(folder, "stint.db")].map(modeOf))).toEqual([
      "700",
      "700",
      "600"
    ])
    expect(await modeOf(join(root, "elsewhere"))).toBe("644")
  })

  it("is refused when other files are in it, and the error names one of them and two remedies", async () => {
    const folder = join(root, "shared")
    await mkdir(folder)
    await writeFile(join(folder, "index.html"), "")
    await writeFile(join(folder, "stint.db"), "")
    await chmod(folder, 0o755)
    expect(await open(folder)).toMatchObject({
      failure: {
        message:
          `Other users can access the data folder ${folder} (mode 755), and it contains "index.html", which is not a Stint file.`,
        hint: expect.stringMatching(/chmod 700 .* STINT_DATA_DIR=.*\/shared\/stint\./)
      }
    })
    expect(await modeOf(folder)).toBe("755")
    await chmod(folder, 0o700)
    expect(await open(folder)).toMatchObject({ _tag: "Success" })
  })

  it("is corrected under its default name even if it contains other files", async () => {
    const folder = join(root, ".stint")
    await mkdir(join(folder, "docs"), { recursive: true })
    await chmod(folder, 0o755)
    expect(await open(folder)).toMatchObject({ _tag: "Success" })
    expect(await modeOf(folder)).toBe("700")
  })

  it("contains no file that other users can read while a platform runs", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
    expect(await platform.runSync("slow", { n: 1 })).toMatchObject({ status: "COMPLETED" })
    expect(await modeOf(platform.dataDir)).toBe("700")
    // Written as a whole at the start, so that no commit waits for its growth.
    expect((await stat(join(platform.dataDir, "stint.db-wal"))).size).toBeGreaterThan(16e6)
    const wideFiles = async () => {
      const entries = await readdir(platform.dataDir, { recursive: true, withFileTypes: true })
      expect(entries.map(({ name }) => name)).toEqual(expect.arrayContaining(["stint.db", "stint.db-wal", "workers"]))
      const wide: Array<string> = []
      for (const entry of entries) {
        const path = join(entry.parentPath, entry.name)
        const found = await stat(path).catch(() => undefined)
        // Node creates the folders inside compile-cache. Other users cannot enter compile-cache itself.
        if (found === undefined || found.isDirectory() && entry.parentPath !== platform.dataDir) continue
        if ((found.mode & 0o077) !== 0) wide.push(`${path} ${(found.mode & 0o777).toString(8)}`)
      }
      return wide
    }
    // The files of a bundle get their permissions when it is complete. Until then, the data folder itself protects them.
    await expect.poll(wideFiles, { timeout: 20_000 }).toEqual([])
  })
})
