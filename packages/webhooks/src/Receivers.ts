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
const LONGEST_DEFERRAL = 60_000

/** How much a new duration counts in a host's average. */
const WEIGHT = 0.2

/** What a host is thought to take before it was seen. Milliseconds. Too little is found out soon, too much keeps a fast one waiting. */
const FIRST_GUESS = 10

interface Host {
  readonly permits: Semaphore.Semaphore
  held: number
  characters: number
  averageMs: number
  /** When a place was given back last. One that gives none back for long is as slow as that, whatever it was before. */
  lastMove: number
  /** When the next one that is put off is due. */
  nextTurn: number
}

/** A place at a host. */
export interface Place {
  readonly permits: Semaphore.Semaphore
  /** Gives the place back; `durationMs` of the request, where one was made. */
  readonly leave: (durationMs: number | undefined, now: number) => void
}

export interface Receivers {
  /** A place for a body of so many characters, or when to ask again. Milliseconds since 1970. */
  readonly enter: (host: string, characters: number, now: number) => Place | number
  /** How many hold a place. */
  readonly held: () => number
  /** How much they hold. Characters. */
  readonly characters: () => number
}

export const make = ({ perHost, timeout }: Limits): Receivers => {
  const hosts = new Map<string, Host>()
  let held = 0
  let total = 0

  return {
    held: () => held,
    characters: () => total,
    enter: (name, characters, now) => {
      const host = hosts.get(name) ??
        { permits: Semaphore.makeUnsafe(perHost), held: 0, characters: 0, averageMs: FIRST_GUESS, lastMove: now, nextTurn: 0 }
      if (host.held >= 2 * perHost || (host.held > 0 && host.characters + characters > HOST_CHARACTERS)) {
        const pace = Math.max(host.averageMs, now - host.lastMove)
        host.nextTurn = Math.min(Math.max(host.nextTurn, now + pace) + pace / perHost, now + LONGEST_DEFERRAL)
        return Math.ceil(host.nextTurn)
      }
      hosts.set(name, host)
      host.held++
      host.characters += characters
      held++
      total += characters
      return {
        permits: host.permits,
        leave: (durationMs, now) => {
          host.lastMove = now
          host.held--
          host.characters -= characters
          held--
          total -= characters
          if (durationMs !== undefined) {
            host.averageMs += WEIGHT * (Math.min(durationMs, timeout) - host.averageMs)
          }
          // It is faster than was thought: who is put off from now on need not stand behind those before.
          if (host.held < perHost) host.nextTurn = 0
          if (host.held === 0) hosts.delete(name)
        }
      }
    }
  }
}
