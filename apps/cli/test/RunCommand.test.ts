/**
 * `stint run` against a scripted platform: its output while it waits and after Ctrl-C, and its errors as JSON.
 */
import { createServer, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type Options, runCommand } from "./CommandInProcess.ts"

/** The ids of the jobs determine the platform's responses. */
const ENDED: Readonly<Record<string, unknown>> = {
  result: { id: "result", status: "COMPLETED", output: { sum: 3 } },
  failing: { id: "failing", status: "FAILED", error: "no such city" }
}

const problem = {
  type: "/problems/endpoint-not-found",
  status: 404,
  title: "t",
  detail: "d",
  error: "no endpoint \"gone\"",
  hint: "h"
}

/** The responses to the polls of the job `paused`, and why it waits at each. */
const POLLS = [["IN_QUEUE", "starting"], ["IN_QUEUE", "paused"], ["IN_QUEUE", "paused"], ["IN_QUEUE", "failing"], [
  "COMPLETED",
  "ended"
]] as const

const explanation = (reason: string) => ({
  reason,
  words: `words about ${reason}`,
  workers: { max: 0, idle: 0, initializing: 0, running: 0, draining: 0, throttled: 0, unhealthy: 0 },
  attempts: { made: 0, most: 2 },
  createdAt: 1,
  queuedAt: 1
})

describe("stint run", () => {
  let server: Server
  let env: Record<string, string>
  /** The requests, and the bodies of submissions. */
  const requests: Array<string> = []
  const bodies: Array<unknown> = []
  let polls = 0

  const answer = (response: ServerResponse, body: unknown, status = 200) => {
    response.writeHead(status, { "content-type": "application/json" })
    response.end(JSON.stringify(body))
  }

  beforeAll(async () => {
    server = createServer((request, response) => {
      let text = ""
      request.on("data", (data: Buffer) => (text += data.toString()))
      request.on("end", () => {
        const [, , endpoint = "", operation = "", id = ""] = (request.url ?? "").split("?", 1)[0]?.split("/") ?? []
        requests.push(`${operation} ${id || endpoint}`)
        if (endpoint === "gone") return answer(response, problem, 404)
        if (operation === "run") {
          bodies.push(JSON.parse(text))
          // This endpoint responds only after the caller has given up.
          if (endpoint === "late") return void setTimeout(() => answer(response, { id: endpoint, status: "IN_QUEUE" }), 100)
          return answer(response, { id: endpoint, status: "IN_QUEUE" })
        }
        if (operation === "cancel") return answer(response, { id, status: "CANCELLED" })
        if (operation === "stream" && id !== "paused") return answer(response, { ...(ENDED[id] as object), stream: [] })
        if (id === "paused") {
          if (operation === "status-sync" || operation === "stream") polls += 1
          const [status, reason] = POLLS[Math.max(0, polls - 1)] ?? ["COMPLETED", "ended"]
          const explain = request.url?.includes("explain") === true ? { explain: explanation(reason) } : {}
          return answer(response, { id, status, ...explain, ...(operation === "stream" ? { stream: [] } : {}) })
        }
        const ended = ENDED[id]
        if (ended !== undefined) return answer(response, ended)
        if (operation === "status") return answer(response, { id, status: "IN_PROGRESS", output: "half" })
        // A long poll that does not end.
      })
    })
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
    env = {
      STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      STINT_API_KEY: "sixteen-characters"
    }
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  })

  const run = (args: ReadonlyArray<string>, options: Omit<Options, "env"> = {}) => runCommand(args, { env, ...options })

  it("shows the job's id and its progress on standard error, and the result on standard output", async () => {
    const { code, stderr, stdout } = await run(["run", "result", "--input-file", "-", "--sync", "--json"], { stdin: "{\"a\":1}" })
    expect({ code, stderr, stdout: JSON.parse(stdout) }).toEqual({
      code: 0,
      stderr: "Job result of result\n",
      stdout: ENDED["result"]
    })
    expect(bodies).toContainEqual({ input: { a: 1 } })
  })

  it.each(["--sync", "--stream"])("says with %s why a job waits, once for each reason that is not ordinary", async (flag) => {
    polls = 0
    const { code, stderr } = await run(["run", "paused", "--input", "1", flag])
    expect(code).toBe(0)
    expect(stderr.split("\n").filter((line) => line.includes("words"))).toEqual([
      "why      words about paused",
      "why      words about failing"
    ])
  })

  it("prints the result of a job that streams nothing", async () => {
    expect(await run(["run", "result", "--input", "1", "--stream"])).toMatchObject({ code: 0, stdout: "{\"sum\":3}\n" })
  })

  it("prints the error of a failed job once", async () => {
    const { code, stderr, stdout } = await run(["run", "failing", "--input", "1", "--sync"])
    expect(code).toBe(1)
    expect((stdout + stderr).split("no such city")).toHaveLength(2)
    expect(stderr).toContain("The job ended as FAILED.")
  })

  it("says on Ctrl-C that the job continues, and how to wait for it and cancel it", async () => {
    const { code, stderr } = await run(["run", "endless", "--input", "1", "--sync"], {
      interruptWhen: (stderr) => stderr.includes("IN_PROGRESS")
    })
    expect(code).toBe(130)
    expect(stderr).toContain("Job endless of endless\nIN_PROGRESS \"half\" (0 s)\n")
    expect(stderr).toContain("Stopped waiting. Job endless is IN_PROGRESS and continues.")
    expect(stderr).toContain("stint status endless endless --wait")
    expect(requests).not.toContain("cancel endless")
  })

  it("cancels the job on Ctrl-C with --cancel-on-interrupt, even when the id is not known yet", async () => {
    const { code, stderr } = await run(["run", "late", "--input", "1", "--sync", "--cancel-on-interrupt"], {
      interruptWhen: () => requests.includes("run late")
    })
    expect(code).toBe(130)
    expect(stderr).toContain("Job late is cancelled.")
    expect(requests).toContain("cancel late")
  })

  it("prints an error as the last line of standard error with --json, in a stable form", async () => {
    const refused = await run(["run", "gone", "--input", "1", "--json"])
    expect(refused).toMatchObject({ code: 1, stdout: "" })
    expect(JSON.parse(refused.stderr)).toEqual({
      error: { code: "endpoint-not-found", message: "no endpoint \"gone\"", hint: "h", status: 404 }
    })
    const failed = await run(["run", "failing", "--input", "1", "--sync", "--json"])
    expect(JSON.parse(failed.stdout)).toEqual(ENDED["failing"])
    expect(JSON.parse(failed.stderr.trimEnd().split("\n").at(-1) ?? "")).toEqual({
      error: { code: "job-not-completed", message: "The job ended as FAILED." }
    })
  })

  it("exits with code 2 for an invalid command line, names the mistake on standard error and prints no help", async () => {
    const text = await run(["run", "result", "--input", "1", "--prioritty", "5"])
    expect(text).toMatchObject({ code: 2, stdout: "" })
    expect(text.stderr).toMatch(/--prioritty[^]*--priority[^]*See: stint run --help/)
    expect(text.stderr).not.toContain("GLOBAL FLAGS")
    const json = await run(["jobs", "list", "e", "--created-after", "yesterday", "--json"])
    expect(json).toMatchObject({ code: 2, stdout: "" })
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: "usage", message: expect.stringContaining("yesterday") } })
  })

  it("names an option that the contract does not allow, instead of blaming the platform", async () => {
    const { code, stderr } = await run(["jobs", "list", "e", "--limit", "999", "--json"])
    expect(code).toBe(1)
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: "invalid-option", message: expect.stringContaining("limit") } })
  })
})
