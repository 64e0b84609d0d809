/**
 * The load of a queue's core, for every store: concurrent callers, and one worker that takes one job per free lane, like the worker runtime.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { JobQueue } from "@stint/queue/JobQueue"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { INPUT, type Load, OUTPUT } from "../SubjectProcess.ts"

const endpoint = Schema.decodeUnknownSync(Endpoint)({ id: "bench", source: { type: "external" }, createdAt: 0 })
const worker = "bench"

/** Processes jobs, and returns the milliseconds until `completed`, the number of jobs that the store counts as completed, includes them. */
export const runLoad = Effect.fnUntraced(function*<E, R>({ jobs, lanes }: Load, completed: Effect.Effect<number, E, R>) {
  const queue = yield* JobQueue
  const before = yield* completed

  const submit = Effect.suspend(() => queue.submit({ endpoint, input: toJsonText(INPUT), id: JobId.make(uuidV7At(Date.now())) }))
  let sent = 0
  const caller: Effect.Effect<void, unknown> = Effect.whileLoop({
    while: () => sent < jobs,
    body: () => {
      sent += 1
      return submit
    },
    step: () => {}
  })

  const count = { done: 0, running: 0 }
  let idle: (() => void) | undefined
  /** Resumes the worker in the next turn of the event loop, when all jobs of the same commit have finished. */
  const wake = () => {
    if (idle !== undefined) setImmediate(idle)
    idle = undefined
  }
  const finish = Effect.fnUntraced(function*(id: JobId, attempt: number, input: string) {
    JSON.parse(input)
    yield* queue.finish({ endpoint: endpoint.id, worker, job: id, attempt }, { output: toJsonText(OUTPUT), error: null })
    count.running -= 1
    count.done += 1
    wake()
  })
  const working = Effect.gen(function*() {
    while (count.done < jobs) {
      const free = lanes - count.running
      if (free === 0 || count.done + count.running === jobs) {
        yield* Effect.callback<void>((resume) => {
          idle = () => resume(Effect.void)
        })
        continue
      }
      const taken = yield* queue.take({ endpoint: endpoint.id, worker, limit: free, waitMs: 1_000, holding: count.running > 0 })
      count.running += taken.length
      for (const { attempt, id, input } of taken) yield* Effect.forkChild(finish(id, attempt, input))
    }
  })

  const started = performance.now()
  yield* Effect.all([Effect.all(Array.from({ length: lanes }, () => caller), { concurrency: lanes, discard: true }), working], {
    concurrency: 2,
    discard: true
  })
  const millis = performance.now() - started
  const after = yield* completed
  if (after - before !== jobs) throw new Error(`${after - before} of ${jobs} jobs are stored as completed`)
  return millis
})
