/**
 * The guards of the three APIs.
 *
 * ```
 *   a request --> valid key?  --> scope?  --> endpoint?  --> exists?  --> rate limit?  --> the operation
 *                   401            403         403            404          429             rate limit: jobs API and OpenAI route only
 * ```
 *
 * `AuthMiddleware` runs them before the operations of the `HttpApi`; `FastPath` runs them before the operations that it serves.
 */
import type { JobsScope, KeyScope } from "@stint/contract/AccessKey"
import type { Endpoint } from "@stint/contract/Endpoint"
import { CALLER_SCOPES, GUARD_SCOPES } from "@stint/contract/Permission"
import {
  type EndpointNotFound,
  Forbidden,
  problemMembers,
  TooManyRequests,
  type Unauthorized,
  type Unavailable
} from "@stint/contract/Problem"
import type { EndpointStore } from "@stint/store/EndpointStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpEffect, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { setRetryAfter } from "../http/BodyAdmission.ts"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { PublicAddress } from "../http/PublicAddress.ts"
import { endpointFinder } from "../http/QueueProblems.ts"
import { AccessKeys, type Caller, type KeyLookup, type WorkerIdentity } from "./AccessKeys.ts"
import * as AuthErrors from "./AuthErrors.ts"
import * as AuthFailures from "./AuthFailures.ts"
import * as RateLimiter from "./RateLimiter.ts"

/** The key in an `Authorization` header: the text after `Bearer`, or the whole value. */
export const keyOf = (credential: Redacted.Redacted): Redacted.Redacted =>
  Redacted.make(Redacted.value(credential).replace(/^bearer\s+/i, "").trim())

const isMissing = (key: Redacted.Redacted): boolean => /^(?:bearer)?$/i.test(Redacted.value(key))

const hasOne = ({ scopes }: Caller, accepted: ReadonlyArray<KeyScope>): boolean =>
  accepted.some((scope) => scopes.includes(scope))

const allowsEndpoint = ({ endpoints }: Caller, endpoint: string): boolean => endpoints === "all" || endpoints.includes(endpoint)

/** Adds the challenge that a 401 must carry (RFC 9110, 11.6.1). */
const challenge = HttpEffect.appendPreResponseHandler((_, response) =>
  Effect.succeed(HttpServerResponse.setHeader(response, "www-authenticate", "Bearer realm=\"stint\""))
)

/** Counts a request with a wrong key, and fails when its address has sent too many. All guards share one count. */
const makeCountFailure = Effect.gen(function*() {
  const failures = yield* AuthFailures.make((yield* Limits).authFailures)
  return Effect.fnUntraced(function*(key: Redacted.Redacted) {
    if (isMissing(key)) return
    const { remoteAddress } = yield* HttpServerRequest.HttpServerRequest
    const retryAfter = yield* failures(Option.getOrElse(remoteAddress, () => "unknown"))
    if (retryAfter === 0) return
    yield* setRetryAfter(retryAfter)
    return yield* new TooManyRequests({
      ...problemMembers(
        "Your address sent too many requests with wrong keys.",
        `Send a valid key, which works at once, or wait ${retryAfter} s. Check that the URL and the key belong to the same platform.`
      ),
      retryAfter
    })
  })
})

/** Rejects a key that belongs to no caller. Shared by the guards for callers and operators. */
const makeRejectKey = (countFailure: Effect.Success<typeof makeCountFailure>) =>
  Effect.map(Effect.all({ keys: AccessKeys, address: PublicAddress }), ({ address, keys }) => {
    const { baseUrl } = address
    return Effect.fnUntraced(function*(
      presented: Exclude<KeyLookup, { readonly _tag: "Caller" }>,
      credential: Redacted.Redacted,
      surface: string,
      wanted: string
    ) {
      const key = keyOf(credential)
      yield* countFailure(key)
      if (presented._tag === "Unknown" && keys.hasWorkerKeyPrefix(key)) {
        return yield* new Forbidden(problemMembers(
          `A worker key cannot use the ${surface}.`,
          "Use a key with the required scope, or the platform's API key. A worker key is valid for job-take, job-done, job-stream, job-stop " +
            `and ping of its own endpoint. This is ${baseUrl}.`
        ))
      }
      yield* challenge
      if (presented._tag === "Inactive") return yield* AuthErrors.inactiveKey(baseUrl, presented)
      return yield* isMissing(key)
        ? AuthErrors.missingKey(baseUrl, yield* HttpServerRequest.HttpServerRequest)
        : AuthErrors.unknownKey(baseUrl, Redacted.value(credential), wanted)
    })
  })

