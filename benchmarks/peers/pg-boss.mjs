/**
 * pg-boss on PostgreSQL: concurrent callers that send jobs, and workers with the same concurrency. Arguments: the address of an empty database, and
 *
 * - `default`: each worker fetches one job at a time, at the shortest interval that pg-boss allows;
 * - `batched`: one worker fetches batches of 256 jobs without a pause while they are full, is woken by NOTIFY, and settles each job of a batch.
 */
import { PgBoss } from "pg-boss"
import { INPUT, OUTPUT, serveSubject } from "../src/SubjectProcess.ts"
import { makeLoad, untilStored } from "./PeerLoad.mjs"

const [, , connectionString, mode] = process.argv
const isBatched = mode === "batched"
const boss = new PgBoss({ connectionString, max: 40, useListenNotify: isBatched, supervise: false, schedule: false })
boss.on("error", (error) => {
  throw error
})
await boss.start()
await boss.createQueue("bench", isBatched ? { notify: true } : {})

const load = makeLoad()
let isWorking = false

const work = async (lanes) => {
  if (isWorking) return
  isWorking = true
  if (isBatched) {
    const options = { batchSize: 256, burstWhenBatchFull: true, perJobResults: true, pollingIntervalSeconds: 0.5 }
    await boss.work("bench", { ...options, notifyPollingIntervalSeconds: 0.5 }, async (jobs) => {
      load.count(jobs.length)
      return jobs.map(({ id }) => ({ id, status: "completed", output: OUTPUT }))
    })
  } else {
    for (let n = 0; n < lanes; n++) {
      await boss.work("bench", { pollingIntervalSeconds: 0.5 }, async (jobs) => {
        load.count(jobs.length)
        return OUTPUT
      })
    }
  }
}

const stored = async () => {
  const { rows } = await boss.getDb().executeSql(
    "SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state = 'completed'",
    []
  )
  return Number(rows[0].count)
}

const run = async ({ jobs, lanes }) => {
  await work(lanes)
  const before = await stored()
  const started = performance.now()
  await load.run({ jobs, lanes }, () => boss.send("bench", INPUT))
  await untilStored(async () => await stored() - before >= jobs)
  return performance.now() - started
}

serveSubject(run, () => boss.stop({ graceful: false }))
