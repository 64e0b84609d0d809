/**
 * Bulk operations on the command line, against a platform whose responses the test chooses.
 */
import { once } from "node:events"
import { createServer } from "node:http"
import { describe, expect, it } from "vitest"
import { stint } from "./PlatformProcess.ts"

const OPERATION = {
  id: "0198f0a2-0000-7000-8000-000000000000",
  action: "retry",
  query: "error:rare",
  state: "done",
  createdAt: 1_790_000_000_000,
  createdBy: "the key \"ops\"",
  startsAt: 1_790_000_000_000,
  endedAt: 1_790_000_001_000,
  matched: { count: 0, more: true },
  done: 2,
  skipped: { changed: 0, missing: 0, endpoint: 0 },
  failed: 0,
  problems: []
}

/** Runs the command against a platform that has counted this number of jobs. Returns its output and the number of started operations. */
const retryAll = async (counted: { readonly count: number; readonly more: boolean }) => {
  let started = 0
  const server = createServer((request, response) => {
    if (request.method === "POST") started++
    response.writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json" })
    response.end(JSON.stringify(request.method === "POST" ? OPERATION : counted))
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const port = typeof address === "object" ? address?.port : undefined
  const env = { STINT_URL: `http://127.0.0.1:${port}`, STINT_API_KEY: "rpa_0123456789abcdef" }
  const ended = await stint(undefined, ["jobs", "retry", "--where", "error:rare", "--yes"], env)
  server.close()
  return { ...ended, started }
}

describe("stint jobs retry --where", () => {
  it("starts no operation when no job matches", async () => {
    const { started, stderr, stdout } = await retryAll({ count: 0, more: false })
    expect([started, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining("Nothing was changed.")])
  })

  it("starts the operation when only some of the jobs were counted and none of those matches", async () => {
    const { code, started, stderr, stdout } = await retryAll({ count: 0, more: true })
    expect([code, started, `${stdout}${stderr}`]).toEqual([0, 1, expect.stringContaining("Retried 2 jobs")])
    expect(`${stdout}${stderr}`).toContain("None of the counted jobs matches. There are more.")
  })
})
