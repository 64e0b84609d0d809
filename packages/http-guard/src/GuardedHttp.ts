/**
 * An HTTP client for untrusted URLs. It cannot be used to reach hosts inside the network (docs/spec/downloads.md#address-guard).
 *
 * ```
 *   URL --parse--> hop --resolve, check, pin--> answer --2xx..5xx--> status, headers, body (bounded)
 *                   ^                             |
 *                   +------- 3xx, at most 5 ------+   every hop is checked like the first one
 * ```
 *
 * It never uses a proxy, even if the environment specifies one, because a proxy would resolve the name again, without the guard.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Readable } from "node:stream"
import type { Pool } from "undici"
import * as AddressGuard from "./AddressGuard.ts"
import {
  ConnectionLost,
  GuardedHttpError,
  InvalidCertificate,
  Malformed,
  type Reason,
  TimedOut,
  TooLarge,
  TooManyRedirects,
  UnexpectedStatus,
  Unreachable
} from "./GuardedHttpError.ts"
import * as PinnedConnections from "./PinnedConnections.ts"
import * as Redirect from "./Redirect.ts"
import * as RequestUrl from "./RequestUrl.ts"
import * as Resolver from "./Resolver.ts"
import * as ResponseBody from "./ResponseBody.ts"
import { retryAfter } from "./RetryAfter.ts"

/** The request and its limits. */
export interface Options {
  /** Default: GET. */
  readonly method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** Connection headers (`Host`, `Content-Length`, ...) are dropped. */
  readonly headers?: { readonly [name: string]: string }
  readonly body?: string | Uint8Array
  /** The maximum size of the decoded body. Bytes. Default: 64 MiB, which fits into memory; raise it for bodies that are written to disk. */
  readonly maxBytes?: number
  /** The maximum number of redirects to follow. Default: 5. With 0, the first redirect is an error, as for webhooks. */
  readonly maxRedirects?: number
  /**
   * Whether a redirect to another origin is returned as the response instead of being followed, for callers that need its headers. Default: false.
   */
  readonly stopAtOtherOrigins?: boolean
  /** Whether a redirect may lead from https to http. Default: false, because anyone on the network path can forge the http response. */
  readonly allowDowngrade?: boolean
  /** Time limit from the request to the response headers. Milliseconds. Default: 30 s. */
  readonly headersTimeout?: number
  /** How long the connection may be silent during the body, not counting a slow reader. Milliseconds. Default: 30 s. */
  readonly idleTimeout?: number
  /**
   * Time limit for the whole request, including redirects, the body and a slow reader. Milliseconds. Default: 15 minutes. It stops a server
   * that keeps sending a byte every few seconds forever.
   */
  readonly totalTimeout?: number
}

/** A response of any status. */
export interface Response {
  readonly status: number
  /** Names in lower case; repeated headers are joined by `, `. Values are Latin-1, as in HTTP. */
  readonly headers: { readonly [name: string]: string }
  /** The URL of the response, after redirects. */
  readonly url: URL
  /**
   * The decoded body, which can be read only once. Nothing is read before the stream runs, and the stream ends when the scope of the
   * request closes.
   */
  readonly body: Stream.Stream<Uint8Array, GuardedHttpError>
}

/** Makes requests. */
export class GuardedHttp extends Context.Service<GuardedHttp, {
  /** Requests the URL; a response of any status is a success. Closing the scope closes the connection. */
  readonly request: (url: string | URL, options?: Options) => Effect.Effect<Response, GuardedHttpError, Scope.Scope>
}>()("@stint/http-guard/GuardedHttp") {}

/** The client's settings. */
export interface Settings extends AddressGuard.Rules {
  /** Time limit for resolving a name, and again for connecting. Milliseconds. Default: 10 s. */
  readonly connectTimeout?: number
}

const DEFAULTS = {
  maxBytes: 64 * 1024 * 1024,
  maxRedirects: 5,
  headersTimeout: 30_000,
  idleTimeout: 30_000,
  totalTimeout: 15 * 60_000
} as const

const CONNECT_TIMEOUT = 10_000

const USER_AGENT = "stint"

interface Limits {
  readonly maxBytes: number
  readonly headersTimeout: number
  readonly idleTimeout: number
  readonly totalTimeout: number
}

/** The codes of OpenSSL and Node for an invalid certificate. */
const UNTRUSTED = /CERT|^UNABLE_TO_|^HOSTNAME_MISMATCH$|^INVALID_(?:CA|PURPOSE)$|^PATH_LENGTH_EXCEEDED$/

