/**
 * An endpoint whose volume is not mounted, on a real platform: the waiting job shows which volume is missing, and runs once it is there. The same
 * after the folder was deleted.
 */
import { mkdir, mkdtemp, readFile, realpath, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

it("names the missing volume to the waiting job, and starts the worker when the folder is there", async () => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "stint-volume-")))
  const shared = join(folder, "shared")
  try {
    await using platform = await PlatformProcess.create(["serve"], { STINT_VOLUMES: `shared=${shared}` })
    const handler = join(FIXTURES, "volume.ts")
    expect(
      await stint(platform, [
        ...["endpoints", "create", "words", "--handler", handler],
        ...["--volume", "shared", "--idle-timeout", "100ms"]
      ])
    ).toMatchObject({ code: 0 })
    /** Submits a job that waits for the missing folder, and requires that it runs when the folder is there. */
    const waitForFolder = async () => {
      const id = await platform.run("words", {})
      const explained = await until("the reason", async () => {
        const { body } = await platform.request("GET", `/v2/words/status/${id}?explain`)
        const text = JSON.stringify(body)
        return text.includes("cannot be used") ? text : undefined
      }, 60_000)
      expect(explained).toContain(`its folder ${shared} does not exist. Create or mount it`)
      await mkdir(shared)
      expect(await platform.ended("words", id)).toMatchObject({ status: "COMPLETED", output: shared })
      expect(await readFile(join(shared, "built"), "utf8")).toBe("by a worker")
    }
    await waitForFolder()

    await until("the end of the idle worker", async () => {
      const { body } = await platform.request("GET", "/v2/words/health")
      const { workers } = body as { readonly workers: Readonly<Record<string, number>> }
      return Object.values(workers).every((count) => count === 0) ? true : undefined
    }, 60_000)
    await rm(shared, { recursive: true })
    await waitForFolder()
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}, 180_000)
