/**
 * graphile-worker on PostgreSQL: concurrent callers that add jobs, and one worker with the same concurrency. It deletes completed jobs and keeps no
 * outputs. Arguments: the address of an empty database, and
 *
 * - `default`: each job is fetched and completed by a statement of its own;
 * - `batched`: jobs are fetched in batches (`localQueue`) and completed in batches (`completeJobBatchDelay`);
 * - `grouped`: `batched`, and the callers' jobs of one turn of the event loop are added by one `addJobs`.
 */
import { Logger, makeWorkerUtils, run as start } from "graphile-worker"
import { Pool } from "pg"
import { INPUT, serveSubject } from "../src/SubjectProcess.ts"

const [, , connectionString, mode] = process.argv
const logger = new Logger(() => () => {})
const pgPool = new Pool({ connectionString, max: 40 })
const utils = await makeWorkerUtils({ pgPool, logger })
await utils.migrate()

let runner
let completed = 0
let onCompleted = () => {}

const work = async (lanes) => {
  if (runner !== undefined) return
  const batched = mode === "default" ? {} : {
    localQueue: { size: lanes * 2 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0
  }
  runner = await start({
    pgPool,
    logger,
    noHandleSignals: true,
    preset: { worker: { concurrentJobs: lanes, ...batched } },
    taskList: {
      bench: () => {
        completed += 1
        onCompleted()
      }
    }
  })
}

/** Adds the jobs of one turn together. */
let group = []
const addGrouped = () =>
  new Promise((resolve) => {
    group.push({ resolve })
    if (group.length > 1) return
    setImmediate(() => {
      const all = group
      group = []
      const added = utils.addJobs(all.map(() => ({ identifier: "bench", payload: INPUT })))
      for (const { resolve } of all) resolve(added)
    })
  })

const stored = async () => Number((await pgPool.query("SELECT count(*) FROM graphile_worker._private_jobs")).rows[0].count)

const run = async ({ jobs, lanes }) => {
  await work(lanes)
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
      await (mode === "grouped" ? addGrouped() : utils.addJob("bench", INPUT))
    }
  }
  await Promise.all(Array.from({ length: lanes }, caller))
  await all
  while (await stored() > 0) await new Promise((next) => setTimeout(next, 1))
  return performance.now() - started
}

serveSubject(run, async () => {
  await runner?.stop()
  await utils.release()
  await pgPool.end()
})
