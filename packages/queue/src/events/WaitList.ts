/**
 * Wait lists, which wake the long polls of this process.
 *
 * A waiter registers before it reads, so that it misses no change between the read and the wait:
 *
 * ```
 *   list.register(key) -> ticket
 *   read the store                found: ticket.cancel
 *   ticket.wait(millis)           woken: read again | timed out
 * ```
 */
import type { Nodes } from "@stint/store/Nodes"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

/** A waiter that is registered for one key. */
export interface Ticket {
  /** True when woken, false after `millis`. Unregisters the waiter either way. */
  readonly wait: (millis: number) => Effect.Effect<boolean>
  /** Unregisters the waiter. If it was already woken, the next waiter of the key is woken instead. Repeating it changes nothing. */
  readonly cancel: Effect.Effect<void>
}

export interface WaitList {
  /** Registers a waiter. */
  readonly register: (key: string) => Effect.Effect<Ticket>
  /** Wakes up to `count` waiters of a key, longest waiting first. */
  readonly wake: (key: string, count?: number) => void
  /** Wakes every waiter of every key. */
  readonly wakeAll: () => void
  /** The number of waiters of a key. */
  readonly size: (key: string) => number
}

/** Exceeds any number of waiters. Hints carry counts as JSON numbers, so infinity is not possible. */
const MANY = 1_000_000

interface Waiter {
  readonly deferred: Deferred.Deferred<void>
  woken: boolean
}

/**
 * A list that shares its wake-ups with the other nodes: each node's wake-ups reach the waiters of all. Without nodes, returns the list itself, so
 * there is no extra cost. `heeded`: how many waiters a wake-up of another node wakes here; undefined: all. Default: as many as it says.
 */
export const shared = (
  list: WaitList,
  topic: string,
  nodes: Nodes["Service"] | undefined,
  heeded: (key: string, count: number) => number | undefined = (_, count) => count
): WaitList => {
  if (nodes === undefined) return list
  nodes.subscribe(
    topic,
    (hint) => hint === undefined ? list.wakeAll() : list.wake(hint.key, heeded(hint.key, hint.count))
  )
  return {
    ...list,
    wake: (key, count = MANY) => {
      list.wake(key, count)
      nodes.publish(topic, key, count)
    }
  }
}

export const make = (): WaitList => {
  const waitersByKey = new Map<string, Set<Waiter>>()

  const unregister = (key: string, waiter: Waiter) => {
    const waiters = waitersByKey.get(key)
    if (waiters === undefined) return
    waiters.delete(waiter)
    if (waiters.size === 0) waitersByKey.delete(key)
  }

  const wakeOne = (key: string, waiter: Waiter) => {
    unregister(key, waiter)
    waiter.woken = true
    Deferred.doneUnsafe(waiter.deferred, Effect.void)
  }

  const wake = (key: string, count = Infinity) => {
    const waiters = waitersByKey.get(key)
    if (waiters === undefined) return
    let left = count
    // A woken waiter runs at once and may register again; waiters that register during this loop must not be woken by it.
    for (const waiter of [...waiters]) {
      if (left <= 0) return
      if (!waiters.has(waiter)) continue
      left--
      wakeOne(key, waiter)
    }
  }

  return {
    register: (key) =>
      Effect.sync(() => {
        const waiter: Waiter = { deferred: Deferred.makeUnsafe(), woken: false }
        let waiters = waitersByKey.get(key)
        if (waiters === undefined) {
          waiters = new Set()
          waitersByKey.set(key, waiters)
        }
        waiters.add(waiter)
        let isCancelled = false
        const cancel = Effect.sync(() => {
          if (isCancelled) return
          isCancelled = true
          if (waiter.woken) wake(key, 1)
          else unregister(key, waiter)
        })
        return {
          cancel,
          wait: (millis) =>
            Deferred.await(waiter.deferred).pipe(
              Effect.timeoutOption(millis),
              Effect.map((result) => result._tag === "Some" || waiter.woken),
              Effect.onInterrupt(() => cancel),
              Effect.tap(() => Effect.sync(() => unregister(key, waiter)))
            )
        }
      }),
    wake,
    wakeAll: () => {
      for (const key of [...waitersByKey.keys()]) wake(key)
    },
    size: (key) => waitersByKey.get(key)?.size ?? 0
  }
}
