/** BullMQ on Redis: concurrent callers that add jobs, and one worker with the same concurrency. Argument: Redis's port. */
import { Queue, Worker } from "bullmq"
import { INPUT, OUTPUT, serveSubject } from "../src/SubjectProcess.ts"
import { makeLoad } from "./PeerLoad.mjs"

const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null }
const queue = new Queue("bench", { connection })
const load = makeLoad()
let worker

const work = async (lanes) => {
  if (worker?.concurrency === lanes) return
  await worker?.close()
  worker = new Worker("bench", async () => OUTPUT, { connection, concurrency: lanes })
  worker.on("completed", () => load.count())
  await worker.waitUntilReady()
}

const run = async ({ jobs, lanes }) => {
  await queue.waitUntilReady()
  await work(lanes)
  const before = await queue.getCompletedCount()
  const started = performance.now()
  await load.run({ jobs, lanes }, () => queue.add("bench", INPUT))
  const millis = performance.now() - started
  const done = await queue.getCompletedCount() - before
  if (done !== jobs) throw new Error(`${done} of ${jobs} jobs are stored as completed`)
  return millis
}

serveSubject(run, async () => {
  await worker?.close()
  await queue.close()
})
