/**
 * Calls endpoints with Effect.
 *
 * ```ts
 * const thumbnail = yield* Client.endpoint(Thumbnail)
 * const { url } = yield* thumbnail.runSync({ url: photo, width: 64 })
 * ```
 *
 * Interrupting a wait does not affect the job, which continues; `cancelOnInterrupt` cancels it.
 */
import {
  DEFAULT_TIMEOUTS,
  normalizeBaseUrl,
  randomIdempotencyKey,
  requestHeaders,
  type Settings
} from "@stint/client/ClientSettings"
import type { ElementOf } from "@stint/client/HandlerType"
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
import type { ChunkOf, ErrorOf, InputOf, OutputOf, SchemaHandler, ServicesOf } from "./SchemaHandler.ts"

export { ClientError } from "./ClientError.ts"
/** @public */
export type { Endpoint, EventsOptions, JobHandle, RunOptions, WaitOptions } from "./EndpointClient.ts"
export { JobCancelled, JobFailed, type JobFailure, JobTimedOut } from "./JobFailure.ts"

/** A connection to a platform. It holds no resources. */
export class Client extends Context.Service<Client, {
  /** The platform's URL. */
  readonly baseUrl: string
  readonly settings: Settings
  readonly driver: EffectDriver.Driver
}>()("@stint/client-effect/Client") {}

/** The platform's URL, the key and the timeouts. `Timeouts` in `ClientSettings.ts` explains the defaults. */
export interface Options {
  /** `http://127.0.0.1:4600`. A `/v2` at the end is removed. */
  readonly baseUrl: string | URL
  /** Omit the key if a proxy adds it. */
  readonly apiKey?: Redacted.Redacted | string | undefined
  /** How long a response may take in addition to `wait`. Default 60 s. */
  readonly timeout?: Duration.Input | undefined
  /** How long the platform holds one long poll, 1 s to 300 s. Default 25 s. */
  readonly wait?: Duration.Input | undefined
  /** How long a single call is retried after 429, 503 and lost connections. Default 10 s. */
  readonly retryFor?: Duration.Input | undefined
  /** How long a wait for a result tolerates an unreachable platform. Default 5 min. */
  readonly reconnectFor?: Duration.Input | undefined
  /**
   * Generates an idempotency key for every submission without one, so that the client can repeat a submission whose response was lost.
   * Default false, because RunPod ignores the header and would create a job for each attempt.
   */
  readonly idempotencyKeys?: boolean | undefined
}

const millisOr = (duration: Duration.Input | undefined, otherwise: number): number =>
  duration === undefined ? otherwise : Duration.toMillis(duration)

/** Creates a client with an `HttpClient`. Dies if `baseUrl` is not a URL or `apiKey` contains invalid characters. */
const make = (options: Options): Effect.Effect<Client["Service"], never, HttpClient.HttpClient> =>
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

/** `fetch` without redirects: following one would turn a POST into a GET. */
const layerFetch = FetchHttpClient.layer.pipe(
  Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, { redirect: "manual", credentials: "omit", cache: "no-store" }))
)

/** A client with the program's own `HttpClient`. */
export const layerNoDeps = (options: Options): Layer.Layer<Client, never, HttpClient.HttpClient> =>
  Layer.effect(Client, make(options))

/** A client with `fetch`. */
export const layer = (options: Options): Layer.Layer<Client> => Layer.provide(layerNoDeps(options), layerFetch)

/** Reads the platform's URL from `STINT_URL` (default `http://127.0.0.1:4600`) and the key from `STINT_API_KEY`. */
const config: Config.Config<{ readonly baseUrl: URL; readonly apiKey: Redacted.Redacted }> = Config.all({
  baseUrl: Config.URL("STINT_URL").pipe(Config.withDefault(new URL("http://127.0.0.1:4600"))),
  apiKey: Config.Redacted("STINT_API_KEY")
})

/** A client with `fetch`, configured by the environment: {@link config}. */
export const layerConfig: Layer.Layer<Client, Config.ConfigError> = Layer.unwrap(Effect.map(config, layer))

/**
 * An endpoint that is typed by its handler: the client encodes the input, and decodes outputs and declared failures. `name` overrides the
 * handler's name.
 *
 * With a name instead of a handler, the input and output are JSON or have the given types, and nothing is validated.
 */
export function endpoint<H extends SchemaHandler>(
  handler: H,
  name?: string
): Effect.Effect<EndpointClient.Endpoint<InputOf<H>, OutputOf<H>, ChunkOf<H>, ErrorOf<H>, ServicesOf<H>>, never, Client>
export function endpoint(name: string): Effect.Effect<EndpointClient.Endpoint<Json, Json | undefined, Json>, never, Client>
export function endpoint<Input, Output, Chunk = ElementOf<Output>>(
  name: string
): Effect.Effect<EndpointClient.Endpoint<Input, Output, Chunk>, never, Client>
export function endpoint(
  of: string | SchemaHandler,
  name?: string
): Effect.Effect<EndpointClient.Endpoint<never, unknown, unknown, unknown, unknown>, never, Client> {
  return Effect.map(Client, ({ driver, settings }) =>
    typeof of === "string"
      ? EndpointClient.make({ ...settings, endpoint: of }, driver, HandlerCodec.ofName<unknown, unknown, unknown>())
      : EndpointClient.make({ ...settings, endpoint: name ?? of.name }, driver, HandlerCodec.ofHandler(of)))
}
