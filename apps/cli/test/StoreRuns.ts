/**
 * Runs pipelines of tests over the queue and a real store, in this process and without HTTP. It has the operations of `PipelineTest`.
 *
 * ```
 *   pipeline --RunWrite--> Journal (here) --> RunQueue --> store: memory, SQLite, PostgreSQL
 *      ^                                                    |
 *      `----- claimed jobs: the run, its next activations, its child jobs
 * ```
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { type JournalRecord, type RunAnswer, type RunWrite, SleepBody, SpawnBody, WaitBody } from "@stint/contract/RunJournal"
import type { Pipeline } from "@stint/pipelines"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobRecord } from "@stint/store/JobRecord"
import { JobStore } from "@stint/store/JobStore"
import { memberOf, type RunEntry } from "@stint/store/RunMachine"
import { uuidV7At } from "@stint/store/UuidV7"
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type DefinitionRef, Journal } from "../../../packages/pipelines/src/Journal.ts"
import type { Run } from "../../../packages/pipelines/test/RandomPipelines.ts"

const WORKER = "ann"
/** Longer than any run takes on the test clock. Milliseconds. */
const LONG = 1_000_000_000

type AnyPipeline = Pipeline.Pipeline<string, Schema.Constraint, Schema.Constraint, never>

const isSpawn = Schema.is(SpawnBody)
const isSleep = Schema.is(SleepBody)
const isWait = Schema.is(WaitBody)
const parse = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))

/** A record as the server passes it to the queue. */
const toRequest = ({ body, kind, path }: JournalRecord): RunQueue.RunRecordRequest => {
  if (kind === "spawn" && isSpawn(body)) return { kind, path, ...body, input: toJsonText(body.input ?? null) }
  if (kind === "sleep" && isSleep(body)) return { kind, path, ...body }
  if (kind === "wait" && isWait(body)) return { kind, path, ...body }
  if (kind === "spawn" || kind === "sleep" || kind === "wait") throw new Error(`the body of the ${kind} at ${path} is wrong`)
  return { kind, path, body: toJsonText(body ?? null) }
}

const toFinish = (finish: NonNullable<RunWrite["finish"]>) =>
  "error" in finish
    ? { output: null, error: finish.error, cancelled: false }
    : { output: "output" in finish ? toJsonText(finish.output ?? null) : null, error: null, cancelled: "cancelled" in finish }

/** What the workers of a test do, so that the test can wait until they have nothing to do. */
export interface Activity {
  /** The writes to the journal that have no response yet. */
  inFlight: number
  /** Counts the writes and the claimed jobs. */
  changes: number
  /** Counts how often a worker has looked for jobs and timers. */
  turns: number
}

/** No activity. */
export const makeActivity = (): Activity => ({ inFlight: 0, changes: 0, turns: 0 })

/** Each of the two workers of a run has looked for work at least twice, and found none. */
const QUIET_TURNS = 6

/** Waits until everything has happened that can happen without time passing, however long the store takes. */
export const settled = (activity: Activity): Effect.Effect<void> =>
  Effect.promise(async (signal) => {
    for (let quiet = 0, changes = -1, turns = activity.turns; quiet < QUIET_TURNS && !signal.aborted;) {
      await new Promise((resolve) => setImmediate(resolve))
      if (activity.turns === turns) continue
      turns = activity.turns
      quiet = activity.inFlight > 0 || activity.changes !== changes ? 0 : quiet + 1
      changes = activity.changes
    }
  })

