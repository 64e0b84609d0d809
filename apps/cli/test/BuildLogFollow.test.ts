/**
 * `stint builds logs --follow`: the log of a build as Server-Sent Events, across a lost connection.
 */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { expect, it } from "vitest"
import { runCommand } from "./CommandInProcess.ts"

const build = {
  endpoint: "e",
  number: 3,
  state: "succeeded",
  createdAt: 0,
  createdBy: "ann",
  trigger: "manual",
  settings: { repository: "https://git.example.com/words.git" },
  warnings: []
}

const line = (number: number, text: string) =>
  `id: ${number}\nevent: line\ndata: ${JSON.stringify({ number, time: 0, text })}\n\n`

it("prints each line once, and after a lost connection resumes after the last line, until the build has ended", async () => {
  const after: Array<string | null> = []
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://a")
    if (!url.pathname.endsWith("/log-events")) {
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(build))
      return
    }
    after.push(url.searchParams.get("after"))
    response.writeHead(200, { "content-type": "text/event-stream" })
    if (after.length === 1) response.end(`retry: 1000\n\n${line(1, "STEP 1")}${line(2, "STEP 2")}`)
    else response.end(`retry: 1000\n\n: alive\n\n${line(3, "done")}id: end\nevent: end\ndata: ${JSON.stringify(build)}\n\n`)
  })
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  const env = { STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, STINT_API_KEY: "sixteen-characters" }
  const finished = await runCommand(["builds", "logs", "e", "3", "--follow"], { env })
  await new Promise((closed) => server.close(closed))
  expect(finished).toMatchObject({ code: 0, stdout: "STEP 1\nSTEP 2\ndone\n" })
  expect(after).toEqual(["0", "2"])
}, 30_000)