/** Exempt from rate limits, because load balancers and dashboards poll it often and it is cheap. */
const UNLIMITED = "health"

/** `10 s`, `1 h`: the largest unit that is exact. */
const windowInWords = (millis: number): string => {
  const units = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"]] as const
  const [size, unit] = units.find(([size]) => millis % size === 0) ?? [1_000, "s"]
  return `${millis / size} ${unit}`
}

const tooMany = (caller: Caller, { endpoint, operation }: RateLimiter.Subject, rejection: RateLimiter.Rejection) => {
  const { by, limit, retryAfter, why } = rejection
  const name = caller.name.charAt(0).toUpperCase() + caller.name.slice(1)
  const what = why === "open"
    ? `have at most ${limit.concurrent} open ${operation} ${
      limit.concurrent === 1 ? "call" : "calls"
    } on the endpoint "${endpoint}"`
    : `call ${operation} on the endpoint "${endpoint}" at most ${limit.limit} times in ${windowInWords(limit.perMs)}`
  return new TooManyRequests({
    ...problemMembers(
      `${name} may ${what}; this call exceeds the limit.`,
      `Send the request again in ${retryAfter} s. An operator can raise the rateLimit of the ${by}.`
    ),
    retryAfter
  })
}

const isStreamed = (exit: Exit.Exit<unknown, unknown>): boolean =>
  Exit.isSuccess(exit) && HttpServerResponse.isHttpServerResponse(exit.value) && exit.value.body._tag === "Stream"

type RejectKey = Effect.Success<ReturnType<typeof makeRejectKey>>

/** The caller to whom a key belongs. Shared by the guards of operators, readers and viewers. */
const makeIdentify = (rejectKey: RejectKey) =>
  Effect.map(AccessKeys, (keys) =>
    Effect.fnUntraced(function*(credential: Redacted.Redacted, surface: string, wanted: string) {
      const presented = yield* keys.identify(keyOf(credential))
      return presented._tag === "Caller" ? presented.caller : yield* rejectKey(presented, credential, surface, wanted)
    }))

type Identify = Effect.Success<ReturnType<typeof makeIdentify>>

/** A caller's call behind its guard. The guards of frequent calls have no generators: see docs/decisions/0014-fast-path.md#few-steps. */
type Guarded<A, E, R> = Effect.Effect<
  A,
  E | Unauthorized | Forbidden | EndpointNotFound | Unavailable | TooManyRequests,
  R | HttpServerRequest.HttpServerRequest | Scope.Scope
>

