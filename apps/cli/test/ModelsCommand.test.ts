/**
 * `stint models` against a server with prepared responses: the progress of a download, its failure, and what is refused without a request.
 */
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { runCommand } from "./CommandInProcess.ts"

const MODEL = "acme/whisper"
const cached = {
  model: MODEL,
  commit: "a".repeat(40),
  revisions: ["main"],
  files: 2,
  bytes: 1_500,
  lastUsedAt: Date.UTC(2026, 10, 22, 20, 15),
  workers: 1,
  endpoints: ["words", "talk"]
}
const downloading = { model: MODEL, state: "downloading", receivedBytes: 500, totalBytes: 1_500 }
const failed = {
  model: MODEL,
  state: "failed",
  receivedBytes: 0,
  reason: "The model acme/whisper cannot be downloaded: why.",
  retryAt: 5
}
const older = { ...failed, reason: "An earlier reason.", retryAt: 4 }

const cacheOf = (models: ReadonlyArray<object>, downloads: ReadonlyArray<object>) => ({
  folder: "/srv/cache/hub",
  hub: "https://hub.example.com",
  bytes: 1_500,
  limitBytes: 2_000_000_000,
  models,
  downloads
})

describe("stint models", () => {
  let server: Server
  let env: Readonly<Record<string, string>>
  /** The responses to `GET /models`; the last one repeats. */
  let lists: Array<object> = []
  const requests: Array<string> = []

  beforeAll(async () => {
    server = createServer((request, response) => {
      requests.push(`${request.method} ${request.url}`)
      const body = request.method === "POST" ? downloading : lists.length > 1 ? lists.shift() : lists[0]
      request.resume().on("end", () => {
        response.writeHead(request.method === "POST" ? 202 : 200, { "content-type": "application/json" })
        response.end(JSON.stringify(body))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    env = { STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, STINT_API_KEY: "sixteen-characters" }
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  it("lists the models with the endpoints that use them, and the downloads", async () => {
    lists = [cacheOf([cached], [{ ...downloading, model: "acme/other" }, failed])]
    const { code, stdout } = await runCommand(["models", "list"], { env })
    expect(code).toBe(0)
    expect(stdout.trimEnd().split("\n").map((line) => line.replaceAll(/ {2,}/g, " | "))).toEqual([
      "MODEL | REVISION | COMMIT | FILES | SIZE | LAST USED (UTC) | WORKERS | ENDPOINTS",
      "acme/whisper | main | aaaaaaaaaaaa | 2 | 1.5 kB | 2026-11-22 20:15:00 | 1 | words, talk",
      "Downloading acme/other: 500 B of 1.5 kB.",
      "The model acme/whisper cannot be downloaded: why.",
      "1.5 kB of at most 2.0 GB in /srv/cache/hub, from https://hub.example.com"
    ])
  })

  it("shows the progress of a pull until the model is in the cache", async () => {
    lists = [cacheOf([], [older, downloading]), cacheOf([cached], [])]
    const { code, stderr, stdout } = await runCommand(["models", "pull", MODEL], { env })
    expect({ code, stdout }).toEqual({ code: 0, stdout: "acme/whisper is in the cache: commit aaaaaaaaaaaa, 1.5 kB\n" })
    expect(stderr).toContain("Downloading acme/whisper: 500 B of 1.5 kB")
  })

  it("fails with the reason when the download fails, even when an earlier commit is in the cache", async () => {
    lists = [cacheOf([cached], [older, failed])]
    const { code, stderr } = await runCommand(["models", "pull", MODEL], { env })
    expect(code).toBe(1)
    expect(stderr).toContain("The model acme/whisper cannot be downloaded: why.")
  })

  it("refuses a token as an argument without repeating it, and an invalid id, without a request", async () => {
    requests.length = 0
    const token = "hf_0123456789 and more"
    const refused = await runCommand(["models", "pull", MODEL, "--token", token], { env })
    expect(refused.code).not.toBe(0)
    expect(refused.stderr).toContain("is not the name of a secret")
    expect(refused.stderr).not.toContain(token)
    expect((await runCommand(["models", "pull", "whisper"], { env })).stderr).toContain("Expected a model's id")
    expect((await runCommand(["models", "remove", "acme/whisper@main"], { env })).stderr).toContain("is not a model's id")
    expect(requests).toEqual([])
  })
})
