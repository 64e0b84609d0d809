/**
 * Sessions of the web console: a cookie contains the key with which a user logged in, encrypted (docs/decisions/0037-web-console.md).
 *
 * ```
 *   POST /api/v1/session {"key": ...}  --key is valid--> a cookie with a random id, the end of the session and the key: AES-256-GCM
 *   GET /api/v1/...  with the cookie   --> the same request with `Authorization: Bearer KEY` --> guards, operations
 *   POST ...         with the cookie   --> the same, if `Origin` is this platform; otherwise 403
 *   DELETE /api/v1/session             --> the session ends
 * ```
 *
 * The guards see the key in every request, so its scopes, endpoints, rate limits and revocation apply as for any other client. The server keeps only the
 * ids of sessions that ended early, so every node accepts the session of another one, and a restart does not end it. The encryption key is derived from
 * the secret of the worker keys, which nodes share. A request that has an `Authorization` header is never changed.
 */
import * as SecretCipher from "@stint/secrets/SecretCipher"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Headers, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { randomBytes } from "node:crypto"
import { AccessKeys } from "../auth/AccessKeys.ts"
import { PROBLEM_CONTENT_TYPE, problemJson } from "../http/ProblemJson.ts"
import { PublicAddress } from "../http/PublicAddress.ts"
import * as EndedSessions from "./EndedSessions.ts"

/** How long a session lasts: a working day. A user logs in once per day, and a browser that was left open is logged out before the next day. */
export const SESSION_MILLIS = 12 * 3_600_000

/** The longest key of a session, in bytes of JSON. Browsers reject cookies of more than 4,096 bytes; encryption and base64 add 1,100 to these. */
export const MAX_KEY_BYTES = 2_800

const Sealed = Schema.fromJsonString(Schema.Struct({ id: Schema.String, expiresAt: Schema.Finite, key: Schema.String }))
const decodeSealed = Schema.decodeUnknownOption(Sealed)

/** What the encryption authenticates besides the session. */
const PURPOSE = "a session of the console"

interface Session extends EndedSessions.Session {
  readonly key: Redacted.Redacted
}

/** Browsers send the cookies of all ports of a host, so the name contains the port: two platforms on one machine do not log each other out. */
const cookieName = (host: string | undefined): string => {
  const port = /:(\d+)$/.exec(host ?? "")?.[1]
  return port === undefined ? "stint_session" : `stint_session_${port}`
}

/** The sealed session in a `Cookie` header, for a request to this host. */
const sealedIn = (cookies: string, host: string | undefined): string | undefined => {
  const start = `${cookieName(host)}=`
  return cookies.split(";").map((one) => one.trim()).find((one) => one.startsWith(start))?.slice(start.length)
}

