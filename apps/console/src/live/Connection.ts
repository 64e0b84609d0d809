/**
 * Whether the page receives data: whether the platform responds, whether its events arrive, and whether the reader has paused updates.
 */
import { useSyncExternalStore } from "react"

interface State {
  readonly isReachable: boolean
  readonly isPaused: boolean
  /** Whether the platform's events refresh the lists (LiveEvents.ts). */
  readonly isStreaming: boolean
}

const listeners = new Set<() => void>()
const store: { state: State } = { state: { isReachable: true, isPaused: false, isStreaming: false } }

const set = (change: Partial<State>) => {
  const next = { ...store.state, ...change }
  if (
    next.isReachable === store.state.isReachable && next.isPaused === store.state.isPaused &&
    next.isStreaming === store.state.isStreaming
  ) return
  store.state = next
  for (const listener of listeners) listener()
}

/** The platform responded. */
export const reportReachable = () => set({ isReachable: true })

/** The platform did not respond. */
export const reportUnreachable = () => set({ isReachable: false })

/** Pauses or resumes all updates. */
export const setPaused = (isPaused: boolean) => set({ isPaused })

/** The platform's events arrive, or do not. */
export const setStreaming = (isStreaming: boolean) => set({ isStreaming })

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

/** The connection, for components. */
export const useConnection = (): State => useSyncExternalStore(subscribe, () => store.state)

/** The polling interval, or false while the reader has paused updates. A hidden tab does not poll at all. */
export const usePoll = (millis: number): number | false => useConnection().isPaused ? false : millis

/** The slowest polling of a list that events refresh. Some of its values, such as heartbeats and the memory of workers, change without an event. */
const SLOW_MILLIS = 10_000

/** Like {@link usePoll}, for a list that the platform's events refresh: it is polled seldom while they arrive. */
export const useListPoll = (millis: number): number | false => {
  const { isPaused, isStreaming } = useConnection()
  return isPaused ? false : isStreaming ? Math.max(SLOW_MILLIS, millis) : millis
}
