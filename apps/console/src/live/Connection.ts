/**
 * Whether the page receives data: whether the platform responds, and whether the reader has paused updates.
 */
import { useSyncExternalStore } from "react"

interface State {
  readonly isReachable: boolean
  readonly isPaused: boolean
}

const listeners = new Set<() => void>()
const store: { state: State } = { state: { isReachable: true, isPaused: false } }

const set = (change: Partial<State>) => {
  const next = { ...store.state, ...change }
  if (next.isReachable === store.state.isReachable && next.isPaused === store.state.isPaused) return
  store.state = next
  for (const listener of listeners) listener()
}

/** The platform responded. */
export const reportReachable = () => set({ isReachable: true })

/** The platform did not respond. */
export const reportUnreachable = () => set({ isReachable: false })

/** Pauses or resumes all updates. */
export const setPaused = (isPaused: boolean) => set({ isPaused })

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