/** Converts an error from the connection, the decoder or the counter. */
const reasonOf = (error: unknown, connectTimeout: number, limits: Limits): Reason => {
  if (error instanceof TooLarge || error instanceof TimedOut) return error
  const code = Predicate.isObject(error) && typeof error["code"] === "string" ? error["code"] : ""
  if (code === "UND_ERR_CONNECT_TIMEOUT") return new TimedOut({ phase: "connect", limit: connectTimeout })
  if (code === "UND_ERR_HEADERS_TIMEOUT") return new TimedOut({ phase: "headers", limit: limits.headersTimeout })
  if (code === "UND_ERR_BODY_TIMEOUT") return new TimedOut({ phase: "body", limit: limits.idleTimeout })
  if (code === "UND_ERR_HEADERS_OVERFLOW") return new Malformed({ detail: "its headers are too large" })
  const said = error instanceof Error ? error.message : String(error)
  if (error instanceof Error && error.name === "HTTPParserError") return new Malformed({ detail: said })
  if (
    code.startsWith("Z_") || code.startsWith("ERR_BROTLI") || code.startsWith("ERR__ERROR_FORMAT") || code.startsWith("ZSTD_")
  ) {
    return new Malformed({ detail: `its body cannot be decoded (${code})` })
  }
  if (UNTRUSTED.test(code)) return new InvalidCertificate({ detail: code })
  if (code === "EPROTO" || code.startsWith("ERR_SSL_")) return new Malformed({ detail: `no TLS (${code})` })
  if (code === "UND_ERR_INVALID_ARG") return new Malformed({ detail: said })
  return new Unreachable({ detail: code === "" || code.startsWith("UND_ERR_SOCKET") ? said : code })
}

/** Monotonic time for deadlines, which does not change when the wall clock is set. */
const monotonicMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1_000_000)

const flatten = (headers: { readonly [name: string]: string | ReadonlyArray<string> | undefined }): Response["headers"] =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value = ""]) => [name, typeof value === "string" ? value : value.join(", ")])
  )

/** The response of one hop, with an unread body. */
interface Answer {
  readonly status: number
  readonly headers: Response["headers"]
  readonly body: Readable
}

