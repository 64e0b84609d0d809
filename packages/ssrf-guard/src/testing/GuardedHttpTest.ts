/**
 * A client without a network: a test says what each request is answered with.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { GuardedHttp, type Options } from "../GuardedHttp.ts"
import type { GuardedHttpError } from "../GuardedHttpError.ts"

/** What a request is answered with. */
export interface Answer {
  /** Default: 200. */
  readonly status?: number
  /** Names in lower case. Default: none. */
  readonly headers?: { readonly [name: string]: string }
  /** Default: empty. */
  readonly body?: Uint8Array | Stream.Stream<Uint8Array, GuardedHttpError>
}

/** Answers every request by this function. Limits and redirects are not looked at: what it says is what the caller gets. */
export const layer = (
  answer: (url: URL, options: Options) => Effect.Effect<Answer, GuardedHttpError>
): Layer.Layer<GuardedHttp> =>
  Layer.succeed(GuardedHttp, {
    request: (target, options = {}) => {
      const url = new URL(target)
      return Effect.map(answer(url, options), ({ body, headers = {}, status = 200 }) => ({
        status,
        headers,
        url,
        body: body === undefined ? Stream.empty : body instanceof Uint8Array ? Stream.succeed(body) : body
      }))
    }
  })
