/**
 * Connections that lead to the addresses that were checked, and nowhere else.
 *
 * ```
 *   host --Resolver--> addresses --AddressGuard--> all allowed --> pool of (origin, addresses) --lookup--> one of them
 * ```
 *
 * A name is resolved for every request, and the pool is picked by what it resolved to. A new connection of that pool asks a
 * `lookup` that knows these addresses and nothing else, so a name server that says something else a millisecond later is not
 * heard; and a kept-alive connection is used again only for a request whose name still resolves to the same checked addresses.
 * TLS still proves the name, and `Host` still carries it.
 *
 * One forbidden address refuses the whole host. To pick the others would be as safe, because the connection is pinned; but a
 * public name with a private address is a mistake or an attack, and someone should hear of it.
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

/** How long an unused pool is kept. Longer saves handshakes and holds sockets. */
const IDLE = "10 seconds"

/** Headers of an answer beyond this are refused. Bytes; what browsers and Node's own client take, twice. */
const MAX_HEADERS = 32 * 1024

/** What is known of a way to a host. */
export interface Options {
  readonly guard: AddressGuard
  readonly resolver: Resolver["Service"]
  /** For resolving, and again for connecting. Milliseconds. */
  readonly connectTimeout: number
}

/** Ways to hosts. */
export interface PinnedConnections {
  /** A pool whose connections lead to checked addresses of the URL's host. It is kept while the scope is open. */
  readonly to: (url: URL) => Effect.Effect<Pool, Forbidden | NotResolved | TimedOut, Scope.Scope>
}

/** A `lookup` that answers every name with these addresses. */
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

/** The versions of undici's interface under which the process's own dispatcher is kept. */
const GLOBAL_DISPATCHERS = [Symbol.for("undici.globalDispatcher.1"), Symbol.for("undici.globalDispatcher.2")]

/**
 * undici, loaded by the first request. Loading it makes it the one that the global `fetch` uses, with its own settings in place of
 * Node's (`NODE_USE_ENV_PROXY`, for example). A handler's `fetch` is not ours to change, so that is taken back.
 */
const loadUndici = async () => {
  const before = GLOBAL_DISPATCHERS.map((key): unknown => Reflect.get(globalThis, key))
  const undici = await import("undici")
  for (const [index, key] of GLOBAL_DISPATCHERS.entries()) Reflect.set(globalThis, key, before[index])
  return undici
}

/** Connections that close with the scope. */
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
