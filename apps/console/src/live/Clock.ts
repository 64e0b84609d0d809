/**
 * The current time, for ages that grow on the screen.
 */
import { useSyncExternalStore } from "react"

const clock: { now: number; timer: number | undefined; readonly listeners: Set<() => void> } = {
  now: Date.now(),
  timer: undefined,
  listeners: new Set()
}

const subscribe = (listener: () => void) => {
  clock.listeners.add(listener)
  clock.timer ??= window.setInterval(() => {
    if (document.hidden) return
    clock.now = Date.now()
    for (const one of clock.listeners) one()
  }, 1_000)
  return () => {
    clock.listeners.delete(listener)
    if (clock.listeners.size > 0) return
    window.clearInterval(clock.timer)
    clock.timer = undefined
  }
}

/** Milliseconds since 1970, updated every second. One timer serves all components. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => clock.now)

const HOUR = 3_600_000

/** The start of the current hour, for content that is too large to be redrawn every second. */
export const useHour = (): number => useSyncExternalStore(subscribe, () => Math.floor(clock.now / HOUR) * HOUR)
