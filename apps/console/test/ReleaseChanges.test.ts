import { describe, expect, it } from "vitest"
import { releaseChanges } from "../src/endpoints/ReleaseChanges.ts"

const workers = (max: number) => ({ workers: { min: 0, max, idleTimeoutMs: 5_000 } })

const release = (number: number, settings: object, files?: Readonly<Record<string, string>>) => ({
  settings: { id: "hello", ...settings },
  ...(files === undefined
    ? {}
    : { code: { hash: `code ${number}`, files: Object.entries(files).map(([path, hash]) => ({ path, hash })) } })
})

describe("the changes in a release", () => {
  it("are the settings that differ, by their paths", () => {
    const changes = releaseChanges(
      release(1, { ...workers(3), maxAttempts: 2 }),
      release(2, { ...workers(5), leaseMs: 9_000 })
    )
    expect(changes.settings).toEqual([
      { path: "leaseMs", after: "9000" },
      { path: "maxAttempts", before: "2" },
      { path: "workers.max", before: "3", after: "5" }
    ])
  })

  it("name changed environment variables, but not their values", () => {
    const { settings } = releaseChanges(
      release(1, { env: { TOKEN: "old", SAME: "x" } }),
      release(2, { env: { TOKEN: "new", SAME: "x" } })
    )
    expect(settings).toEqual([{ path: "env.TOKEN", before: "(hidden)", after: "(hidden)" }])
  })

  it("are the source files that were added, removed and changed", () => {
    const changes = releaseChanges(
      release(1, {}, { "a.ts": "1", "b.ts": "2", "c.ts": "3" }),
      release(2, {}, { "a.ts": "1", "b.ts": "9", "d.ts": "4" })
    )
    expect(changes).toEqual({ settings: [], added: ["d.ts"], removed: ["c.ts"], changed: ["b.ts"], packagesOnly: false })
  })

  it("are the installed packages when the code differs and no source file does", () => {
    const files = { "a.ts": "1" }
    expect(releaseChanges(release(1, {}, files), release(2, {}, files)).packagesOnly).toBe(true)
    expect(releaseChanges(release(1, {}, files), release(1, {}, files)).packagesOnly).toBe(false)
  })
})