type Request = HttpServerRequest.HttpServerRequest

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const { baseUrl } = yield* PublicAddress
  const publicOrigin = new URL(baseUrl).origin
  const seal = { bytes: (yield* AccessKeys).sessionKey }
  const ended = yield* EndedSessions.make

  const open = (sealed: string): Session | undefined => {
    const bytes = Buffer.from(sealed, "base64url")
    // Other texts may have the same bytes.
    if (bytes.toString("base64url") !== sealed) return undefined
    const session = Option.getOrUndefined(decodeSealed(SecretCipher.open(seal, PURPOSE, bytes.toString("base64"))))
    return session === undefined || session.expiresAt <= clock.currentTimeMillisUnsafe()
      ? undefined
      : { ...session, key: Redacted.make(session.key) }
  }

  /** The session of a cookie that is genuine and has not expired. */
  const sessionIn = ({ headers }: Request): Session | undefined => {
    const { cookie, host } = headers
    const sealed = cookie === undefined ? undefined : sealedIn(cookie, host)
    return sealed === undefined ? undefined : open(sealed)
  }

  /** A cookie for this request's host. `__Host-` names would require https, which a platform on a private network often lacks. */
  const cookie = ({ headers }: Request, value: string, seconds: number): string => {
    const isSecure = headers["origin"]?.startsWith("https:") === true || publicOrigin.startsWith("https:")
    return `${cookieName(headers["host"])}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${
      isSecure ? "; Secure" : ""
    }`
  }

  return {
    /** The request's session, if it has one that has not ended. */
    find: (request: Request): Session | undefined => {
      const session = sessionIn(request)
      return session === undefined || ended.has(session) ? undefined : session
    },
    /** Starts a session. Returns the `Set-Cookie` header. */
    open: (request: Request, key: Redacted.Redacted): string => {
      const session = {
        id: randomBytes(16).toString("base64url"),
        expiresAt: clock.currentTimeMillisUnsafe() + SESSION_MILLIS,
        key: Redacted.value(key)
      }
      const sealed = Buffer.from(SecretCipher.seal(seal, PURPOSE, JSON.stringify(session)), "base64").toString("base64url")
      return cookie(request, sealed, SESSION_MILLIS / 1_000)
    },
    /** Ends the request's session, if there is one. Returns the `Set-Cookie` header that removes the cookie. */
    close: (request: Request): string => {
      const session = sessionIn(request)
      if (session !== undefined) ended.end(session)
      return cookie(request, "", 0)
    },
    /** The guards have rejected the key of the session. */
    reject: ended.reject,
    /**
     * Why a request must not use a session; undefined if it may. SameSite=Strict already withholds the cookie from other sites, but pages on other
     * ports of this host are the same site. Browsers send `Origin` with every request that can change something, and `Sec-Fetch-Site` over https and
     * on loopback.
     */
    foreignOrigin: ({ headers, method }: Request): string | undefined => {
      const { host, origin, "sec-fetch-site": site } = headers
      if (site !== undefined && site !== "same-origin" && site !== "none") return origin ?? `a ${site} page`
      if (origin === undefined) return method === "GET" || method === "HEAD" ? undefined : "no origin"
      const isOwn = origin === publicOrigin || origin === `http://${host}` || origin === `https://${host}`
      return isOwn ? undefined : origin
    }
  }
})

/** The sessions of the platform's nodes. */
export class BrowserSessions
  extends Context.Service<BrowserSessions, Effect.Success<typeof make>>()("@stint/server/BrowserSessions")
{}

/** The sessions. */
export const layer: Layer.Layer<BrowserSessions, never, PublicAddress | AccessKeys> = Layer.effect(BrowserSessions, make)

/** 403: the request comes from a page of another origin. */
export const foreignOriginResponse = (origin: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(
    problemJson({
      status: 403,
      title: "Forbidden",
      type: "forbidden",
      error: `The console's session cannot be used by ${origin.slice(0, 200)}.`,
      hint:
        "Open the console at the platform's own address. Behind a proxy, let the proxy forward the Host header, or set STINT_PUBLIC_URL to the address " +
        "that browsers use. Programs send the header `Authorization: Bearer KEY` instead of a cookie."
    }),
    { status: 403, contentType: PROBLEM_CONTENT_TYPE }
  )

/** Whether the request has a session cookie instead of a key. */
export const IsConsoleSession: Context.Reference<boolean> = Context.Reference<boolean>("@stint/server/IsConsoleSession", {
  defaultValue: () => false
})

/**
 * Replaces a session's cookie with its key, before the guards and the fast path. For a request without a cookie, this only reads one header. After a
 * 401, because the key was revoked, rotated, or has expired, the cookie is ignored for a minute.
 */
export const layerMiddleware = HttpRouter.middleware(
  Effect.map(BrowserSessions, (sessions) => (operation) =>
    Effect.withFiber((fiber) => {
      const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
      if (request.headers["cookie"] === undefined || request.headers["authorization"] !== undefined) return operation
      const session = sessions.find(request)
      if (session === undefined) return operation
      const foreign = sessions.foreignOrigin(request)
      if (foreign !== undefined) return Effect.succeed(foreignOriginResponse(foreign))
      const headers = Headers.set(request.headers, "authorization", `Bearer ${Redacted.value(session.key)}`)
      return operation.pipe(
        Effect.provideService(HttpServerRequest.HttpServerRequest, request.modify({ headers })),
        Effect.provideService(IsConsoleSession, true),
        Effect.map((response) => {
          if (response.status === 401) sessions.reject(session)
          return response
        })
      )
    })),
  { global: true }
)