const make = Effect.fnUntraced(function*(settings: Settings) {
  const guard = yield* Effect.fromResult(AddressGuard.make(settings))
  const resolver = yield* Resolver.Resolver
  const connectTimeout = settings.connectTimeout ?? CONNECT_TIMEOUT
  const connections = yield* PinnedConnections.make({ guard, resolver, connectTimeout })

  /** Sends one hop over the pool. Closing the scope closes the connection. */
  const send = (pool: Pool, hop: Redirect.Hop, limits: Limits): Effect.Effect<Answer, Reason, Scope.Scope> =>
    Effect.acquireRelease(
      Effect.tryPromise({
        try: (signal) => {
          const authorization = RequestUrl.basicAuthorization(hop.url)
          return pool.request({
            path: `${hop.url.pathname}${hop.url.search}`,
            method: hop.method,
            headers: {
              ...(authorization === undefined ? {} : { authorization }),
              "user-agent": USER_AGENT,
              accept: "*/*",
              ...hop.headers,
              "accept-encoding": "identity"
            },
            body: hop.body ?? null,
            headersTimeout: limits.headersTimeout,
            bodyTimeout: limits.idleTimeout,
            signal
          })
        },
        catch: (error) => reasonOf(error, connectTimeout, limits)
      }),
      ({ body }) => Effect.sync(() => void body.destroy()),
      { interruptible: true }
    ).pipe(Effect.map(({ body, headers, statusCode }) => {
      // An aborted body emits an error, which would be uncaught without a listener.
      body.on("error", () => {})
      return { status: statusCode, headers: flatten(headers), body }
    }))

  /** The body as a stream that ends at the deadline. */
  const read = Effect.fnUntraced(function*(hop: Redirect.Hop, answer: Answer, limits: Limits, deadline: number) {
    const fail = (reason: Reason) => new GuardedHttpError({ url: RequestUrl.redactedUrl(hop.url), reason })
    if (hop.method === "HEAD" || answer.status === 204 || answer.status === 304) return Stream.empty
    const announced = Number(answer.headers["content-length"] ?? "0")
    if (announced > limits.maxBytes) return yield* fail(new TooLarge({ limit: limits.maxBytes, announced }))
    const body = ResponseBody.make(answer.body, ResponseBody.encodingOf(answer.headers), limits.maxBytes)
    if ("_tag" in body) return yield* fail(body)
    const left = deadline - (yield* monotonicMillis)
    yield* Effect.sleep(left).pipe(
      Effect.andThen(Effect.sync(() => answer.body.destroy(new TimedOut({ phase: "total", limit: limits.totalTimeout })))),
      Effect.forkScoped
    )
    return Stream.fromAsyncIterable(body.chunks, (error) => {
      const reason = reasonOf(error, connectTimeout, limits)
      return fail(
        reason._tag === "Unreachable" ? new ConnectionLost({ received: body.counter.received, detail: reason.detail }) : reason
      )
    })
  })

  const follow = Effect.fnUntraced(function*(first: Redirect.Hop, options: Options, limits: Limits, deadline: number) {
    const scope = yield* Scope.Scope
    const maxRedirects = options.maxRedirects ?? DEFAULTS.maxRedirects
    let hop = first
    for (let redirects = 0;; redirects++) {
      const attempt = yield* Scope.fork(scope)
      const { url } = hop
      const wrap = Effect.mapError((reason: Reason) => new GuardedHttpError({ url: RequestUrl.redactedUrl(url), reason }))
      const answer = yield* connections.to(url).pipe(
        Effect.flatMap((pool) => send(pool, hop, limits)),
        wrap,
        Scope.provide(attempt)
      )
      yield* Effect.annotateCurrentSpan({ "server.address": url.hostname, "http.response.status_code": answer.status })
      const isLast = !Redirect.isRedirect(answer.status) ||
        (options.stopAtOtherOrigins === true && URL.parse(answer.headers["location"] ?? "", url)?.origin !== url.origin)
      if (isLast) {
        const body = yield* Scope.provide(read(hop, answer, limits, deadline), attempt)
        const response: Response = { status: answer.status, headers: answer.headers, url, body }
        return response
      }
      yield* Scope.close(attempt, Exit.void)
      if (redirects === maxRedirects) return yield* wrap(Effect.fail(new TooManyRedirects({ limit: maxRedirects })))
      hop = yield* wrap(Effect.fromResult(
        Redirect.next(hop, answer.status, answer.headers["location"], options.allowDowngrade === true)
      ))
    }
  })

  return GuardedHttp.of({
    request: Effect.fn("GuardedHttp.request")(function*(target, options = {}) {
      const redactedUrl = RequestUrl.redactedUrl(target)
      const fail = (reason: Reason) => Effect.fail(new GuardedHttpError({ url: redactedUrl, reason }))
      const url = yield* Effect.catch(Effect.fromResult(RequestUrl.parse(target)), fail)
      const limits = { ...DEFAULTS, ...options }
      const deadline = (yield* monotonicMillis) + limits.totalTimeout
      const first: Redirect.Hop = {
        url,
        method: options.method ?? "GET",
        headers: Redirect.requestHeaders(options.headers ?? {}),
        body: options.body
      }
      return yield* Effect.timeoutOrElse(follow(first, options, limits, deadline), {
        duration: limits.totalTimeout,
        orElse: () => fail(new TimedOut({ phase: "total", limit: limits.totalTimeout }))
      })
    })
  })
})

/** Requests the URL. See {@link GuardedHttp}. */
export const request = (
  url: string | URL,
  options?: Options
): Effect.Effect<Response, GuardedHttpError, GuardedHttp | Scope.Scope> =>
  Effect.flatMap(GuardedHttp, (http) => http.request(url, options))

/** Returns a 2xx response unchanged. Otherwise fails with `UnexpectedStatus`, which contains the delay that the server requests. */
export const success = Effect.fnUntraced(function*(response: Response) {
  if (response.status >= 200 && response.status < 300) return response
  const now = yield* Clock.currentTimeMillis
  return yield* new GuardedHttpError({
    url: RequestUrl.redactedUrl(response.url),
    reason: new UnexpectedStatus({ status: response.status, retryAfter: retryAfter(response.headers["retry-after"], now) })
  })
})

/** The client with these settings and any resolver. Fails if a range cannot be parsed. */
export const layerWith = (settings: Settings): Layer.Layer<GuardedHttp, AddressGuard.InvalidRange, Resolver.Resolver> =>
  Layer.effect(GuardedHttp, make(settings))

/** The client for public addresses only. */
export const layer: Layer.Layer<GuardedHttp> = layerWith({}).pipe(Layer.provide(Resolver.layer), Layer.orDie)
