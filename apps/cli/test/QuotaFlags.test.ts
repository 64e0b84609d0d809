import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, expect, it } from "vitest"
import { runCommand } from "./CommandInProcess.ts"

/** The bodies that the commands sent, in order. */
const sent: Array<unknown> = []

const key = {
  id: "0123456789abcdef",
  name: "shop",
  status: "ACTIVE",
  scopes: ["jobs"],
  endpoints: "all",
  prefix: "stint_0123456789abcdef",
  createdAt: 0,
  limits: { waitingJobs: 7, storedBytes: 5_000_000_000 }
}

const endpoint = { id: "thumbnail", source: { type: "external" }, createdAt: 0 }

let server: Server

beforeAll(async () => {
  server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString()
      if (text !== "") sent.push(JSON.parse(text))
      const isKey = request.url?.startsWith("/api/v1/keys") === true
      response.writeHead(request.url === "/api/v1/keys" ? 201 : 200, { "content-type": "application/json" })
      response.end(JSON.stringify(isKey ? request.url === "/api/v1/keys" ? { key, secret: "s" } : key : endpoint))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
})
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve))
})

const stint = async (...args: ReadonlyArray<string>) => {
  sent.length = 0
  const { port } = server.address() as AddressInfo
  const env = { STINT_URL: `http://127.0.0.1:${port}`, STINT_API_KEY: "sixteen-characters" }
  const { code, stderr, stdout } = await runCommand(args, { env })
  return { code, stderr, stdout, body: sent.at(-1) }
}

it("`keys create` sends the quotas of a key, with sizes in words", async () => {
  const made = await stint("keys", "create", "shop", "--all-endpoints", "--max-waiting-jobs", "7", "--max-stored-bytes", "5GB")
  expect(made.body).toMatchObject({ limits: { waitingJobs: 7, storedBytes: 5_000_000_000 } })
  const shown = await stint("keys", "show", key.id)
  expect(shown.stdout).toContain("7 waiting jobs, 5000000000 stored bytes")
})

it("`keys update` changes one quota and keeps the other, or removes both", async () => {
  const changed = await stint("keys", "update", key.id, "--max-stored-bytes", "1 MiB")
  expect(changed.body).toEqual({ limits: { waitingJobs: 7, storedBytes: 1_048_576 } })
  expect((await stint("keys", "update", key.id, "--no-quotas")).body).toEqual({ limits: null })
  const both = await stint("keys", "update", key.id, "--no-quotas", "--max-waiting-jobs", "1")
  expect(both).toMatchObject({ code: 1, body: undefined })
  expect(both.stderr).toContain("Give either --no-quotas, or")
})

it("`endpoints update` sends the quotas of an endpoint", async () => {
  const flags = ["--limit-waiting-jobs", "3", "--limit-stored-bytes", "20 MB"]
  const changed = await stint("endpoints", "update", "thumbnail", ...flags)
  expect(changed.body).toMatchObject({ limits: { waitingJobs: 3, storedBytes: 20_000_000 } })
})

it.each([
  [["keys", "create", "shop", "--all-endpoints", "--max-stored-bytes", "much"], "a size, for example 5GB"],
  [["keys", "create", "shop", "--all-endpoints", "--max-stored-bytes", "1 B"], "1000"],
  [["endpoints", "update", "thumbnail", "--limit-waiting-jobs", "0"], "1"]
])("refuses %j and says what is expected", async (args, words) => {
  const refused = await stint(...args)
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain(words)
})
