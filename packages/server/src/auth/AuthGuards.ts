/**
 * The guards of the surfaces.
 *
 * ```
 *   a request --> whose key?  --> scope?  --> endpoint?  --> how often?  --> the operation
 *                   401            403         403            429           jobs API and OpenAI route only
 * ```
 *
 * `Authorization` puts them before the operations of the `HttpApi`, `HotRoutes` before those that it serves itself.
 */
import { Forbidden, problemMembers, TooManyRequests, type Unauthorized } from "@stint/contract/Problem"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpEffect, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { PublicAddress } from "../http/PublicAddress.ts"
import { AccessKeys, type Caller, type KeyLookup } from "./AccessKeys.ts"
import * as AuthErrors from "./AuthErrors.ts"
import * as RateLimiter from "./RateLimiter.ts"

/** The key in an `Authorization` header: what follows `Bearer`, or all of it. */
const keyOf = (credential: Redacted.Redacted): Redacted.Redacted =>
  Redacted.make(Redacted.value(credential).replace(/^bearer\s+/i, "").trim())

const isMissing = (key: Redacted.Redacted): boolean => /^(?:bearer)?$/i.test(Redacted.value(key))

const opens = ({ endpoints }: Caller, endpoint: string): boolean => endpoints === "all" || endpoints.includes(endpoint)

/** Says how to come back with a key (RFC 9110, 11.6.1). */
const challenge = HttpEffect.appendPreResponseHandler((_, response) =>
  Effect.succeed(HttpServerResponse.setHeader(response, "www-authenticate", "Bearer realm=\"stint\""))
)

/** What the guards of callers and operators share: why a key is nobody's. */
const makeRejectKey = Effect.map(Effect.all({ keys: AccessKeys, address: PublicAddress }), ({ address, keys }) => {
  const { baseUrl } = address
  return Effect.fnUntraced(function*(
    presented: Exclude<KeyLookup, { readonly _tag: "Caller" }>,
    credential: Redacted.Redacted,
    surface: string,
    wanted: string
  ) {
    const key = keyOf(credential)
    if (presented._tag === "Unknown" && keys.hasWorkerKeyPrefix(key)) {
      return yield* new Forbidden(problemMembers(
        `A worker's key does not open the ${surface}.`,
        "Use a key with the scope for it, or the platform's API key. A worker's key is for job-take, job-done, job-stream, job-stop and " +
          `ping of its own endpoint. This is ${baseUrl}.`
      ))
    }
    yield* challenge
    if (presented._tag === "Ended") return yield* AuthErrors.inactiveKey(baseUrl, presented)
    return yield* isMissing(key)
      ? AuthErrors.missingKey(baseUrl, yield* HttpServerRequest.HttpServerRequest)
      : AuthErrors.unknownKey(baseUrl, Redacted.value(credential), wanted)
  })
})

/** Tells load balancers and dashboards how things are; it is asked often, and costs nothing. */
const UNLIMITED = "health"

/** `10 s`, `1 h`: the largest unit that says it exactly. */
const windowInWords = (millis: number): string => {
  const units = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"]] as const
  const [size, unit] = units.find(([size]) => millis % size === 0) ?? [1_000, "s"]
  return `${millis / size} ${unit}`
}

const tooMany = (caller: Caller, { endpoint, operation }: RateLimiter.Subject, refused: RateLimiter.Rejection) => {
  const { by, limit, retryAfter, why } = refused
  const name = caller.name.charAt(0).toUpperCase() + caller.name.slice(1)
  const what = why === "open"
    ? `have ${limit.concurrent} calls of ${operation} open at once on the endpoint "${endpoint}"`
    : `call ${operation} of the endpoint "${endpoint}" ${limit.limit} times in ${windowInWords(limit.perMs)}`
  return new TooManyRequests({
    ...problemMembers(
      `${name} may ${what}; this was one more.`,
      `Send the request again in ${retryAfter} s. For more, an operator changes the rateLimit of the ${by}.`
    ),
    retryAfter
  })
}

const isStreamed = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isSuccess(exit) && HttpServerResponse.isHttpServerResponse(exit.value) && exit.value.body._tag === "Stream"

