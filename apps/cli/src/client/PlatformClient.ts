/**
 * The CLI's client. It makes typed calls to all three APIs and turns failures into messages.
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

/** The error of a command that has no key. */
export const keyMissing = new CliFailure({
  message: "No API key.",
  hint:
    "Run this command in the folder that contains the platform's data folder, as the user who started it, or set STINT_API_KEY. If the " +
    "key is lost: stint keys rotate admin"
})

/** Connects to `STINT_URL` with `STINT_API_KEY`, or to the platform on this machine with the operator's copy of its key. */
export const layer = Layer.effect(
  PlatformClient,
  Effect.gen(function*() {
    const url = yield* PlatformConfig.clientUrl
    const key = yield* AdminKey.find(yield* PlatformConfig.load)
    if (Option.isNone(key)) {
      return yield* keyMissing
    }
    const api = yield* HttpApiClient.make(Api, {
      baseUrl: url,
      transformClient: HttpClient.mapRequest(HttpClientRequest.setHeader("authorization", `Bearer ${Redacted.value(key.value)}`))
    })
    return PlatformClient.of({ url, api })
  })
).pipe(Layer.provide(FetchHttpClient.layer))

/** Fails with the message of a failed call: the platform's error and hint, or the connection error. */
const explain = (url: string) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, CliFailure, R> =>
  Effect.mapError(effect, (error) => {
    if (error instanceof CliFailure) return error
    if (Predicate.hasProperty(error, "error") && Predicate.isString(error.error)) {
      const hint = Predicate.hasProperty(error, "hint") && Predicate.isString(error.hint) ? error.hint : ""
      return new CliFailure({ message: error.error, hint })
    }
    if (Predicate.isTagged(error, "HttpClientError")) {
      return new CliFailure({
        message: `The platform at ${url} does not answer.`,
        hint: "Start it with `stint serve`, or set STINT_URL to its address."
      })
    }
    return new CliFailure({ message: `The platform at ${url} sent an invalid response: ${String(error)}`, hint: "" })
  })

/** Calls the platform. */
export const call = Effect.fnUntraced(function*<A, E, R>(
  use: (api: PlatformClient["Service"]["api"]) => Effect.Effect<A, E, R>
) {
  const { api, url } = yield* PlatformClient
  return yield* explain(url)(use(api))
})
