/**
 * Reads the events of a job until it ends. After a lost connection, it resumes after the last event that it received.
 *
 * Effect's typed client fails on a `retry:` field, which the platform sends first, so this module parses the text with Effect's SSE parser.
 */
import { JobEvent, type JobEventKind, RETRY_MILLIS } from "@stint/contract/JobEvents"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { call } from "./PlatformClient.ts"

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
  let parsed: Array<Sse.Event> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag === "Event") parsed.push(event)
  })
  yield* response.stream.pipe(
    Stream.decodeText,
    Stream.runForEach((text) => {
      parser.feed(text)
      const some = parsed
      parsed = []
      return Effect.forEach(some, (event) => Effect.flatMap(decodeEvent(event), onEvent), { discard: true })
    }),
    // The next connection resumes after the last event.
    Effect.ignore
  )
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
