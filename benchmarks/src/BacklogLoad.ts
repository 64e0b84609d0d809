/**
 * The jobs and the load of P5, for every store: single claims, and draining with 32 jobs in flight.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { JobQueue } from "@stint/queue/JobQueue"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { formatFigure, median, tableOf } from "./Rounds.ts"
import { INPUT, OUTPUT } from "./SubjectProcess.ts"

const CLAIMS = 200
const DRAINED = 600
const DRAINS = 5
const LANES = 32

/** The number of jobs of each kind in a backlog. */
export interface Size {
  readonly name: string
  readonly ready: number
  readonly delayed: number
  readonly ended: number
}

/** All backlogs, the smallest first. */
export const SIZES: ReadonlyArray<Size> = [
  { name: "1,000 ready", ready: 1_000, delayed: 0, ended: 0 },
  { name: "100,000 ready", ready: 100_000, delayed: 0, ended: 0 },
  { name: "1,000,000 ready", ready: 1_000_000, delayed: 0, ended: 0 },
  { name: "and 100,000 delayed, 2,000,000 ended", ready: 1_000_000, delayed: 100_000, ended: 2_000_000 }
]

const endpoint = Schema.decodeUnknownSync(Endpoint)({
  id: "bench",
  source: { type: "external" },
  createdAt: 0,
  retry: { onError: true, maxAttempts: 3, backoff: { initialMs: 3_600_000, maxMs: 3_600_000 } }
})

const worker = "bench"

const submit = Effect.suspend(() =>
  JobQueue.use((queue) => queue.submit({ endpoint, input: toJsonText(INPUT), id: JobId.make(uuidV7At(Date.now())) }))
)

const take = (limit: number) =>
  JobQueue.use((queue) => queue.take({ endpoint: endpoint.id, worker, limit, waitMs: 0, holding: true }))

const finish = (job: JobId, error: string | null) =>
  JobQueue.use((queue) =>
    queue.finish({ endpoint: endpoint.id, worker, job }, { output: error === null ? toJsonText(OUTPUT) : null, error })
  )

/** Creates the jobs that are copied: one of each kind, written by the queue. Row order: ended, delayed, ready. */
export const templates = Effect.gen(function*() {
  yield* submit
  for (const { id } of yield* take(1)) yield* finish(id, null)
  yield* submit
  for (const { id } of yield* take(1)) yield* finish(id, "not now")
  yield* submit
})

/** One round over one backlog. The number of ready jobs is the same afterwards. */
export const round = Effect.gen(function*() {
  const claims: Array<number> = []
  // The first 20 claims warm up: they compile statements and fill caches.
  for (let n = -20; n < CLAIMS; n++) {
    const started = performance.now()
    const [job] = yield* take(1)
    if (n >= 0) claims.push(performance.now() - started)
    if (job !== undefined) yield* finish(job.id, null)
  }
  let drained = 0
  let millis = 0
  const lane = Effect.whileLoop({
    while: () => drained < DRAINED,
    body: () => {
      drained += 1
      return Effect.flatMap(take(1), (jobs) => Effect.forEach(jobs, ({ id }) => finish(id, null), { discard: true }))
    },
    step: () => {}
  })
  for (let n = 0; n < DRAINS; n++) {
    drained = 0
    const started = performance.now()
    yield* Effect.all(Array.from({ length: LANES }, () => lane), { concurrency: LANES, discard: true })
    millis += performance.now() - started
    yield* Effect.replicateEffect(submit, DRAINED, { concurrency: 64 })
  }
  yield* Effect.replicateEffect(submit, CLAIMS + 20, { concurrency: 64 })
  return { claim: median(claims), drain: DRAINS * DRAINED / (millis / 1000) }
})

/** The figures of a backlog, one of each kind a round. */
export interface Figures {
  readonly name: string
  /** Median time of a claim in milliseconds. */
  readonly claim: Array<number>
  /** Jobs per second. */
  readonly drain: Array<number>
}

/** A table of figures. The ratios are to the first backlog, round by round. */
export const backlogTable = (all: ReadonlyArray<Figures>): string => {
  const column = (own: ReadonlyArray<number>, base: ReadonlyArray<number>) => [
    formatFigure(median(own)),
    `${formatFigure(Math.min(...own))} - ${formatFigure(Math.max(...own))}`,
    `${median(own.map((figure, n) => figure / (base[n] ?? Number.NaN))).toFixed(2)}x`
  ]
  const rows = all.map(({ claim, drain, name }) => [
    name,
    ...column(claim, all[0]?.claim ?? []),
    ...column(drain, all[0]?.drain ?? [])
  ])
  return tableOf([["", "claim p50 ms", "range", "ratio", "drain jobs/s", "range", "ratio"], ...rows])
}
