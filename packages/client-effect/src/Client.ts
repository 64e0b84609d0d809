/**
 * Calls endpoints, as Effects.
 *
 * ```ts
 * const thumbnail = yield* Client.endpoint(Thumbnail)
 * const { url } = yield* thumbnail.runSync({ url: photo, width: 64 })
 * ```
 *
 * Interrupting a wait does not touch the job, which is durable and goes on; `cancelOnInterrupt` cancels it, too.
 */
import {
  DEFAULT_TIMEOUTS,
  normalizeBaseUrl,
  randomIdempotencyKey,
  requestHeaders,
  type Settings
} from "@stint/client/DriverProtocol"
import type { ChunkOf, ElementOf, ErrorOf, HandlerLike, InputOf, OutputOf, ServicesOf } from "@stint/client/HandlerType"
import type { Json } from "@stint/contract/Json"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as EffectDriver from "./EffectDriver.ts"
import * as EndpointClient from "./EndpointClient.ts"
import * as HandlerCodec from "./HandlerCodec.ts"

export type { JobEvent } from "@stint/client/JobEventSubscription"
export { ClientError } from "./ClientError.ts"
export type { Endpoint, EventsOptions, JobHandle, RunOptions, WaitOptions } from "./EndpointClient.ts"
export { JobCancelled, JobFailed, type JobFailure, JobTimedOut } from "./JobFailure.ts"

/** A connection to a platform. It holds no resource. */
export class Client extends Context.Service<Client, {
  /** Where the platform is. */
  readonly baseUrl: string
  readonly settings: Settings
  readonly driver: EffectDriver.Driver
}>()("@stint/client-effect/Client") {}

/** Where the platform is, and how patient to be. The defaults and their reasons are those of `Patience` in `Wire.ts`. */
export interface Options {
  /** `http://127.0.0.1:4600`. A `/v2` at its end is taken off. */
  readonly baseUrl: string | URL
  /** Leave it out where a proxy adds it. */
  readonly apiKey?: Redacted.Redacted | string | undefined
  /** How long an answer may take, besides the time that it is held. Default 60 s. */
  readonly timeout?: Duration.Input | undefined
  /** How long the platform is asked to hold one waiting request, 1 s to 300 s. Default 25 s. */
  readonly wait?: Duration.Input | undefined
  /** How long a single call is tried again: 429, 503 and lost connections. Default 10 s. */
  readonly retryFor?: Duration.Input | undefined
  /** How long a wait for a result puts up with a platform that does not answer. Default 5 min. */
  readonly reconnectFor?: Duration.Input | undefined
  /**
   * Give every submission an idempotency key of its own, where it has none, so that one whose answer was lost is sent again. Default false,
   * because on a platform that ignores the header every try is a job. Stint honours it.
   */
  readonly idempotencyKeys?: boolean | undefined
}

const millisOr = (duration: Duration.Input | undefined, otherwise: number): number =>
  duration === undefined ? otherwise : Duration.toMillis(duration)

/** A client over an `HttpClient`. A `baseUrl` that is no address, or an `apiKey` that cannot be one, is a defect. */
export const make = (options: Options): Effect.Effect<Client["Service"], never, HttpClient.HttpClient> =>
  Effect.map(HttpClient.HttpClient, (http) => {
    const host = normalizeBaseUrl(options.baseUrl)
    const { apiKey } = options
    const settings: Settings = {
      host,
      headers: requestHeaders(Redacted.isRedacted(apiKey) ? Redacted.value(apiKey) : apiKey),
      decoders: EffectDriver.decoders,
      timeout: millisOr(options.timeout, DEFAULT_TIMEOUTS.timeout),
      wait: millisOr(options.wait, DEFAULT_TIMEOUTS.wait),
      retryFor: millisOr(options.retryFor, DEFAULT_TIMEOUTS.retryFor),
      reconnectFor: millisOr(options.reconnectFor, DEFAULT_TIMEOUTS.reconnectFor),
      newIdempotencyKey: options.idempotencyKeys === true ? randomIdempotencyKey : undefined
    }
    return { baseUrl: host, settings, driver: EffectDriver.make(http) }
  })

/** `fetch`, but a redirect is an answer: following one would turn a POST into a GET. */
const layerFetch = FetchHttpClient.layer.pipe(
  Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, { redirect: "manual", credentials: "omit", cache: "no-store" }))
)

/** A client over the `HttpClient` of the program: for its tracing, its pool, or a test's. */
export const layerNoDeps = (options: Options): Layer.Layer<Client, never, HttpClient.HttpClient> =>
  Layer.effect(Client, make(options))

/** A client over `fetch`. */
export const layer = (options: Options): Layer.Layer<Client> => Layer.provide(layerNoDeps(options), layerFetch)

/** Where the platform is, from `STINT_URL` (default `http://127.0.0.1:4600`), and its key, from `STINT_API_KEY`. */
export const config: Config.Config<{ readonly baseUrl: URL; readonly apiKey: Redacted.Redacted }> = Config.all({
  baseUrl: Config.URL("STINT_URL").pipe(Config.withDefault(new URL("http://127.0.0.1:4600"))),
  apiKey: Config.Redacted("STINT_API_KEY")
})

/** A client over `fetch`, from the environment: {@link config}. */
export const layerConfig: Layer.Layer<Client, Config.ConfigError> = Layer.unwrap(Effect.map(config, layer))

/**
 * An endpoint, typed by its handler: input is checked before it is sent, output and declared failures are decoded. `name`: where the
 * endpoint has another name than the handler.
 *
 * By name alone, it is an endpoint of JSON, or of what the caller says it is; nothing is checked then.
 */
export function endpoint<H extends HandlerLike>(
  handler: H,
  name?: string
): Effect.Effect<EndpointClient.Endpoint<InputOf<H>, OutputOf<H>, ChunkOf<H>, ErrorOf<H>, ServicesOf<H>>, never, Client>
export function endpoint(name: string): Effect.Effect<EndpointClient.Endpoint<Json, Json | undefined, Json>, never, Client>
export function endpoint<Input, Output, Chunk = ElementOf<Output>>(
  name: string
): Effect.Effect<EndpointClient.Endpoint<Input, Output, Chunk>, never, Client>
export function endpoint(
  of: string | HandlerLike,
  name?: string
): Effect.Effect<EndpointClient.Endpoint<never, unknown, unknown, unknown, unknown>, never, Client> {
  return Effect.map(Client, ({ driver, settings }) =>
    typeof of === "string"
      ? EndpointClient.make({ ...settings, endpoint: of }, driver, HandlerCodec.ofName<unknown, unknown, unknown>())
      : EndpointClient.make({ ...settings, endpoint: name ?? of.name }, driver, HandlerCodec.ofHandler(of)))
}
