/**
 * Limits the number of claimed deliveries for each host, so that a slow or dead receiver delays only its own deliveries.
 *
 * ```
 *   claimed --acquire--> sending, `perHost` at once
 *              |         waiting for a permit, as many again: a fast receiver stays busy between two claims
 *              +------> full: returned to the outbox, due when its turn has probably come
 * ```
 *
 * A delivery waits for a permit for one timeout at most, so its lease covers the wait and the request.
 */
import * as Semaphore from "effect/Semaphore"

/** The maximum number of characters in claimed bodies for one host, not counting its first delivery. */
const MAX_HOST_CHARACTERS = 16 * 1024 * 1024

/** The maximum delay before a delivery to a full host is due again. Milliseconds. */
const MAX_DEFERRAL = 60_000

interface Host {
  readonly permits: Semaphore.Semaphore
  held: number
  characters: number
  /** Milliseconds since 1970. */
  lastReleaseAt: number
  /** When the delivery that was deferred last is due. Milliseconds since 1970. */
  lastDueAt: number
}

/** A slot for one delivery. */
export interface Slot {
  /** The permits of the host. The slot's delivery is sent with one of them. */
  readonly permits: Semaphore.Semaphore
  /** Returns the slot. */
  readonly release: (now: number) => void
}

export interface HostLimiter {
  /** A slot for a body of this length, or, if the host is full, the time at which to try again. Milliseconds since 1970. */
  readonly acquire: (host: string, characters: number, now: number) => Slot | number
  /** The number of slots in use. */
  readonly held: () => number
  /** The total length of the claimed bodies. Characters. */
  readonly characters: () => number
}

/** `perHost`: concurrent requests to one host. */
export const make = (perHost: number): HostLimiter => {
  const hosts = new Map<string, Host>()
  let held = 0
  let total = 0

  return {
    held: () => held,
    characters: () => total,
    acquire: (name, characters, now) => {
      const host = hosts.get(name) ??
        { permits: Semaphore.makeUnsafe(perHost), held: 0, characters: 0, lastReleaseAt: now, lastDueAt: 0 }
      if (host.held >= 2 * perHost || (host.held > 0 && host.characters + characters > MAX_HOST_CHARACTERS)) {
        // The longer ago the host released a slot, the more its deliveries are delayed, so that deliveries to a hung host are not claimed
        // needlessly.
        const turn = Math.max(1, (now - host.lastReleaseAt) / perHost)
        host.lastDueAt = Math.min(Math.max(host.lastDueAt, now) + turn, now + MAX_DEFERRAL)
        return Math.ceil(host.lastDueAt)
      }
      hosts.set(name, host)
      host.held++
      host.characters += characters
      held++
      total += characters
      return {
        permits: host.permits,
        release: (now) => {
          host.lastReleaseAt = now
          host.held--
          host.characters -= characters
          held--
          total -= characters
          if (host.held === 0) hosts.delete(name)
        }
      }
    }
  }
}
