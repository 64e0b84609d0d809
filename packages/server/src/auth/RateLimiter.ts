/**
 * Rate limits of the jobs API, per key, endpoint and operation.
 *
 * Usage is counted in this process's memory: a restart resets it. A shared count would cost a database write per request, which would cost more than
 * everything else in most requests (docs/decisions/0009-keys-at-rest.md). Instead, the nodes of a database tell each other with their heartbeats what
 * they have counted (UsageReports.ts). Each adds the calls of the others to its own count within two seconds, so only the calls that the nodes admit
 * in that time exceed a limit, and calls are rejected until the excess has drained.
 *
 * The endpoint's limit applies to every key, and a key's own limit applies as well: a call must be within both. A call that is rejected by
 * either limit does not count against the other.
 *
 * The headers follow draft-ietf-httpapi-ratelimit-headers-11. The names of the key's own limits contain `-key`:
 *
 * ```
 *   RateLimit-Policy: "run";q=1000;w=10, "run-open";q=200;qu="concurrent-requests", "run-key";q=100;w=10
 *   RateLimit: "run";r=997;t=1, "run-open";r=199, "run-key";r=97;t=1
 * ```
 */
import type { RateLimit } from "@stint/contract/RateLimit"
import { monotonicMillis } from "@stint/queue/ClockWatch"
import { Nodes, type Reports } from "@stint/store/Nodes"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as LeakyBucket from "./LeakyBucket.ts"
import * as UsageReports from "./UsageReports.ts"

/** The subject of a limit: each subject is counted separately. */
export interface Subject {
  /** A key's id. */
  readonly key: string
  readonly endpoint: string
  /** `run`, `status`, `cancel`, ... */
  readonly operation: string
}

/** Where a limit comes from. */
export type Owner = typeof UsageReports.Owner.Type

/** The limits that apply to a call: the endpoint's, the key's, or both. */
export type Limits = { readonly [By in Owner]?: RateLimit | undefined }

/** Why a call was rejected. */
export interface Rejection {
  readonly by: Owner
  readonly limit: RateLimit
  /** `rate`: too many calls in the window. `open`: too many concurrent calls. */
  readonly why: "rate" | "open"
  /** When to retry, in whole seconds; at least 1. Exact for the rate; an estimate for concurrent calls. */
  readonly retryAfter: number
}

/** The result of one call. */
export interface Permit {
  /** Undefined when the call was admitted. */
  readonly rejection: Rejection | undefined
  /** The rate limit headers of the response. */
  readonly headers: Readonly<Record<string, string>>
  /** Releases an admitted call. Must be called exactly once, when the call has ended. */
  readonly release: () => void
}

export class RateLimiter extends Context.Service<RateLimiter, {
  /** Counts a call, or rejects it. */
  readonly acquire: (subject: Subject, limits: Limits) => Permit
  /** Number of subjects held in memory. */
  readonly size: () => number
}>()("@stint/server/RateLimiter") {}

/** Idle subjects are not removed while there are fewer than this. */
const SWEEP_THRESHOLD = 1_024

const TOPIC = "limits"

/** The maximum number of subjects in a report: those with the most calls since the last one. Only this node counts the calls of the others. */
export const MAX_REPORTED = 200

/** How long a subject without calls stays in the reports. Longer than a node may miss them without counting as dead. */
const REPORTED_MILLIS = 10_000

/** The usage of one limit. */
interface Count {
  readonly rate: LeakyBucket.Rate
  meter: LeakyBucket.Meter | undefined
}

interface Usage {
  readonly counts: Map<Owner, Count>
  open: number
  /** The calls that are open at other nodes, as of their last reports. */
  openElsewhere: number
  /** The number of its entry in the reports of this node; 0: it has none. */
  entry: number
  /** The calls that were admitted since the entry began, and how many of them the last report contained. */
  admitted: number
  reported: number
  usedAt: number
}

/** One limit and its current reading. */
interface LimitReading {
  readonly by: Owner
  readonly limit: RateLimit
  readonly reading: LeakyBucket.Reading
}

const OWNERS = UsageReports.Owner.literals

const isSame = (rate: LeakyBucket.Rate, { limit, perMs }: LeakyBucket.Rate): boolean =>
  rate.limit === limit && rate.perMs === perMs

/** How much other nodes need to know about a subject. */
const weightOf = ({ admitted, open, reported }: Usage): number => open + admitted - reported

const seconds = (millis: number): number => Math.ceil(millis / 1_000)

const headersOf = (operation: string, readings: ReadonlyArray<LimitReading>, open: number) => {
  const policies: Array<string> = []
  const states: Array<string> = []
  for (const { by, limit, reading } of readings) {
    const name = by === "key" ? `${operation}-key` : operation
    policies.push(`"${name}";q=${limit.limit};w=${seconds(limit.perMs)}`)
    states.push(`"${name}";r=${reading.remaining};t=${seconds(reading.resetMs)}`)
    if (limit.concurrent === undefined) continue
    policies.push(`"${name}-open";q=${limit.concurrent};qu="concurrent-requests"`)
    states.push(`"${name}-open";r=${Math.max(0, limit.concurrent - open)}`)
  }
  return { "ratelimit-policy": policies.join(", "), ratelimit: states.join(", ") }
}

/** Why the limits reject the call, or undefined. When several limits reject it, the limit with the longest wait is returned. */
const rejectionFor = (readings: ReadonlyArray<LimitReading>, open: number): Rejection | undefined =>
  readings.flatMap(({ by, limit, reading }): ReadonlyArray<Rejection> => {
    const isFull = limit.concurrent !== undefined && open >= limit.concurrent
    if (reading.admitted && !isFull) return []
    return [{ by, limit, why: isFull ? "open" : "rate", retryAfter: Math.max(1, seconds(reading.waitMs)) }]
  }).toSorted((a, b) => b.retryAfter - a.retryAfter)[0]

