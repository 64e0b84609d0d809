/**
 * Resolves the payload references in webhook bodies. The outbox stores bodies with references, so its rows stay small; the sender resolves each
 * body right before it sends it.
 *
 * A webhook is sent even if a payload is lost: the payload is then `null`, and the member `payloadError` contains the cause.
 */
import { JsonText } from "@stint/contract/Json"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { JobPayloads } from "./JobPayloads.ts"

/** The time limit for resolving one body. Milliseconds. */
const LIMIT = 30_000

/** Webhook bodies that may contain payload references. */
export const layer: Layer.Layer<never, never, JobPayloads> = Layer.effect(
  WebhookBodies,
  Effect.map(JobPayloads, (payloads) => ({
    limitMs: LIMIT,
    resolve: (body) =>
      payloads.resolve(body, "wait").pipe(
        Effect.timeoutOrElse({ duration: LIMIT, orElse: () => payloads.failTimedOut(LIMIT) }),
        Effect.map(({ problems, text }) =>
          JsonText.make(
            problems.length === 0
              ? text
              : `${text.slice(0, -1)},"payloadError":${JSON.stringify(`A payload of this job is lost: ${problems.join("; ")}.`)}}`
          )
        )
      )
  }))
)