const makeCaller = (rejectKey: RejectKey) =>
  Effect.gen(function*() {
    const keys = yield* AccessKeys
    const findEndpoint = yield* endpointFinder
    const limiter = yield* RateLimiter.RateLimiter
    const { baseUrl } = yield* PublicAddress

    /** Runs the call if it is within the limits, and releases its permit when the call has ended. */
    const limited = <A, E, R>(
      respond: Effect.Effect<A, E, R>,
      caller: Caller,
      subject: RateLimiter.Subject,
      applicable: RateLimiter.Limits
    ) =>
      Effect.acquireUseRelease(
        Effect.sync(() => limiter.acquire(subject, applicable)),
        (permit): Effect.Effect<A, E | TooManyRequests, R | HttpServerRequest.HttpServerRequest> => {
          const { rejection } = permit
          const headers = rejection === undefined
            ? permit.headers
            : { ...permit.headers, "retry-after": String(rejection.retryAfter) }
          const addHeaders = HttpEffect.appendPreResponseHandler((_, response) =>
            Effect.succeed(HttpServerResponse.setHeaders(response, headers))
          )
          return rejection === undefined
            ? Effect.andThen(addHeaders, respond)
            : Effect.andThen(addHeaders, Effect.fail(tooMany(caller, subject, rejection)))
        },
        (permit, exit) => {
          const release = Effect.sync(permit.release)
          // A streamed body is still being sent after this point, so the call ends only when its request ends.
          return isStreamed(exit) ? Effect.addFinalizer(() => release) : release
        }
      )

    const wrongScope = (caller: Caller, id: string, operation: string, scope: JobsScope): Forbidden => {
      // A key without any scope of the jobs API most likely belongs to another API.
      const hasPart = caller.scopes.some((one) => one.startsWith("jobs:"))
      const hint = `Use a key with the scope "${hasPart ? scope : "jobs"}" that is valid for the endpoint "${excerpt(id)}".`
      return hasPart
        ? AuthErrors.wrongScope(baseUrl, caller, `operation "${operation}"`, scope, hint)
        : AuthErrors.wrongScope(baseUrl, caller, "jobs API", "jobs", hint)
    }

    return <A, E, R>(
      respond: (endpoint: Endpoint, caller: Caller) => Effect.Effect<A, E, R>,
      credential: Redacted.Redacted,
      id: string,
      operation: string,
      scope: JobsScope
    ): Guarded<A, E, R> =>
      Effect.flatMapEager(keys.identify(keyOf(credential)), (presented): Guarded<A, E, R> => {
        if (presented._tag !== "Caller") {
          const wanted = "a key that is valid for this endpoint, or the platform's API key"
          return rejectKey(presented, credential, "jobs API", wanted)
        }
        const { caller } = presented
        if (!hasOne(caller, CALLER_SCOPES[scope])) return Effect.fail(wrongScope(caller, id, operation, scope))
        if (!allowsEndpoint(caller, id)) return Effect.fail(AuthErrors.wrongEndpoint(baseUrl, caller, id))
        return Effect.flatMap(findEndpoint(id, caller.endpoints === "all"), (endpoint): Guarded<A, E, R> => {
          const limits = { endpoint: endpoint.rateLimit, key: caller.rateLimit }
          return operation === UNLIMITED || (limits.endpoint === undefined && limits.key === undefined)
            ? respond(endpoint, caller)
            : limited(respond(endpoint, caller), caller, { key: caller.id, endpoint: id, operation }, limits)
        })
      })
  })

const makeOperator = (identify: Identify) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* PublicAddress

    return Effect.fnUntraced(function*<A, E, R>(
      respond: (caller: Caller) => Effect.Effect<A, E, R>,
      credential: Redacted.Redacted,
      scope: "admin" | "deploy"
    ): Effect.fn.Return<A, E | Unauthorized | Forbidden | TooManyRequests, R | HttpServerRequest.HttpServerRequest> {
      const wanted = `the platform's API key, or a key with the scope ${scope === "admin" ? `"admin"` : `"deploy" or "admin"`}`
      const surface = scope === "admin" ? "control API of keys" : "control API"
      const caller = yield* identify(credential, surface, wanted)
      if (hasOne(caller, GUARD_SCOPES[scope === "admin" ? "owner" : "operator"])) return yield* respond(caller)
      return yield* AuthErrors.wrongScope(baseUrl, caller, surface, scope, `Use ${wanted}.`)
    })
  })

