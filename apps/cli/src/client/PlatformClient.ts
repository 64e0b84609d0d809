/**
 * The CLI's connection to a platform: typed calls of all three surfaces, with failures in words.
 */
import { Api } from "@stint/contract/Api"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import { CliFailure } from "../CliFailure.ts"
import * as AdminKey from "../config/AdminKey.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"

export class PlatformClient extends Context.Service<PlatformClient, {
  readonly url: string
  readonly api: HttpApiClient.ForApi<typeof Api>
}>()("@stint/cli/PlatformClient") {}

/** Connects to `STINT_URL` with `STINT_API_KEY`, or to the platform of this machine with the key that it keeps. */
export const layer = Layer.effect(
  PlatformClient,
  Effect.gen(function*() {
    const url = yield* PlatformConfig.clientUrl
    const key = yield* AdminKey.find(yield* PlatformConfig.load)
    if (Option.isNone(key)) {
      return yield* new CliFailure({
        message: "No API key.",
        hint:
          "Set STINT_API_KEY to the key that the platform printed when it started, or run this command where its data folder is."
      })
    }
    const api = yield* HttpApiClient.make(Api, {
      baseUrl: url,
      transformClient: HttpClient.mapRequest(HttpClientRequest.setHeader("authorization", `Bearer ${Redacted.value(key.value)}`))
    })
    return PlatformClient.of({ url, api })
  })
).pipe(Layer.provide(FetchHttpClient.layer))

/** What went wrong with a call, in words: the platform's own explanation, or how the connection failed. */
export const explain = (url: string) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, CliFailure, R> =>
  Effect.mapError(effect, (error) => {
    if (error instanceof CliFailure) return error
    if (Predicate.hasProperty(error, "error") && Predicate.isString(error.error)) {
      const hint = Predicate.hasProperty(error, "hint") && Predicate.isString(error.hint) ? error.hint : ""
      return new CliFailure({ message: error.error, hint })
    }
    if (Predicate.isTagged(error, "HttpClientError")) {
      return new CliFailure({
        message: `The platform at ${url} does not answer.`,
        hint: "Start it with `stint serve`, or set STINT_URL to where it runs."
      })
    }
    return new CliFailure({ message: `The platform at ${url} gave an answer that cannot be read: ${String(error)}`, hint: "" })
  })

/** Runs a call against the platform. */
export const call = Effect.fnUntraced(function*<A, E, R>(
  use: (api: PlatformClient["Service"]["api"]) => Effect.Effect<A, E, R>
) {
  const { api, url } = yield* PlatformClient
  return yield* explain(url)(use(api))
})
