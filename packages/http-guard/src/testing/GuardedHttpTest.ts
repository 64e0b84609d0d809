/**
 * A client without a network: a test says what each request is answered with.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { GuardedHttp, type Options } from "../GuardedHttp.ts"
import { GuardedHttpError } from "../GuardedHttpError.ts"
import * as RequestUrl from "../RequestUrl.ts"

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
    request: Effect.fnUntraced(function*(target, options = {}) {
      const url = yield* Effect.mapError(
        Effect.fromResult(RequestUrl.parse(target)),
        (reason) => new GuardedHttpError({ url: RequestUrl.redactedUrl(target), reason })
      )
      const { body, headers = {}, status = 200 } = yield* answer(url, options)
      return {
        status,
        headers,
        url,
        body: body === undefined ? Stream.empty : body instanceof Uint8Array ? Stream.succeed(body) : body
      }
    })
  })
