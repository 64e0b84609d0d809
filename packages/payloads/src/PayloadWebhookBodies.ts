/**
 * Webhooks' bodies with payloads that are kept elsewhere. The outbox holds what a job's change tells with references in it, small however large the job
 * is, and each is made whole at its turn to be sent.
 *
 * Whoever is told of a job is told of its end, whatever became of its payloads: one that is lost is `null`, and the member `payloadError` says why.
 */
import { JsonText } from "@stint/contract/Json"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { JobPayloads } from "./JobPayloads.ts"

/** The longest that a body takes. Milliseconds. */
const LIMIT = 30_000

/** Bodies over whatever payloads are given. */
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
