/** Small file systems for tests of a full disk. */
import * as Effect from "effect/Effect"
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const mount = (size: string, folder: string): string | undefined => {
  const { error, status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", folder], {
    encoding: "utf8"
  })
  return error === undefined && status === 0 ? undefined : (error?.message ?? stderr).trim()
}

const temporaryFolder = () => mkdtempSync(join(tmpdir(), "stint-mount-"))

/** The reason why this process cannot mount a file system; undefined when it can. */
export const mountProblem = (): string | undefined => {
  const folder = temporaryFolder()
  try {
    const problem = mount("1m", folder)
    if (problem === undefined) spawnSync("umount", [folder])
    return problem
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The folder of a new file system of this size, for example `16m`. */
export const smallDisk = (size: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = temporaryFolder()
      const problem = mount(size, folder)
      if (problem !== undefined) throw new Error(problem)
      return folder
    }),
    (folder) =>
      Effect.sync(() => {
        spawnSync("umount", ["-l", folder])
        rmSync(folder, { recursive: true, force: true })
      })
  )
