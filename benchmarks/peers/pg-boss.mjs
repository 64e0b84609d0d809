/**
 * pg-boss on PostgreSQL: concurrent callers that send jobs, and workers with the same concurrency. Arguments: the address of an empty database, and
 *
 * - `default`: each worker fetches one job at a time, at the shortest interval that pg-boss allows;
 * - `batched`: one worker fetches batches of 256 jobs without a pause while they are full, is woken by NOTIFY, and settles each job of a batch.
 */
import { PgBoss } from "pg-boss"
import { INPUT, OUTPUT, serveSubject } from "../src/SubjectProcess.ts"

const [, , connectionString, mode] = process.argv
const isBatched = mode === "batched"
const boss = new PgBoss({ connectionString, max: 40, useListenNotify: isBatched, supervise: false, schedule: false })
boss.on("error", (error) => {
  throw error
})
await boss.start()
await boss.createQueue("bench", isBatched ? { notify: true } : {})

let isWorking = false
let completed = 0
let onCompleted = () => {}

const count = (jobs) => {
  completed += jobs.length
  onCompleted()
}

const work = async (lanes) => {
  if (isWorking) return
  isWorking = true
  if (isBatched) {
    const options = { batchSize: 256, burstWhenBatchFull: true, perJobResults: true, pollingIntervalSeconds: 0.5 }
    await boss.work("bench", { ...options, notifyPollingIntervalSeconds: 0.5 }, async (jobs) => {
      count(jobs)
      return jobs.map(({ id }) => ({ id, status: "completed", output: OUTPUT }))
    })
  } else {
    for (let n = 0; n < lanes; n++) {
      await boss.work("bench", { pollingIntervalSeconds: 0.5 }, async (jobs) => {
        count(jobs)
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
  completed = 0
  const all = new Promise((done) => {
    onCompleted = () => {
      if (completed >= jobs) done()
    }
  })
  const started = performance.now()
  let sent = 0
  const caller = async () => {
    while (sent < jobs) {
      sent += 1
      await boss.send("bench", INPUT)
    }
  }
  await Promise.all(Array.from({ length: lanes }, caller))
  await all
  while (await stored() - before < jobs) await new Promise((next) => setTimeout(next, 1))
  return performance.now() - started
}

serveSubject(run, () => boss.stop({ graceful: false }))