const makeCaller = Effect.gen(function*() {
  const keys = yield* AccessKeys
  const refuse = yield* makeRejectKey
  const endpoints = yield* EndpointStore
  const limits = yield* RateLimiter.RateLimiter
  const { baseUrl } = yield* PublicAddress

  /** The call, counted; or its refusal. */
  const limited = <A, E, R>(
    respond: Effect.Effect<A, E, R>,
    caller: Caller,
    subject: RateLimiter.Subject,
    held: RateLimiter.Limits
  ) =>
    Effect.acquireUseRelease(
      Effect.sync(() => limits.acquire(subject, held)),
      (permit): Effect.Effect<A, E | TooManyRequests, R | HttpServerRequest.HttpServerRequest> => {
        const { refused } = permit
        const headers = refused === undefined ? permit.headers : { ...permit.headers, "retry-after": String(refused.retryAfter) }
        const tell = HttpEffect.appendPreResponseHandler((_, response) =>
          Effect.succeed(HttpServerResponse.setHeaders(response, headers))
        )
        return refused === undefined
          ? Effect.andThen(tell, respond)
          : Effect.andThen(tell, Effect.fail(tooMany(caller, subject, refused)))
      },
      (permit, exit) => {
        const release = Effect.sync(permit.release)
        // A body that streams goes on after this: the call is over when the request is.
        return isStreamed(exit) ? Effect.addFinalizer(() => release) : release
      }
    )

  return Effect.fnUntraced(function*<A, E, R>(
    respond: Effect.Effect<A, E, R>,
    credential: Redacted.Redacted,
    endpoint: string,
    operation: string
  ): Effect.fn.Return<
    A,
    E | Unauthorized | Forbidden | TooManyRequests,
    R | HttpServerRequest.HttpServerRequest | Scope.Scope
  > {
    const presented = yield* keys.identify(keyOf(credential))
    if (presented._tag !== "Caller") {
      return yield* refuse(presented, credential, "jobs API", "a key that opens this endpoint, or the platform's API key")
    }
    const { caller } = presented
    if (!caller.scopes.includes("admin")) {
      if (!caller.scopes.includes("jobs")) {
        const hint = `Use a key with the scope "jobs" that opens the endpoint "${excerpt(endpoint)}".`
        return yield* AuthErrors.wrongScope(baseUrl, caller, "jobs API", "jobs", hint)
      }
      if (!opens(caller, endpoint)) return yield* AuthErrors.wrongEndpoint(baseUrl, caller, endpoint)
    }
    // What fails or is missing here is the operation's to tell.
    const known = yield* Effect.orElseSucceed(endpoints.get(endpoint), () => undefined)
    if (known === undefined || (known.rateLimit === undefined && caller.rateLimit === undefined)) return yield* respond
    if (operation === UNLIMITED) return yield* respond
    return yield* limited(respond, caller, { key: caller.id, endpoint, operation }, {
      endpoint: known.rateLimit,
      key: caller.rateLimit
    })
  })
})

const makeOperator = Effect.gen(function*() {
  const keys = yield* AccessKeys
  const refuse = yield* makeRejectKey
  const { baseUrl } = yield* PublicAddress

  return Effect.fnUntraced(function*<A, E, R>(
    respond: Effect.Effect<A, E, R>,
    credential: Redacted.Redacted
  ): Effect.fn.Return<A, E | Unauthorized | Forbidden, R | HttpServerRequest.HttpServerRequest> {
    const presented = yield* keys.identify(keyOf(credential))
    if (presented._tag !== "Caller") {
      return yield* refuse(presented, credential, "control API", "the platform's API key, or a key with the scope \"admin\"")
    }
    const { caller } = presented
    if (caller.scopes.includes("admin")) return yield* respond
    const hint = "Use the platform's API key, or a key with the scope \"admin\"."
    return yield* AuthErrors.wrongScope(baseUrl, caller, "control API", "admin", hint)
  })
})

const makeWorker = Effect.gen(function*() {
  const keys = yield* AccessKeys
  const limits = yield* Limits
  const { baseUrl } = yield* PublicAddress

  const rejectionFor = Effect.fnUntraced(function*(credential: Redacted.Redacted, endpoint: string) {
    const key = keyOf(credential)
    const name = excerpt(endpoint)
    const hint =
      `Give the worker the variables that \`stint worker-env ${name}\` prints. Each endpoint has a worker key of its own.`
    if (keys.hasWorkerKeyPrefix(key)) {
      return new Forbidden(
        problemMembers(`This key is not a worker key of the endpoint "${name}".`, `${hint} This is ${baseUrl}.`)
      )
    }
    const presented = yield* keys.identify(key)
    if (presented._tag === "Caller") {
      const { caller } = presented
      if (!caller.scopes.includes("worker")) return AuthErrors.wrongScope(baseUrl, caller, "worker API", "worker", hint)
      return opens(caller, endpoint) ? undefined : AuthErrors.wrongEndpoint(baseUrl, caller, endpoint)
    }
    yield* challenge
    if (presented._tag === "Ended") return AuthErrors.inactiveKey(baseUrl, presented)
    if (isMissing(key)) return AuthErrors.missingKey(baseUrl, yield* HttpServerRequest.HttpServerRequest)
    const wanted = `the worker key of the endpoint "${name}" (\`stint worker-env ${name}\`)`
    return AuthErrors.unknownKey(baseUrl, Redacted.value(credential), wanted)
  })

  return Effect.fnUntraced(function*<A, E, R>(
    respond: Effect.Effect<A, E, R>,
    credential: Redacted.Redacted,
    endpoint: string
  ): Effect.fn.Return<A, E | Unauthorized | Forbidden, R | HttpServerRequest.HttpServerRequest> {
    const key = keyOf(credential)
    if (keys.hasWorkerKeyPrefix(key) && keys.isWorkerKeyOf(endpoint, key)) return yield* respond
    const refusal = yield* rejectionFor(credential, endpoint)
    if (refusal === undefined) return yield* respond
    return yield* Effect.delay(Effect.fail(refusal), limits.refusalWaitMs)
  })
})

const make = Effect.all({ caller: makeCaller, operator: makeOperator, worker: makeWorker })

/**
 * The guards: each runs what it is given, or fails with the refusal.
 *
 * - `caller`: who submits jobs and asks for them, on an endpoint, counted by operation.
 * - `operator`: who holds the admin scope.
 * - `worker`: who runs the jobs of an endpoint. A refusal is held back.
 */
export class AuthGuards extends Context.Service<AuthGuards, Effect.Success<typeof make>>()("@stint/server/AuthGuards") {}

/** The guards. Built once, whatever routes they stand before: what was called is counted here. */
export const layer: Layer.Layer<AuthGuards, never, AccessKeys | EndpointStore | PublicAddress> = Layer.effect(AuthGuards, make)
  .pipe(
    Layer.provide(RateLimiter.layer)
  )
