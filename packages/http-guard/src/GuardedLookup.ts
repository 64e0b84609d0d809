/**
 * The address guard for clients that make their own connections, such as the AWS SDK: a `lookup` for their agents, and a check of hosts that
 * are not looked up.
 *
 * ```
 *   host is an address, or localhost --reasonOf--> forbidden, or connect
 *   host is a name ----lookup--> all addresses ---> one is forbidden: the connection fails; else connect to one of them
 * ```
 *
 * The connection uses the addresses that were checked, so a name server that changes its response has no effect. The client must not follow
 * redirects by itself.
 */
import { lookup as resolve } from "node:dns"
import { isIP, type LookupFunction } from "node:net"
import type { AddressGuard } from "./AddressGuard.ts"
import { describeForbidden } from "./GuardedHttpError.ts"
import { hostOf, isLocalhost } from "./RequestUrl.ts"

/** The `code` of a {@link ForbiddenAddress}. */
export const FORBIDDEN_ADDRESS = "ERR_FORBIDDEN_ADDRESS"

/** The error of a connection that the guard forbids. */
export class ForbiddenAddress extends Error {
  readonly code = FORBIDDEN_ADDRESS
}

/** A guard for a client's connections. */
export interface GuardedLookup {
  /** Resolves a name like `dns.lookup`, and fails with {@link ForbiddenAddress} if one of the addresses is forbidden. */
  readonly lookup: LookupFunction
  /** Why the URL's host is forbidden, if this is known without resolving it. Call it before the client connects. */
  readonly reasonOf: (url: URL) => string | undefined
}

/** Makes the guard for a client. */
export const make = (guard: AddressGuard): GuardedLookup => {
  const forbidden = (host: string, address: string): string | undefined => {
    const range = guard.reasonOf(address)
    return range === undefined ? undefined : describeForbidden({ host, address, range })
  }
  return {
    lookup: (host, options, callback) => {
      resolve(host, { ...options, all: true }, (error, addresses) => {
        if (error !== null) return callback(error, "", 0)
        for (const { address } of addresses) {
          const reason = forbidden(host, address)
          if (reason !== undefined) return callback(new ForbiddenAddress(reason), "", 0)
        }
        const [first] = addresses
        if (options.all === true) callback(null, addresses)
        else callback(null, first?.address ?? "", first?.family ?? 0)
      })
    },
    reasonOf: (url) => {
      const host = hostOf(url)
      if (isLocalhost(host)) return forbidden(host, "127.0.0.1")
      return isIP(host) === 0 ? undefined : forbidden(host, host)
    }
  }
}
