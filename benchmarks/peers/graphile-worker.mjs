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
import { makeLoad, untilStored } from "./PeerLoad.mjs"

const [, , connectionString, mode] = process.argv
const logger = new Logger(() => () => {})
const pgPool = new Pool({ connectionString, max: 40 })
const utils = await makeWorkerUtils({ pgPool, logger })
await utils.migrate()

const load = makeLoad()
let runner

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
      bench: () => load.count()
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
  const started = performance.now()
  await load.run({ jobs, lanes }, () => mode === "grouped" ? addGrouped() : utils.addJob("bench", INPUT))
  await untilStored(async () => await stored() === 0)
  return performance.now() - started
}

serveSubject(run, async () => {
  await runner?.stop()
  await utils.release()
  await pgPool.end()
})
