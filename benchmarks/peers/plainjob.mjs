/**
 * plainjob over better-sqlite3, embedded. Its calls are synchronous and each is one transaction, so concurrency has no effect: jobs are
 * processed in groups of `lanes`, without plainjob's worker, which would cost more. It stores no results.
 */
import Database from "better-sqlite3"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { better, defineQueue, JobStatus } from "plainjob"
import { INPUT, serveSubject } from "../src/SubjectProcess.ts"

const folder = mkdtempSync(join(tmpdir(), "stint-plainjob-"))
const connection = better(new Database(join(folder, "jobs.db")))
const silent = { error() {}, warn() {}, info() {}, debug() {} }
const queue = defineQueue({ connection, logger: silent })
// plainjob's default is NORMAL.
if (process.argv[2] === "D2") connection.pragma("synchronous = FULL")

const run = ({ jobs, lanes }) => {
  const before = queue.countJobs({ type: "bench", status: JobStatus.Done })
  const started = performance.now()
  for (let first = 0; first < jobs; first += lanes) {
    const group = Math.min(lanes, jobs - first)
    for (let n = 0; n < group; n++) queue.add("bench", INPUT)
    for (let n = 0; n < group; n++) {
      const { id } = queue.getAndMarkJobAsProcessing("bench")
      JSON.parse(queue.getJobById(id).data)
      queue.markJobAsDone(id)
    }
  }
  const millis = performance.now() - started
  const done = queue.countJobs({ type: "bench", status: JobStatus.Done }) - before
  if (done !== jobs) throw new Error(`${done} of ${jobs} jobs are stored as done`)
  return millis
}

serveSubject(async (load) => run(load), async () => {
  queue.close()
  rmSync(folder, { recursive: true, force: true })
})
