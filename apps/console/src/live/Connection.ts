/**
 * Whether the page receives data: the platform's last answer, and the reader's pause.
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

/** The platform answered. */
export const reportReachable = () => set({ isReachable: true })

/** The platform did not answer. */
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

/** The interval of a poll, or false while the reader paused the updates. Browsers with a hidden tab do not poll at all. */
export const usePoll = (millis: number): number | false => useConnection().isPaused ? false : millis