/** Rate limits counted in memory, and shared with the other nodes if there are any. */
export const layer: Layer.Layer<RateLimiter> = Layer.effect(
  RateLimiter,
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
    const nowMillis = () => Math.floor(monotonicMillis(clock))
    const usages = new Map<string, Usage>()
    /** The subjects that the next report may contain. */
    const recent = new Map<string, Usage>()
    let entries = 0
    let sweepAt = SWEEP_THRESHOLD

    const isIdle = ({ counts, entry, open, openElsewhere }: Usage, now: number) =>
      open + openElsewhere + entry === 0 &&
      [...counts.values()].every(({ meter, rate }) => LeakyBucket.peek(rate, meter, now).resetMs === 0)

    /** Removes subjects whose usage has drained to zero. */
    const sweep = (now: number) => {
      for (const [subject, usage] of usages) {
        if (isIdle(usage, now)) usages.delete(subject)
      }
      sweepAt = Math.max(SWEEP_THRESHOLD, 2 * usages.size)
    }

    const usageOf = (subject: string, now: number): Usage => {
      const known = usages.get(subject)
      if (known !== undefined) return known
      if (usages.size >= sweepAt) sweep(now)
      const usage: Usage = { counts: new Map(), open: 0, openElsewhere: 0, entry: 0, admitted: 0, reported: 0, usedAt: now }
      usages.set(subject, usage)
      return usage
    }

    /** After a limit changes, its usage starts from zero, but open calls still count. */
    const countOf = ({ counts }: Usage, by: Owner, { limit, perMs }: RateLimit): Count => {
      const known = counts.get(by)
      if (known !== undefined && isSame(known.rate, { limit, perMs })) return known
      const count: Count = { rate: { limit, perMs }, meter: undefined }
      counts.set(by, count)
      return count
    }

    /** Begins a count for the reports from zero. */
    const enter = (usage: Usage) => {
      usage.entry = ++entries
      usage.admitted = 0
      usage.reported = 0
    }

    const report = (): string => {
      const now = nowMillis()
      for (const [subject, usage] of recent) {
        if (usage.open > 0 || now - usage.usedAt < REPORTED_MILLIS) continue
        recent.delete(subject)
        usage.entry = 0
      }
      const busiest = recent.size > MAX_REPORTED ? [...recent].toSorted(([, a], [, b]) => weightOf(b) - weightOf(a)) : [...recent]
      // A node that reads a later report of such a subject knows by the new number that the count began again.
      for (const [, usage] of busiest.slice(MAX_REPORTED)) enter(usage)
      return UsageReports.encode(
        busiest.slice(0, MAX_REPORTED).map(([subject, usage]) => {
          const { admitted, counts, entry, open } = usage
          usage.reported = admitted
          return { subject, entry, admitted, open, rates: [...counts].map(([by, { rate }]) => ({ by, ...rate })) }
        })
      )
    }

    const read = UsageReports.makeReader()
    let busyElsewhere: ReadonlyArray<Usage> = []
    const receive = (reports: Reports): void => {
      const now = nowMillis()
      for (const usage of busyElsewhere) usage.openElsewhere = 0
      const busy: Array<Usage> = []
      for (const { calls, open, rates, subject } of read(reports)) {
        if (calls + open === 0) continue
        const usage = usageOf(subject, now)
        usage.openElsewhere += open
        busy.push(usage)
        for (const { by, limit, perMs } of rates) {
          const count = usage.counts.get(by) ?? { rate: { limit, perMs }, meter: undefined }
          usage.counts.set(by, count)
          // The endpoint or the key has just got another limit. The node with the old one will start from zero, too.
          if (isSame(count.rate, { limit, perMs })) count.meter = LeakyBucket.add(count.rate, count.meter, calls, now)
        }
      }
      busyElsewhere = busy
    }
    if (nodes !== undefined) {
      nodes.setReport(TOPIC, report, receive)
      // From here on, this node counts the calls of the others.
      receive(nodes.reports(TOPIC))
    }

    return RateLimiter.of({
      size: () => usages.size,
      acquire: ({ endpoint, key, operation }, limits) => {
        const now = nowMillis()
        const name = `${key} ${endpoint} ${operation}`
        const usage = usageOf(name, now)
        const applicable = OWNERS.flatMap((by) => {
          const limit = limits[by]
          return limit === undefined ? [] : [{ by, limit, count: countOf(usage, by, limit) }]
        })
        const before = applicable.map(({ by, count, limit }) => ({
          by,
          limit,
          reading: LeakyBucket.peek(limit, count.meter, now)
        }))
        const open = usage.open + usage.openElsewhere
        const rejection = rejectionFor(before, open)
        if (rejection !== undefined) {
          return { rejection, headers: headersOf(operation, before, open), release: () => {} }
        }
        const after = applicable.map(({ by, count, limit }) => {
          const reading = LeakyBucket.consume(limit, count.meter, now)
          count.meter = reading.meter
          return { by, limit, reading }
        })
        if (nodes !== undefined) {
          if (usage.entry === 0) {
            enter(usage)
            recent.set(name, usage)
          }
          usage.admitted += 1
          usage.usedAt = now
        }
        usage.open += 1
        return {
          rejection: undefined,
          headers: headersOf(operation, after, open + 1),
          release: () => {
            usage.open -= 1
          }
        }
      }
    })
  })
)
