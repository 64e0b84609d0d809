/**
 * Bulk operations across restarts of a platform, which is killed with kill -9 during the hold and between changes.
 */
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const JOBS = 1_500

interface Operation {
  readonly id: string
  readonly state: string
  readonly done: number
  readonly failed: number
  readonly matched: { readonly count: number }
}

const start = async (platform: PlatformProcess, body: object): Promise<Operation> => {
  const answer = await platform.request("POST", "/api/v1/bulk", body)
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body))
  return answer.body as Operation
}

const read = async (platform: PlatformProcess, id: string): Promise<Operation> =>
  (await platform.request("GET", `/api/v1/bulk/${id}`)).body as Operation

const ended = (platform: PlatformProcess, id: string): Promise<Operation> =>
  until("the end of the operation", async () => {
    const operation = await read(platform, id)
    return operation.state === "done" ? operation : undefined
  }, 120_000)

const count = async (platform: PlatformProcess, query: string): Promise<number> => {
  const { body } = await platform.request("GET", `/api/v1/jobs/count?query=${encodeURIComponent(query)}`)
  return (body as { readonly count: number }).count
}

describe(`bulk operations on ${JOBS} jobs`, () => {
  it(
    "R1: continue after kill -9, and submit no job twice",
    async () => {
      await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
      for (let n = 0; n < JOBS; n += 50) {
        await Promise.all(Array.from({ length: 50 }, (_, at) => platform.run("joined", { n: n + at })))
      }

      // Killed during the hold: the operation is still held, and can be taken back.
      const held = await start(platform, { action: "cancel", query: "endpoint:joined", holdMs: 600_000 })
      expect(held).toMatchObject({ state: "held", matched: { count: JOBS } })
      await platform.end("SIGKILL")
      await platform.start()
      expect(await read(platform, held.id)).toMatchObject({ state: "held", done: 0 })
      const back = await stint(platform, ["jobs", "bulk", "cancel", held.id, "--json"])
      expect(JSON.parse(back.stdout)).toMatchObject({ state: "cancelled", done: 0 })
      expect(await count(platform, "endpoint:joined status:waiting")).toBe(JOBS)

      const cancelled = await stint(platform, [
        ...["jobs", "cancel", "--where", "endpoint:joined status:waiting", "--hold", "0s", "--yes", "--json"]
      ])
      expect(JSON.parse(cancelled.stdout)).toMatchObject({ state: "done", done: JOBS, failed: 0 })

      // Killed between the submissions, twice.
      const { id } = await start(platform, { action: "rerun", query: "endpoint:joined status:cancelled", holdMs: 0 })
      const kills: Array<number> = []
      for (const after of [100, 700]) {
        await until("some submissions", async () => (await read(platform, id)).done >= after ? true : undefined, 60_000)
        await platform.end("SIGKILL")
        await platform.start()
        const { done, state } = await read(platform, id)
        expect(state).toBe("running")
        expect(done).toBeLessThan(JOBS)
        kills.push(done)
      }
      expect(kills.toSorted((a, b) => a - b)).toEqual(kills)
      expect(await ended(platform, id)).toMatchObject({ done: JOBS, failed: 0 })
      expect(await count(platform, "endpoint:joined status:waiting")).toBe(JOBS)
      expect(await count(platform, "endpoint:joined")).toBe(2 * JOBS)
    },
    300_000
  )
})