const makeViewer = (identify: Identify) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* PublicAddress
    const wanted = "a key with the scope \"jobs:read\", or the platform's API key"

    return Effect.fnUntraced(function*<A, E, R>(
      respond: (caller: Caller) => Effect.Effect<A, E, R>,
      credential: Redacted.Redacted,
      surface: string,
      endpoint?: string
    ): Effect.fn.Return<A, E | Unauthorized | Forbidden | TooManyRequests, R | HttpServerRequest.HttpServerRequest> {
      const caller = yield* identify(credential, surface, wanted)
      if (!hasOne(caller, GUARD_SCOPES.viewer)) {
        return yield* AuthErrors.wrongScope(baseUrl, caller, surface, "jobs:read", `Use ${wanted}.`)
      }
      if (endpoint !== undefined && !allowsEndpoint(caller, endpoint)) {
        return yield* AuthErrors.wrongEndpoint(baseUrl, caller, endpoint)
      }
      return yield* respond(caller)
    })
  })

const makeManager = (identify: Identify) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* PublicAddress
    const wanted = "a key with the scope \"jobs:manage\", or the platform's API key"

    return Effect.fnUntraced(function*<A, E, R>(
      respond: (caller: Caller) => Effect.Effect<A, E, R>,
      credential: Redacted.Redacted,
      surface: string
    ): Effect.fn.Return<A, E | Unauthorized | Forbidden | TooManyRequests, R | HttpServerRequest.HttpServerRequest> {
      const caller = yield* identify(credential, surface, wanted)
      if (hasOne(caller, GUARD_SCOPES.manager)) return yield* respond(caller)
      return yield* AuthErrors.wrongScope(baseUrl, caller, surface, "jobs:manage", `Use ${wanted}.`)
    })
  })

const makeReader = (identify: Identify) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* PublicAddress
    const wanted = "a key with the scope \"jobs:read\" for all endpoints, or the platform's API key"

    return Effect.fnUntraced(function*<A, E, R>(
      respond: Effect.Effect<A, E, R>,
      credential: Redacted.Redacted,
      surface: string
    ): Effect.fn.Return<A, E | Unauthorized | Forbidden | TooManyRequests, R | HttpServerRequest.HttpServerRequest> {
      const caller = yield* identify(credential, surface, wanted)
      const isReader = hasOne(caller, GUARD_SCOPES.viewer)
      if (isReader && caller.endpoints === "all") return yield* respond
      return yield* (isReader
        ? AuthErrors.notAllEndpoints(baseUrl, caller, surface)
        : AuthErrors.wrongScope(baseUrl, caller, surface, "jobs:read", `Use ${wanted}.`))
    })
  })

const makeAgent = (identify: Identify) =>
  Effect.gen(function*() {
    const { baseUrl } = yield* PublicAddress
    const wanted = "a key with the scope \"agent\" (`stint keys create NAME --scope agent --all-endpoints`)"

    return Effect.fnUntraced(function*<A, E, R>(
      respond: (caller: Caller) => Effect.Effect<A, E, R>,
      credential: Redacted.Redacted
    ): Effect.fn.Return<A, E | Unauthorized | Forbidden | TooManyRequests, R | HttpServerRequest.HttpServerRequest> {
      const caller = yield* identify(credential, "API of agents", wanted)
      if (hasOne(caller, GUARD_SCOPES.agent)) return yield* respond(caller)
      return yield* AuthErrors.wrongScope(baseUrl, caller, "API of agents", "agent", `Use ${wanted}.`)
    })
  })

