/**
 * Who is being sent to, by host: so that a receiver that is slow or gone holds up its own deliveries and nobody else's.
 *
 * ```
 *   claimed --enter--> sending, `perHost` at once
 *              |       waiting in memory, as many again: no host of a fast receiver runs dry between two claims
 *              +-----> full: back into the outbox, due when by this host's pace its turn has come
 * ```
 *
 * What waits in memory waits one time-out at the most, which keeps it within its lease.
 */
import * as Semaphore from "effect/Semaphore"

/** The bounds. */
export interface Limits {
  /** Requests to one host at once. */
  readonly perHost: number
  /** How long an attempt may take. Milliseconds. */
  readonly timeout: number
}

/** What may be held of one host's bodies, beside the first. Characters. */
const HOST_CHARACTERS = 16 * 1024 * 1024

/** The longest that a delivery is put off for the pace of its host. Milliseconds. */
const MAX_DEFERRAL = 60_000

/** How much a new duration counts in a host's average. */
const WEIGHT = 0.2

/** What a host is thought to take before it was seen. Milliseconds. Too little is found out soon, too much keeps a fast one waiting. */
const INITIAL_AVERAGE = 10

interface Host {
  readonly permits: Semaphore.Semaphore
  held: number
  characters: number
  averageMs: number
  /** When a place was given back last. One that gives none back for long is as slow as that, whatever it was before. */
  lastReleaseAt: number
  /** When the next one that is put off is due. */
  nextDueAt: number
}

/** A place at a host. */
export interface Slot {
  readonly permits: Semaphore.Semaphore
  /** Gives the place back; `durationMs` of the request, where one was made. */
  readonly release: (durationMs: number | undefined, now: number) => void
}

export interface HostLimiter {
  /** A place for a body of so many characters, or when to ask again. Milliseconds since 1970. */
  readonly acquire: (host: string, characters: number, now: number) => Slot | number
  /** How many hold a place. */
  readonly held: () => number
  /** How much they hold. Characters. */
  readonly characters: () => number
}

export const make = ({ perHost, timeout }: Limits): HostLimiter => {
  const hosts = new Map<string, Host>()
  let held = 0
  let total = 0

  return {
    held: () => held,
    characters: () => total,
    acquire: (name, characters, now) => {
      const host = hosts.get(name) ??
        {
          permits: Semaphore.makeUnsafe(perHost),
          held: 0,
          characters: 0,
          averageMs: INITIAL_AVERAGE,
          lastReleaseAt: now,
          nextDueAt: 0
        }
      if (host.held >= 2 * perHost || (host.held > 0 && host.characters + characters > HOST_CHARACTERS)) {
        const pace = Math.max(host.averageMs, now - host.lastReleaseAt)
        host.nextDueAt = Math.min(Math.max(host.nextDueAt, now + pace) + pace / perHost, now + MAX_DEFERRAL)
        return Math.ceil(host.nextDueAt)
      }
      hosts.set(name, host)
      host.held++
      host.characters += characters
      held++
      total += characters
      return {
        permits: host.permits,
        release: (durationMs, now) => {
          host.lastReleaseAt = now
          host.held--
          host.characters -= characters
          held--
          total -= characters
          if (durationMs !== undefined) {
            host.averageMs += WEIGHT * (Math.min(durationMs, timeout) - host.averageMs)
          }
          // It is faster than was thought: who is put off from now on need not stand behind those before.
          if (host.held < perHost) host.nextDueAt = 0
          if (host.held === 0) hosts.delete(name)
        }
      }
    }
  }
}
