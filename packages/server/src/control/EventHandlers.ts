/**
 * Sends the platform's events as Server-Sent Events (contract, PlatformEvent.ts).
 *
 * ```
 *   PlatformEvents --pulled--> text --pulled--> the connection
 *                     ^ no event: a comment         |
 *                     +-- a full connection stops the pulls: the reader falls behind, and receives the number of events that it missed
 * ```
 *
 * After a few minutes, the response ends with the reader's position, and the reader reconnects. So a reader whose key was revoked cannot read
 * further.
 */
import { Api } from "@stint/contract/Api"
import { CurrentViewer } from "@stint/contract/OverviewApi"
import { Forbidden, problemMembers, Unavailable } from "@stint/contract/Problem"
import { isEventId, type NewPlatformEvent, PlatformEvents, type ReadEvent } from "@stint/queue/PlatformEvents"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Limits } from "../http/Limits.ts"
import { endpointFinder, invalidEventId } from "../http/QueueProblems.ts"
import { sseResponse } from "../jobs/JobEventStream.ts"
import { lastEventIdOf } from "../jobs/JobsHandlers.ts"

/** One event as text. The JSON of an event has no line breaks. */
const sseEvent = ({ event, id }: ReadEvent): string => `id: ${id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/** Where to resume. An event without data is not delivered, but the client keeps its id. */
const sseEnd = (position: string | undefined): ReadonlyArray<string> =>
  position === undefined ? [] : [`id: ${position}\nevent: position\n\n`]

const endpointOf = (event: NewPlatformEvent): string | undefined => "endpoint" in event ? event.endpoint : undefined

export const layer = HttpApiBuilder.group(
  Api,
  "events",
  Effect.fnUntraced(function*(handlers) {
    const { open } = yield* PlatformEvents
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    /** Whether the key permits events of an endpoint. An undefined endpoint stands for an event of the whole platform. */
    const filterFor = Effect.fnUntraced(function*(only: string | undefined) {
      const { endpoints } = yield* CurrentViewer
      const permits = (endpoint: string | undefined) => endpoints === "all" || endpoints.some((one) => one === endpoint)
      if (only === undefined) return permits
      if (!permits(only)) {
        return yield* new Forbidden(
          problemMembers("This key does not permit this endpoint.", "Use a key for the endpoint, or leave out `endpoint`.")
        )
      }
      yield* findEndpoint(only, endpoints === "all")
      return (endpoint: string | undefined) => endpoint === only
    })

    return handlers.handleRaw(
      "streamEvents",
      Effect.fnUntraced(function*({ query, request }) {
        const isWanted = yield* filterFor(query.endpoint)
        const { endpoints } = yield* CurrentViewer
        const after = lastEventIdOf(request, query.lastEventId)
        if (after !== undefined && !isEventId(after)) return yield* invalidEventId(after)
        const reader = yield* Effect.mapError(
          open({ after, accepts: (event) => isWanted(endpointOf(event)), isLimited: endpoints !== "all" }),
          ({ limit }) =>
            new Unavailable(
              problemMembers(
                `${limit} readers already follow this platform, the most that this key may share.`,
                "End one of them, or try again later."
              )
            )
        )
        const events = Stream.paginate(undefined, () =>
          Effect.map(
            reader.next,
            (some) =>
              some.length === 0
                ? [sseEnd(reader.position()), Option.none()] as const
                : [some.map(sseEvent), Option.some(undefined)] as const
          ))
        return sseResponse(events, limits.heartbeatMs)
      })
    )
  })
)
