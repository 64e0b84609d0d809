/**
 * The operation that follows the events of the platform (PlatformEvent.ts).
 *
 * ```
 *   /api/v1/events   GET   Server-Sent Events: ?endpoint ?lastEventId
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { operationDocs } from "../OpenApiOperation.ts"
import { EndpointNotFound, Forbidden, InvalidRequest, Unavailable } from "../Problem.ts"
import { ViewerAuthorization } from "./OverviewApi.ts"
import { SentPlatformEvent } from "./PlatformEvent.ts"

export class EventsApi extends HttpApiGroup.make("events")
  .add(
    HttpApiEndpoint.get("streamEvents", "/events", {
      query: {
        endpoint: Schema.optionalKey(Schema.String.annotate({ description: "Only events of this endpoint." })),
        lastEventId: Schema.optionalKey(
          Schema.String.annotate({ description: "Has the same effect as the header `Last-Event-ID`, which takes precedence." })
        )
      },
      success: HttpApiSchema.StreamSse({ events: SentPlatformEvent }),
      error: [EndpointNotFound, Forbidden, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Follow the platform",
      description:
        "Sends the platform's events from now on as Server-Sent Events, for the endpoints that the key permits: jobs, workers, releases, " +
        "builds, webhooks, alerts and changed endpoints. Events are not stored. A reader that sends the last id as `Last-Event-ID` within a " +
        "minute after a lost connection receives the events in between. A connection ends after five minutes with an event `position` without " +
        "data, whose id lets the reader continue without a gap. A reader that is too slow receives `missed`, with the number of events " +
        "that it did not receive. Requires the scope `jobs:read`, `deploy` or `admin`.",
      parameters: [{
        name: "Last-Event-ID",
        in: "header",
        description: "The `id` of the last received event. Browsers send it automatically.",
        schema: { type: "string" },
        example: "mgx1r2-1-42"
      }]
    }))
  )
  .middleware(ViewerAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Events", description: "The platform's events, live" }))
{}
