/**
 * A webhook receiver that needs no network. A test sets its responses and reads the requests that it has received.
 */
import type { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import type { GuardedHttpError } from "@stint/http-guard/GuardedHttpError"
import { GuardedHttpTest } from "@stint/http-guard/testing"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A received request. */
export interface ReceivedRequest {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly body: string
}

/** Responds to a request. */
export type Responder = (received: ReceivedRequest) => Effect.Effect<GuardedHttpTest.Answer, GuardedHttpError>

export class TestReceiver extends Context.Service<TestReceiver, {
  /** All requests so far, in order. */
  readonly received: ReadonlyArray<ReceivedRequest>
  /** Sets the response to further requests. Default: 200. */
  readonly respondWith: (behaviour: Responder) => void
}>()("@stint/webhooks-testing/TestReceiver") {}

/** Responds with a status. */
export const answer = (status: number, headers: { readonly [name: string]: string } = {}): Responder => () =>
  Effect.succeed({ status, headers })

/** The receiver, and a client that sends every request to it, regardless of the URL. */
export const layer: Layer.Layer<TestReceiver | GuardedHttp> = Layer.effectContext(Effect.gen(function*() {
  const received: Array<ReceivedRequest> = []
  let behaviour = answer(200)
  const context = yield* Layer.build(GuardedHttpTest.layer((url, { body, headers = {} }) =>
    Effect.gen(function*() {
      const request: ReceivedRequest = {
        at: yield* Clock.currentTimeMillis,
        url: url.href,
        headers,
        body: typeof body === "string" ? body : ""
      }
      received.push(request)
      return yield* behaviour(request)
    })
  ))
  return Context.add(context, TestReceiver, {
    received,
    respondWith: (next) => {
      behaviour = next
    }
  })
}))
