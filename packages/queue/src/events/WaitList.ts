/**
 * Who waits for what, in this process: the wake-ups of long polls.
 *
 * A waiter registers before it looks, so that nothing that happens between the look and the wait is missed:
 *
 * ```
 *   wait.take(key) -> ticket      registered
 *   look                          found: ticket.cancel
 *   ticket.wait(millis)           woken: look again | time over
 * ```
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

/** A place in the line of one key. */
export interface Ticket {
  /** True when woken, false when `millis` went by first. Leaves the line either way. */
  readonly wait: (millis: number) => Effect.Effect<boolean>
  /** Leaves the line. A wake-up that had already come is passed on to the next in line. */
  readonly cancel: Effect.Effect<void>
}

export interface WaitList {
  readonly take: (key: string) => Effect.Effect<Ticket>
  /** Wakes up to `count` waiters of a key, longest waiting first. */
  readonly wake: (key: string, count?: number) => void
  /** Wakes everybody. */
  readonly wakeAll: () => void
  /** How many wait for a key. */
  readonly size: (key: string) => number
}

interface Waiter {
  readonly deferred: Deferred.Deferred<void>
  woken: boolean
}

export const make = (): WaitList => {
  const lines = new Map<string, Set<Waiter>>()

  const leave = (key: string, waiter: Waiter) => {
    const line = lines.get(key)
    if (line === undefined) return
    line.delete(waiter)
    if (line.size === 0) lines.delete(key)
  }

  const wakeOne = (key: string, waiter: Waiter) => {
    leave(key, waiter)
    waiter.woken = true
    Deferred.doneUnsafe(waiter.deferred, Effect.void)
  }

  const wake = (key: string, count = Infinity) => {
    const line = lines.get(key)
    if (line === undefined) return
    let left = count
    // Whoever is woken runs at once and may stand in line again: those who come in meanwhile are not part of this wake-up.
    for (const waiter of [...line]) {
      if (left <= 0) return
      if (!line.has(waiter)) continue
      left--
      wakeOne(key, waiter)
    }
  }

  return {
    take: (key) =>
      Effect.sync(() => {
        const waiter: Waiter = { deferred: Deferred.makeUnsafe(), woken: false }
        let line = lines.get(key)
        if (line === undefined) {
          line = new Set()
          lines.set(key, line)
        }
        line.add(waiter)
        const cancel = Effect.sync(() => {
          if (waiter.woken) wake(key, 1)
          else leave(key, waiter)
        })
        return {
          cancel,
          wait: (millis) =>
            Deferred.await(waiter.deferred).pipe(
              Effect.timeoutOption(millis),
              Effect.map((result) => result._tag === "Some" || waiter.woken),
              Effect.onInterrupt(() => cancel),
              Effect.tap(() => Effect.sync(() => leave(key, waiter)))
            )
        }
      }),
    wake,
    wakeAll: () => {
      for (const key of [...lines.keys()]) wake(key)
    },
    size: (key) => lines.get(key)?.size ?? 0
  }
}
