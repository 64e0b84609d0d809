/**
 * A client that needs no network. The test provides the responses.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { GuardedHttp, type Options } from "../GuardedHttp.ts"
import { GuardedHttpError } from "../GuardedHttpError.ts"
import * as RequestUrl from "../RequestUrl.ts"

/** A response. */
export interface Answer {
  /** Default: 200. */
  readonly status?: number
  /** Names in lower case. Default: none. */
  readonly headers?: { readonly [name: string]: string }
  /** Default: empty. */
  readonly body?: Uint8Array | Stream.Stream<Uint8Array, GuardedHttpError>
}

/** Responds to every request with this function. Does not apply limits or follow redirects: the caller gets the response unchanged. */
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
