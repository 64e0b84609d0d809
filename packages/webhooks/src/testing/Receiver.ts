/**
 * A receiver of webhooks without a network: a test says what it does with each request, and asks what it got.
 */
import type { GuardedHttp } from "@stint/ssrf-guard/GuardedHttp"
import type { GuardedHttpError } from "@stint/ssrf-guard/GuardedHttpError"
import { GuardedHttpTest } from "@stint/ssrf-guard/testing"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A request as it came. */
export interface Received {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly url: string
  readonly headers: { readonly [name: string]: string }
  readonly body: string
}

/** What it does with a request. */
export type Behaviour = (received: Received) => Effect.Effect<GuardedHttpTest.Answer, GuardedHttpError>

export class Receiver extends Context.Service<Receiver, {
  /** Every request so far, whatever became of it. */
  readonly received: ReadonlyArray<Received>
  /** From now on. At first it answers 200. */
  readonly behave: (behaviour: Behaviour) => void
}>()("@stint/webhooks/testing/Receiver") {}

/** Answers with a status. */
export const answer = (status: number, headers: { readonly [name: string]: string } = {}): Behaviour => () =>
  Effect.succeed({ status, headers })

/** The receiver, and the client that leads to it, whatever the URL. */
export const layer: Layer.Layer<Receiver | GuardedHttp> = Layer.effectContext(Effect.gen(function*() {
  const received: Array<Received> = []
  let behaviour = answer(200)
  const context = yield* Layer.build(GuardedHttpTest.layer((url, { body, headers = {} }) =>
    Effect.gen(function*() {
      const request: Received = {
        at: yield* Clock.currentTimeMillis,
        url: url.href,
        headers,
        body: typeof body === "string" ? body : ""
      }
      received.push(request)
      return yield* behaviour(request)
    })
  ))
  return Context.add(context, Receiver, {
    received,
    behave: (next) => {
      behaviour = next
    }
  })
}))
