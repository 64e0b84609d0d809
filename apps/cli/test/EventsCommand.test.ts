/**
 * `stint events`: prints a line for each event, and continues after a lost connection.
 */
import { once } from "node:events"
import { createServer, type Server } from "node:http"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { line } from "../src/commands/EventsCommand.ts"
import { runCommand } from "./CommandInProcess.ts"

const AT = Date.UTC(2026, 10, 22, 14, 0, 7)

/** What each connection sends before it is closed. Empty: a proxy responds while the platform restarts. */
const CONNECTIONS = [
  [{ type: "job.submitted", at: AT, endpoint: "hello", job: "one" }],
  [],
  [{ type: "worker.failed", at: AT, endpoint: "hello", worker: "w-1", reason: "\u001b[31mred\nline" }, {
    type: "missed",
    at: AT,
    count: 3
  }]
]

describe("stint events", () => {
  let server: Server
  let url = ""
  let asked: Array<string> = []

  beforeAll(async () => {
    server = createServer((request, response) => {
      asked.push(request.url ?? "")
      if (request.headers.authorization !== "Bearer sixteen-characters") {
        response.writeHead(403, { "content-type": "application/problem+json" })
        return void response.end(JSON.stringify({ error: "This key may not read.", hint: "Use another key." }))
      }
      const events = CONNECTIONS[asked.length - 1]
      if (events === undefined) return void response.writeHead(204).end()
      if (events.length === 0) return void response.writeHead(502, { "content-type": "text/html" }).end("<h1>Bad Gateway</h1>")
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.write("retry: 1000\n\n")
      for (const event of events) {
        response.write(`id: a-1-${asked.length}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
      }
      // Where to resume, as the platform says when a connection has reached its time limit.
      response.end(`id: a-1-${asked.length}0\nevent: position\n\n`)
    })
    server.listen(0, "127.0.0.1")
    await once(server, "listening")
    const address = server.address()
    url = typeof address === "object" && address !== null ? `http://127.0.0.1:${address.port}` : ""
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  const run = (key: string, ...args: ReadonlyArray<string>) => {
    asked = []
    return runCommand(["events", ...args], { env: { STINT_URL: url, STINT_API_KEY: key } })
  }

  it(
    "prints a line for each event with its control characters escaped, and resumes at its position, even after a 502",
    async () => {
      const { code, stdout } = await run("sixteen-characters", "-f", "--endpoint", "hello")
      expect(code).toBe(0)
      expect(stdout.split("\n")).toEqual([
        "14:00:07  job.submitted     hello  one",
        "14:00:07  worker.failed     hello  worker=w-1  reason=\\u001b[31mred\\nline",
        "14:00:07  missed  3 events: this reader was too slow or disconnected",
        ""
      ])
      expect(asked).toEqual([
        "/api/v1/events?endpoint=hello",
        "/api/v1/events?endpoint=hello&lastEventId=a-1-10",
        "/api/v1/events?endpoint=hello&lastEventId=a-1-10",
        "/api/v1/events?endpoint=hello&lastEventId=a-1-30"
      ])
    },
    20_000
  )

  it("prints one JSON object per line with --json", async () => {
    const { stdout } = await run("sixteen-characters", "--json")
    expect(stdout.trim().split("\n").map((text) => JSON.parse(text))).toEqual(CONNECTIONS.flat())
    expect(stdout).not.toContain("\u001b")
  }, 20_000)

  it("fails with the platform's error when the key may not read", async () => {
    const { code, stderr } = await run("another-key-of-16-characters")
    expect(code).toBe(1)
    expect(stderr).toContain("This key may not read.")
    expect(stderr).toContain("Use another key.")
  })

  it("shows an alert with its endpoint, or with a dash if it is about the whole platform", () => {
    const alert = { type: "alert.fired", at: AT, id: "x", fingerprint: "disk_low", kind: "disk_low", summary: "Low." } as const
    expect(line(alert)).toBe("14:00:07  alert.fired       -  id=x  fingerprint=disk_low  kind=disk_low  summary=Low.")
    expect(line({ ...alert, endpoint: "hello" })).toContain("alert.fired       hello  id=x")
  })
})
