/**
 * Reads the events of a job until it ends. After a lost connection, it resumes after the last event that it received.
 */
import { JobEvent, type JobEventKind, RETRY_MILLIS } from "@stint/contract/JobEvents"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { call } from "./PlatformClient.ts"
import { readEvents } from "./SseReader.ts"

const decodeEvent = Schema.decodeUnknownEffect(JobEvent)

/** The number of consecutive connections without any event after which the platform counts as unreachable. */
const MAX_SILENT_CONNECTIONS = 30

interface Job {
  readonly endpoint: string
  readonly id: string
}

/**
 * Reads one connection and calls `onEvent` for each event in order, until the connection ends. Returns false after the job's last event.
 */
const connect = Effect.fnUntraced(function*(
  params: Job,
  events: ReadonlyArray<JobEventKind>,
  lastEventId: string | undefined,
  onEvent: (event: JobEvent) => Effect.Effect<void>
) {
  const query = { events, ...(lastEventId === undefined ? {} : { lastEventId }) }
  const response = yield* call((api) => api.jobs.events({ params, query, responseMode: "response-only" }))
  if (response.status !== 200) return false
  // The next connection resumes after the last event.
  yield* readEvents(response.stream, (event) => Effect.flatMap(decodeEvent(event), onEvent))
  return true
})

/** Calls `onEvent` for each event of these kinds after the event `after` and for the end event, then returns. */
export const follow = Effect.fnUntraced(function*(
  job: Job,
  events: ReadonlyArray<JobEventKind>,
  onEvent: (event: JobEvent) => Effect.Effect<void>,
  after?: string
) {
  // Fail early, with a message, when the job does not exist.
  yield* call((api) => api.jobs.status({ params: job, query: {} }))
  const progress: { after: string | undefined; silent: number; ended: boolean } = { after, silent: 0, ended: false }
  while (!progress.ended && progress.silent < MAX_SILENT_CONNECTIONS) {
    progress.silent += 1
    const more = yield* connect(job, events, progress.after, (event) => {
      progress.after = event.id
      progress.silent = 0
      progress.ended = event.event === "end"
      return onEvent(event)
    })
    if (!more) return
    if (!progress.ended) yield* Effect.sleep(RETRY_MILLIS)
  }
})