/** Starts a run of a pipeline, and workers for it and for the pipeline of its jobs. */
export const start = Effect.fnUntraced(function*(
  pipeline: AnyPipeline,
  jobs: AnyPipeline,
  ids: { readonly pipeline: EndpointId; readonly jobs: EndpointId },
  crash: (record: JournalRecord, when: "before" | "after") => boolean,
  activity: Activity = makeActivity()
) {
  const endpoints = yield* EndpointStore
  const queue = yield* JobQueue.JobQueue
  const runs = yield* RunQueue.RunQueue
  const store = yield* JobStore
  const scope = yield* Effect.scope
  const crashed = new Set<string>()
  const workers = new Map<JobId, Deferred.Deferred<void>>()

  /** Kills the worker of the run at most once for each record. */
  const around = (write: RunWrite, when: "before" | "after") =>
    Effect.suspend(() => {
      const hit = (write.records ?? []).find((record) =>
        !crashed.has(`${write.run} ${when} ${record.kind} ${record.path}`) && crash(record, when)
      )
      if (hit === undefined) return Effect.void
      crashed.add(`${write.run} ${when} ${hit.kind} ${hit.path}`)
      const worker = workers.get(JobId.make(write.run))
      if (worker !== undefined) Deferred.doneUnsafe(worker, Effect.void)
      return Effect.never
    })

  /** An entry as the server returns it: the end of a job has the job's output. */
  const toEntry = Effect.fnUntraced(function*({ at, body, kind, n, path }: RunEntry) {
    const job = kind === "end" && memberOf({ body }, "status") === "COMPLETED" ? memberOf({ body }, "job") : undefined
    const output = job === undefined ? null : (yield* queue.get(ids.jobs, job)).output
    const text = body === null || output === null ? body : `${body.slice(0, -1)},"output":${output}}`
    return { path, kind, n, at, ...(text === null ? {} : { body: parse(text) }) }
  })

  const journalOf = (endpoint: EndpointId) =>
    Journal.of({
      write: (write: RunWrite, definition: DefinitionRef) =>
        Effect.gen(function*() {
          activity.inFlight++
          activity.changes++
          yield* around(write, "before")
          yield* runs.define(endpoint, [{ hash: definition.hash, graph: toJsonText(definition.graph) }])
          const { after, attempt, finish, park, records = [], run, start } = write
          const [result] = yield* Effect.uninterruptible(runs.journal(endpoint, WORKER, [{
            run: JobId.make(run),
            attempt,
            after,
            records: records.map(toRequest),
            start: start === undefined
              ? undefined
              : { definition: start.definition, ttlMs: LONG, undo: start.undo ?? false },
            park: park === undefined ? undefined : { seen: park.seen, wakeAfter: park.wakeAfter ?? 1, until: park.until ?? null },
            finish: finish === undefined ? undefined : toFinish(finish)
          }], 0))
          if (result === undefined) return yield* Effect.die(new Error("the journal has no result"))
          const answer: RunAnswer = {
            run,
            state: result.state === "unknown" || result.state === "idle" ? "running" : result.state,
            n: result.last,
            entries: yield* Effect.forEach(result.entries, toEntry),
            phase: result.phase,
            chunks: result.chunks,
            ...(result.cause === null ? {} : { cause: result.cause })
          }
          yield* around(write, "after")
          return answer
        }).pipe(Effect.orDie, Effect.ensuring(Effect.sync(() => activity.inFlight--))),
      announce: undefined,
      chunk: () => Effect.void,
      finishes: true
    })

  /** One activation, until it ends or its worker is killed. */
  const activate = Effect.fnUntraced(function*(target: AnyPipeline, { attempt, endpoint, id, input }: JobRecord) {
    const killed = Deferred.makeUnsafe<void>()
    workers.set(id, killed)
    const job = { id, input: parse(input), attempt }
    const isKilled = yield* Effect.raceFirst(
      target.run(job, undefined).pipe(
        Effect.provideService(Journal, journalOf(endpoint)),
        Effect.provideService(CurrentJob, job),
        Effect.exit,
        Effect.as(false)
      ),
      Effect.as(Deferred.await(killed), true)
    )
    if (!isKilled) return
    const now = yield* Clock.currentTimeMillis
    const lost = { _tag: "LoseLease", endpoint, worker: WORKER, attempt, now, cause: "It was killed.", blameless: true } as const
    yield* store.apply(endpoint, id, lost)
  })

  const work = (endpoint: EndpointId, target: AnyPipeline) =>
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      const { jobs: claimed } = yield* store.claim(endpoint, 100, { _tag: "Claim", now, worker: WORKER })
      activity.changes += claimed.length
      yield* Effect.forEach(claimed, (job) => Effect.forkIn(activate(target, job), scope), { discard: true })
      yield* queue.tick
      activity.turns++
      yield* Effect.promise(() => new Promise((next) => setImmediate(next)))
    }).pipe(Effect.orDie, Effect.forever, Effect.forkIn(scope))

  const settings = { leaseMs: 3_600_000, executionTimeoutMs: 604_800_000, ttlMs: 604_800_000, maxAttempts: 100 }
  for (const id of [ids.pipeline, ids.jobs]) yield* endpoints.put(Scenario.endpoint({ id, ...settings }))
  const now = yield* Clock.currentTimeMillis
  const id = JobId.make(uuidV7At(now))
  yield* store.insert(
    Scenario.record({
      ...settings,
      id,
      endpoint: ids.pipeline,
      input: toJsonText(1),
      createdAt: now,
      queuedAt: now,
      expiresAt: now + LONG
    })
  )
  yield* work(ids.pipeline, pipeline)
  yield* work(ids.jobs, jobs)

  const entries = Effect.flatMap(runs.entries(ids.pipeline, id, 0, 10_000), (all) => Effect.forEach(all, toEntry))
  const isEnd = Schema.is(Schema.Literals(["COMPLETED", "FAILED", "CANCELLED"]))
  const run: Run = {
    result: Effect.gen(function*() {
      while (true) {
        const { error, output, status } = yield* queue.get(ids.pipeline, id)
        if (isEnd(status)) {
          return {
            status,
            error: error ?? undefined,
            output: output === null ? undefined : parse(output),
            entries: yield* entries
          }
        }
        yield* Effect.promise(() => new Promise((next) => setImmediate(next)))
      }
    }).pipe(Effect.orDie),
    event: (name, { data = null, key = "" } = {}) =>
      runs.send(ids.pipeline, { name, key, body: toJsonText(data), id: null, ttlMs: LONG }).pipe(Effect.orDie, Effect.asVoid),
    cancel: Effect.ignore(queue.cancel(ids.pipeline, id)),
    entries: () => []
  }
  return run
})
