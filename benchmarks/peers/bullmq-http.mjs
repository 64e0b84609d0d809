/**
 * A common stack: BullMQ and Redis behind node:http. `bullmq-http.mjs server PORT` is the server, with `waitUntilFinished` for /runsync.
 * `bullmq-http.mjs worker PORT` is its worker, with 64 concurrent jobs. PORT is Redis's port.
 */
import { Queue, QueueEvents, Worker } from "bullmq"
import { createServer } from "node:http"
import { OUTPUT } from "../src/SubjectProcess.ts"

const [role, port] = process.argv.slice(2)
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null }

if (role === "worker") {
  const worker = new Worker("bench", async () => OUTPUT, { connection, concurrency: 64 })
  await worker.waitUntilReady()
  process.send("ready")
} else {
  const queue = new Queue("bench", { connection })
  const events = new QueueEvents("bench", { connection })
  for (const one of [queue, events]) one.setMaxListeners(0)
  await Promise.all([queue.waitUntilReady(), events.waitUntilReady()])

  const routes = {
    "/run": async (body) => ({ id: (await queue.add("bench", body)).id, status: "IN_QUEUE" }),
    "/runsync": async (body) => {
      const job = await queue.add("bench", body)
      return { id: job.id, status: "COMPLETED", output: await job.waitUntilFinished(events, 60_000) }
    },
    "/left": async () => ({ left: (await queue.getWaitingCount()) + (await queue.getActiveCount()) })
  }
  const answerTo = async (request, response, text) => {
    const answer = JSON.stringify(await routes[request.url](text === "" ? undefined : JSON.parse(text)))
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) })
    response.end(answer)
  }
  const server = createServer((request, response) => {
    let text = ""
    request.setEncoding("utf8")
    request.on("data", (data) => {
      text += data
    })
    request.on("end", () => void answerTo(request, response, text))
  })
  server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }))
}
process.once("disconnect", () => process.exit())
