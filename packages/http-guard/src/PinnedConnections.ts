/**
 * Connections that lead only to checked addresses.
 *
 * ```
 *   host --Resolver--> addresses --AddressGuard--> all allowed --> pool of (origin, addresses) --lookup--> one of them
 * ```
 *
 * A name is resolved for every request, and its addresses select the pool. A new connection of the pool uses a `lookup` that knows only
 * these addresses, so a changed response from the name server has no effect. A kept-alive connection is reused only for a request whose
 * name still resolves to the same checked addresses. TLS still verifies the name, and `Host` still contains it.
 *
 * One forbidden address forbids the whole host. Using its other addresses would be safe, because the connection is pinned. But a public
 * name with a private address is either a mistake or an attack, and the error reports it.
 */
import * as Effect from "effect/Effect"
import * as RcMap from "effect/RcMap"
import type * as Scope from "effect/Scope"
import { isIP } from "node:net"
import type { LookupFunction } from "node:net"
import type { Pool } from "undici"
import type { AddressGuard } from "./AddressGuard.ts"
import { Forbidden, TimedOut } from "./GuardedHttpError.ts"
import { hostOf, isLocalhost } from "./RequestUrl.ts"
import { NotResolved } from "./Resolver.ts"
import type { Resolver } from "./Resolver.ts"

/** How long an unused pool stays open. A longer time saves handshakes but occupies sockets. */
const IDLE = "10 seconds"

/** The maximum size of the response headers. Bytes. Twice the limit of browsers and of Node's own client. */
const MAX_HEADERS = 32 * 1024

/** The settings of the pools. */
export interface Options {
  readonly guard: AddressGuard
  readonly resolver: Resolver["Service"]
  /** Time limit for resolving, and again for connecting. Milliseconds. */
  readonly connectTimeout: number
}

/** Pools of pinned connections. */
export interface PinnedConnections {
  /** A pool whose connections lead to checked addresses of the URL's host. It stays open while the scope is open. */
  readonly to: (url: URL) => Effect.Effect<Pool, Forbidden | NotResolved | TimedOut, Scope.Scope>
}

/** A `lookup` that returns these addresses for every name. */
const pinned = (addresses: ReadonlyArray<string>): LookupFunction => {
  const all = addresses.map((address) => ({ address, family: isIP(address) }))
  return (_host, options, callback) => {
    const family = options.family === "IPv4" ? 4 : options.family === "IPv6" ? 6 : options.family ?? 0
    const fitting = family === 0 ? all : all.filter((one) => one.family === family)
    const [first] = fitting
    if (first === undefined) callback(new Error(`no checked address of family ${family}`), "", 0)
    else if (options.all === true) callback(null, fitting)
    else callback(null, first.address, first.family)
  }
}

/** The keys under which undici's versions store the process's global dispatcher. */
const GLOBAL_DISPATCHERS = [Symbol.for("undici.globalDispatcher.1"), Symbol.for("undici.globalDispatcher.2")]

/**
 * undici, loaded by the first request. Loading it replaces the dispatcher of the global `fetch`, and with it Node's settings (for example,
 * `NODE_USE_ENV_PROXY`). A handler's `fetch` must not change, so the dispatcher is restored.
 */
const loadUndici = async () => {
  const before = GLOBAL_DISPATCHERS.map((key): unknown => Reflect.get(globalThis, key))
  const undici = await import("undici")
  for (const [index, key] of GLOBAL_DISPATCHERS.entries()) Reflect.set(globalThis, key, before[index])
  return undici
}

/** Creates pools of connections that close with the scope. */
export const make = ({ connectTimeout, guard, resolver }: Options): Effect.Effect<PinnedConnections, never, Scope.Scope> =>
  Effect.gen(function*() {
    const undici = yield* Effect.cached(Effect.promise(loadUndici))
    const pools = yield* RcMap.make({
      idleTimeToLive: IDLE,
      lookup: (key: string) =>
        Effect.acquireRelease(
          Effect.map(undici, ({ Pool }) => {
            const [origin = "", ...addresses] = key.split(" ")
            return new Pool(origin, {
              allowH2: false,
              useMilo: false,
              maxHeaderSize: MAX_HEADERS,
              connect: { timeout: connectTimeout, lookup: pinned(addresses) }
            })
          }),
          (pool) => Effect.promise(() => pool.destroy())
        )
    })

    const resolve = (host: string) =>
      Effect.timeoutOrElse(resolver.resolve(host), {
        duration: connectTimeout,
        orElse: () => Effect.fail(new TimedOut({ phase: "resolve", limit: connectTimeout }))
      })

    const check = (host: string, address: string): Effect.Effect<void, Forbidden> => {
      const range = guard.reasonOf(address)
      return range === undefined ? Effect.void : Effect.fail(new Forbidden({ host, address, range }))
    }

    return {
      to: Effect.fnUntraced(function*(url) {
        const host = hostOf(url)
        if (isLocalhost(host)) yield* check(host, "127.0.0.1")
        const addresses = isIP(host) === 0 ? yield* resolve(host) : [host]
        if (addresses.length === 0) return yield* new NotResolved({ host, detail: "no address", temporary: false })
        for (const address of addresses) yield* check(host, address)
        return yield* RcMap.get(pools, [url.origin, ...addresses.toSorted()].join(" "))
      })
    }
  })
