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

/** Why this process cannot mount a file system. */
export interface MountProblem {
  readonly reason: string
  /** Whether the system forbids it, as in a container or without root, so that installing something would not help. */
  readonly isForbidden: boolean
}

/** Undefined when this process can mount a file system. */
export const mountProblem = (): MountProblem | undefined => {
  const folder = temporaryFolder()
  try {
    const reason = mount("1m", folder)
    if (reason !== undefined) return { reason, isForbidden: /denied|not permitted|superuser|must be root/i.test(reason) }
    spawnSync("umount", [folder])
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
