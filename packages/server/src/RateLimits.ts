/**
 * Rate limits of the jobs API: for each key, on each endpoint, for each kind of operation.
 *
 * What was used is kept in this process's memory: a restart forgets it, and several servers in front of one queue each count on their own.
 * A shared count would cost every request a write to a database, which is more than most requests cost altogether
 * (docs/decisions/0009-keys-at-rest.md).
 *
 * The headers follow draft-ietf-httpapi-ratelimit-headers-11:
 *
 * ```
 *   RateLimit-Policy: "run";q=1000;w=10, "run-open";q=200;qu="concurrent-requests"
 *   RateLimit: "run";r=997;t=1, "run-open";r=199
 * ```
 */
import type { RateLimit } from "@stint/contract/RateLimit"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as RateMeter from "./RateMeter.ts"

/** What is counted together. */
export interface Subject {
  /** A key's id. */
  readonly key: string
  readonly endpoint: string
  /** `run`, `status`, `cancel`, ... */
  readonly operation: string
}

/** The answer to one call. */
export interface Pass {
  /** What the call was refused for; undefined where it was admitted. */
  readonly refused: "rate" | "open" | undefined
  /** What to tell the client about its limits. */
  readonly headers: Readonly<Record<string, string>>
  /** When to come again, in whole seconds; 1 at least. Exact for the rate, a guess where too many calls are open. */
  readonly retryAfter: number
  /** Has to be called once, when an admitted call is over. */
  readonly leave: () => void
}

export class RateLimits extends Context.Service<RateLimits, {
  /** Counts a call, or refuses it. */
  readonly enter: (subject: Subject, limit: RateLimit) => Pass
  /** How many subjects are remembered. */
  readonly size: () => number
}>()("@stint/server/RateLimits") {}

/** Below this many subjects nothing is swept. */
const FEW = 1_024

interface Usage {
  rate: RateMeter.Rate
  meter: RateMeter.Meter | undefined
  open: number
}

const seconds = (millis: number): number => Math.ceil(millis / 1_000)

const headersOf = (operation: string, limit: RateLimit, reading: RateMeter.Reading, open: number) => {
  const policies = [`"${operation}";q=${limit.limit};w=${seconds(limit.perMs)}`]
  const states = [`"${operation}";r=${reading.remaining};t=${seconds(reading.resetMs)}`]
  if (limit.concurrent !== undefined) {
    policies.push(`"${operation}-open";q=${limit.concurrent};qu="concurrent-requests"`)
    states.push(`"${operation}-open";r=${Math.max(0, limit.concurrent - open)}`)
  }
  return { "ratelimit-policy": policies.join(", "), ratelimit: states.join(", ") }
}

/** Limits that are counted in memory. */
export const layer: Layer.Layer<RateLimits> = Layer.effect(
  RateLimits,
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const usages = new Map<string, Usage>()
    let sweepAt = FEW

    /** Forgets whoever has used nothing for so long that it makes no difference. */
    const sweep = (now: number) => {
      for (const [subject, usage] of usages) {
        if (usage.open === 0 && RateMeter.look(usage.rate, usage.meter, now).resetMs === 0) usages.delete(subject)
      }
      sweepAt = Math.max(FEW, 2 * usages.size)
    }

    const usageOf = (subject: string, rate: RateMeter.Rate, now: number): Usage => {
      const known = usages.get(subject)
      if (known === undefined) {
        if (usages.size >= sweepAt) sweep(now)
        const usage = { rate, meter: undefined, open: 0 }
        usages.set(subject, usage)
        return usage
      }
      // A limit that was changed starts anew; what is open stays open.
      if (known.rate.limit !== rate.limit || known.rate.perMs !== rate.perMs) {
        known.rate = rate
        known.meter = undefined
      }
      return known
    }

    return RateLimits.of({
      size: () => usages.size,
      enter: ({ endpoint, key, operation }, limit) => {
        const now = Math.floor(clock.currentTimeMillisUnsafe())
        const usage = usageOf(`${key} ${endpoint} ${operation}`, limit, now)
        if (limit.concurrent !== undefined && usage.open >= limit.concurrent) {
          const reading = RateMeter.look(limit, usage.meter, now)
          return {
            refused: "open",
            headers: headersOf(operation, limit, reading, usage.open),
            retryAfter: Math.max(1, seconds(reading.waitMs)),
            leave: () => {}
          }
        }
        const reading = RateMeter.spend(limit, usage.meter, now)
        usage.meter = reading.meter
        if (!reading.admitted) {
          return {
            refused: "rate",
            headers: headersOf(operation, limit, reading, usage.open),
            retryAfter: Math.max(1, seconds(reading.waitMs)),
            leave: () => {}
          }
        }
        usage.open += 1
        return {
          refused: undefined,
          headers: headersOf(operation, limit, reading, usage.open),
          retryAfter: 0,
          leave: () => {
            usage.open -= 1
          }
        }
      }
    })
  })
)