const makeWorker = (countFailure: Effect.Success<typeof makeCountFailure>) =>
  Effect.gen(function*() {
    const keys = yield* AccessKeys
    const limits = yield* Limits
    const { baseUrl } = yield* PublicAddress

    const rejectionFor = Effect.fnUntraced(function*(credential: Redacted.Redacted, endpoint: string) {
      const key = keyOf(credential)
      const name = excerpt(endpoint)
      const hint = `Give the worker the variables that \`stint worker-env ${name}\` prints. Each endpoint has its own worker key.`
      if (keys.hasWorkerKeyPrefix(key)) {
        yield* countFailure(key)
        return new Forbidden(
          problemMembers(
            `This key is not a worker key of the endpoint "${name}", or it is the key of another worker.`,
            `${hint} A worker that the platform started has a key that is valid for its own worker id only. This is ${baseUrl}.`
          )
        )
      }
      const presented = yield* keys.identify(key)
      if (presented._tag === "Caller") {
        const { caller } = presented
        if (!hasOne(caller, GUARD_SCOPES.worker)) return AuthErrors.wrongScope(baseUrl, caller, "worker API", "worker", hint)
        return allowsEndpoint(caller, endpoint) ? undefined : AuthErrors.wrongEndpoint(baseUrl, caller, endpoint)
      }
      yield* countFailure(key)
      yield* challenge
      if (presented._tag === "Inactive") return AuthErrors.inactiveKey(baseUrl, presented)
      if (isMissing(key)) return AuthErrors.missingKey(baseUrl, yield* HttpServerRequest.HttpServerRequest)
      const wanted = `the worker key of the endpoint "${name}" (\`stint worker-env ${name}\`)`
      return AuthErrors.unknownKey(baseUrl, Redacted.value(credential), wanted)
    })

    return <A, E, R>(
      respond: (identity: WorkerIdentity) => Effect.Effect<A, E, R>,
      credential: Redacted.Redacted,
      endpoint: string,
      worker: string
    ): Effect.Effect<A, E | Unauthorized | Forbidden | TooManyRequests, R | HttpServerRequest.HttpServerRequest> => {
      const key = keyOf(credential)
      const identity = keys.hasWorkerKeyPrefix(key) ? keys.identifyWorker(endpoint, worker, key) : undefined
      if (identity !== undefined) return respond(identity)
      return Effect.flatMap(
        Effect.tapError(rejectionFor(credential, endpoint), () => Effect.sleep(limits.refusalWaitMs)),
        (rejection): Effect.Effect<A, E | Unauthorized | Forbidden, R> =>
          rejection === undefined ? respond("endpoint") : Effect.delay(Effect.fail(rejection), limits.refusalWaitMs)
      )
    }
  })

const make = Effect.gen(function*() {
  const countFailure = yield* makeCountFailure
  const rejectKey = yield* makeRejectKey(countFailure)
  const identify = yield* makeIdentify(rejectKey)
  return yield* Effect.all({
    agent: makeAgent(identify),
    caller: makeCaller(rejectKey),
    manager: makeManager(identify),
    operator: makeOperator(identify),
    reader: makeReader(identify),
    viewer: makeViewer(identify),
    worker: makeWorker(countFailure)
  })
})

/**
 * The guards. Each runs the given effect, or fails with a problem.
 *
 * - `agent`: requires a key with the scope `agent`, which no other scope includes.
 * - `caller`: requires a key with the operation's scope that is valid for the endpoint. Looks up the endpoint, passes it and the caller
 *   to the effect, and applies rate limits per operation.
 * - `manager`: requires a key that can change jobs. Passes the caller to the effect, which must respect the endpoints of the key.
 * - `reader`: requires a key that can read the jobs of all endpoints.
 * - `viewer`: requires a key that can read jobs or manage endpoints, and that is valid for the endpoint if one is given. Passes the caller to
 *   the effect.
 * - `operator`: requires the scope `admin`, or `deploy` for operations that do not manage keys. Passes the caller to the effect.
 * - `worker`: requires a worker key for the endpoint or for this worker, and tells the effect which of the two it is. Delays its errors,
 *   because SDKs retry at once.
 */
export class AuthGuards extends Context.Service<AuthGuards, Effect.Success<typeof make>>()("@stint/server/AuthGuards") {}

/** The guards. All routes share one instance, because it contains the rate limit counters. */
export const layer: Layer.Layer<AuthGuards, never, AccessKeys | EndpointStore | PublicAddress> = Layer.effect(AuthGuards, make)
  .pipe(
    Layer.provide(RateLimiter.layer)
  )
