/** BullMQ on Redis: concurrent callers that add jobs, and one worker with the same concurrency. Argument: Redis's port. */
import { Queue, Worker } from "bullmq"
import { INPUT, OUTPUT, serveSubject } from "../src/SubjectProcess.ts"

const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null }
const queue = new Queue("bench", { connection })
let worker
let completed = 0
let onCompleted = () => {}

const work = async (lanes) => {
  if (worker?.concurrency === lanes) return
  await worker?.close()
  worker = new Worker("bench", async () => OUTPUT, { connection, concurrency: lanes })
  worker.on("completed", () => {
    completed += 1
    onCompleted()
  })
  await worker.waitUntilReady()
}

const run = async ({ jobs, lanes }) => {
  await queue.waitUntilReady()
  await work(lanes)
  const before = await queue.getCompletedCount()
  completed = 0
  const all = new Promise((done) => {
    onCompleted = () => {
      if (completed === jobs) done()
    }
  })
  const started = performance.now()
  let sent = 0
  const caller = async () => {
    while (sent < jobs) {
      sent += 1
      await queue.add("bench", INPUT)
    }
  }
  await Promise.all(Array.from({ length: lanes }, caller))
  await all
  const millis = performance.now() - started
  const done = await queue.getCompletedCount() - before
  if (done !== jobs) throw new Error(`${done} of ${jobs} jobs are stored as completed`)
  return millis
}

serveSubject(run, async () => {
  await worker?.close()
  await queue.close()
})
