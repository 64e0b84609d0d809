/**
 * Sessions of the web console: a cookie identifies the key with which a user logged in (docs/decisions/0037-web-console.md).
 *
 * ```
 *   POST /api/v1/session {"key": ...}  --key is valid--> a random id in a cookie; this process keeps id -> key
 *   GET /api/v1/...  with the cookie   --> the same request with `Authorization: Bearer KEY` --> guards, operations
 *   POST ...         with the cookie   --> the same, if `Origin` is this platform; otherwise 403
 *   DELETE /api/v1/session             --> the session ends
 * ```
 *
 * The guards see the key in every request, so its scopes, endpoints, rate limits and revocation apply as for any other client. The sessions
 * are in memory: a restart ends them. A request that has an `Authorization` header is never changed.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Headers, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { createHash, randomBytes } from "node:crypto"
import { PROBLEM_CONTENT_TYPE, problemJson } from "../http/ProblemJson.ts"
import { PublicAddress } from "../http/PublicAddress.ts"

/** How long a session lasts: a working day. A user logs in once per day, and a browser that was left open is logged out before the next day. */
export const SESSION_MILLIS = 12 * 3_600_000

/** The maximum number of sessions. Beyond it, a login ends the oldest session. */
export const MAX_SESSIONS = 1_000

interface Session {
  readonly key: Redacted.Redacted
  readonly expiresAt: number
}

/** Browsers send the cookies of all ports of a host, so the name contains the port: two platforms on one machine do not log each other out. */
const cookieName = (host: string | undefined): string => {
  const port = /:(\d+)$/.exec(host ?? "")?.[1]
  return port === undefined ? "stint_session" : `stint_session_${port}`
}

/** The session id in a `Cookie` header, for a request to this host. */
const idIn = (cookies: string, host: string | undefined): string | undefined => {
  const start = `${cookieName(host)}=`
  return cookies.split(";").map((one) => one.trim()).find((one) => one.startsWith(start))?.slice(start.length)
}

type Request = HttpServerRequest.HttpServerRequest

/** The sessions are found by a digest of their id, so that the time of a lookup reveals nothing about an id. */
const digestOf = (id: string): string => createHash("sha256").update(id).digest("base64")

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const { baseUrl } = yield* PublicAddress
  const publicOrigin = new URL(baseUrl).origin
  const sessions = new Map<string, Session>()

  const idOf = ({ headers }: Request): string | undefined => {
    const { cookie, host } = headers
    return cookie === undefined ? undefined : idIn(cookie, host)
  }

  const find = (id: string): Session | undefined => {
    const digest = digestOf(id)
    const session = sessions.get(digest)
    if (session === undefined || session.expiresAt > clock.currentTimeMillisUnsafe()) return session
    sessions.delete(digest)
    return undefined
  }

  /** A cookie for this request's host. `__Host-` names would require https, which a platform on a private network often lacks. */
  const cookie = ({ headers }: Request, value: string, seconds: number): string => {
    const isSecure = headers["origin"]?.startsWith("https:") === true || publicOrigin.startsWith("https:")
    return `${cookieName(headers["host"])}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${
      isSecure ? "; Secure" : ""
    }`
  }

  return {
    find: (request: Request): Session | undefined => {
      const id = idOf(request)
      return id === undefined ? undefined : find(id)
    },
    /** Starts a session. Returns the `Set-Cookie` header. */
    open: (request: Request, key: Redacted.Redacted): string => {
      const now = clock.currentTimeMillisUnsafe()
      const id = randomBytes(32).toString("base64url")
      // Oldest first: all sessions last equally long.
      for (const [digest, { expiresAt }] of sessions) {
        if (expiresAt > now && sessions.size < MAX_SESSIONS) break
        sessions.delete(digest)
      }
      sessions.set(digestOf(id), { key, expiresAt: now + SESSION_MILLIS })
      return cookie(request, id, SESSION_MILLIS / 1_000)
    },
    /** Ends the request's session, if there is one. Returns the `Set-Cookie` header that removes the cookie. */
    close: (request: Request): string => {
      const id = idOf(request)
      if (id !== undefined) sessions.delete(digestOf(id))
      return cookie(request, "", 0)
    },
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

/** The sessions of this process. */
export class BrowserSessions
  extends Context.Service<BrowserSessions, Effect.Success<typeof make>>()("@stint/server/BrowserSessions")
{}

/** The sessions, in memory. */
export const layer: Layer.Layer<BrowserSessions, never, PublicAddress> = Layer.effect(BrowserSessions, make)

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
 * Replaces a session's cookie with its key, before the guards and the fast path. For a request without a cookie, this only reads one header. A
 * 401 ends the session, because its key was revoked, rotated, or expired.
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
          if (response.status === 401) sessions.close(request)
          return response
        })
      )
    })),
  { global: true }
)
