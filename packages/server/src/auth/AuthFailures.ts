/**
 * Throttles failed authentication, per address of the caller (docs/spec/authentication.md#throttling).
 *
 * ```
 *   key is valid ---------------------------------------> served, however many wrong keys its address sent
 *   key is wrong --> fewer than the limit per minute? ---> 401 or 403
 *                `-> more ------------------------------> 429 with Retry-After, and one log line
 * ```
 *
 * The key is checked first, so a caller with a valid key is never locked out by another caller behind the same address. This gives a guesser
 * nothing: secrets have 256 random bits, and an operator's own key at least 16 characters. The throttle bounds the work and the log lines
 * that a caller with wrong keys causes, and makes the attempt visible.
 *
 * Counted in this process's memory, for at most {@link MAX_ADDRESSES} addresses. Behind a proxy on the same host, all callers share the
 * proxy's address.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { isIPv6 } from "node:net"
import * as LeakyBucket from "./LeakyBucket.ts"

/** The maximum number of known addresses. Beyond it, the one that was added first is forgotten. */
export const MAX_ADDRESSES = 10_000

const WINDOW_MILLIS = 60_000

/** IPv6 addresses are counted per /64, because one host usually has a whole /64. */
export const subjectOf = (address: string): string => {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined || !isIPv6(address)) return mapped ?? address
  const [head = "", tail] = address.split("%", 1)[0]?.split("::") ?? []
  const before = head === "" ? [] : head.split(":")
  const after = tail === undefined || tail === "" ? [] : tail.split(":")
  const zeros = tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => "0")
  return [...before, ...zeros, ...after].slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16)).join(":")
}

/** The failures of one address. */
interface Failures {
  meter: LeakyBucket.Meter | undefined
  /** Whether the throttling has been logged. */
  logged: boolean
}

/** Counts a failure of an address. Returns the seconds to wait when there were too many, otherwise 0. */
export type AuthFailures = (address: string) => Effect.Effect<number>

/** A counter that allows `limit` failures per minute and address. */
export const make = (limit: number): Effect.Effect<AuthFailures> =>
  Effect.map(Clock.Clock, (clock) => {
    const rate = { limit, perMs: WINDOW_MILLIS }
    const known = new Map<string, Failures>()
    return (address) =>
      Effect.suspend(() => {
        const subject = subjectOf(address)
        const failures = known.get(subject) ?? { meter: undefined, logged: false }
        if (!known.has(subject)) {
          const [oldest] = known.size >= MAX_ADDRESSES ? known.keys() : []
          if (oldest !== undefined) known.delete(oldest)
          known.set(subject, failures)
        }
        const reading = LeakyBucket.consume(rate, failures.meter, Math.floor(clock.currentTimeMillisUnsafe()))
        failures.meter = reading.meter
        if (reading.admitted) {
          // The address was quiet for so long that it is worth another line when it exceeds the limit again.
          if (reading.remaining > limit / 2) failures.logged = false
          return Effect.succeed(0)
        }
        const wait = Effect.succeed(Math.max(1, Math.ceil(reading.waitMs / 1_000)))
        if (failures.logged) return wait
        failures.logged = true
        return Effect.andThen(
          Effect.logWarning(
            `The address ${subject} sent more than ${limit} requests with wrong keys in a minute. Further ones get 429. Requests with a ` +
              "valid key are served. If the address belongs to one of your clients or workers, give it a valid key (`stint keys list`, " +
              "`stint worker-env`)."
          ),
          wait
        )
      })
  })
