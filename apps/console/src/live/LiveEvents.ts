/**
 * Refreshes what the page shows as soon as something happens on the platform.
 *
 * ```
 *   GET /api/v1/events --any event--> refresh at once, then at most every two seconds --> the lists that are shown are read again
 *        \--> no connection: the lists are polled; it is opened again
 * ```
 *
 * Which event it was does not matter, so the events are not parsed: on a platform with thousands of jobs per second that would be the page's
 * most expensive work. A hidden tab and a paused page have no connection.
 */
import { useQueryClient } from "@tanstack/react-query"
import { useEffect } from "react"
import { setStreaming, useConnection } from "./Connection.ts"

/** The first parts of the keys of queries that events may change, and the shortest time between two refreshes of them. Milliseconds. */
const CHANGING: ReadonlyArray<readonly [millis: number, keys: ReadonlySet<string>]> = [
  [2_000, new Set(["overview", "endpoint", "recent", "jobs", "errors", "alerts", "releases", "builds"])],
  // One read of the workers is up to 25 requests.
  [5_000, new Set(["workers"])]
]

/** The time between two attempts to connect, in milliseconds. */
const RETRY_MILLIS = 3_000

/** Whether a part of the stream has an event: comments only keep the connection open. */
export const hasEvent = (part: string): boolean => /^(?:event|data):/m.test(part)

/** Calls `refresh` at once, and then at most once per interval while calls arrive. Returns the caller, and a function that stops it. */
export const atMost = (
  millis: number,
  refresh: () => void
): { readonly call: () => void; readonly stop: () => void } => {
  let timer: ReturnType<typeof setTimeout> | undefined
  let isCalled = false
  const run = () => {
    isCalled = false
    refresh()
    timer = setTimeout(() => {
      timer = undefined
      if (isCalled) run()
    }, millis)
  }
  return {
    call: () => {
      if (timer === undefined) run()
      else isCalled = true
    },
    stop: () => clearTimeout(timer)
  }
}

const follow = async (signal: AbortSignal, onOpen: () => void, onEvent: () => void) => {
  const response = await fetch("/api/v1/events", { signal, headers: { accept: "text/event-stream" } })
  if (!response.ok || response.body === null) throw new Error(`status ${response.status}`)
  onOpen()
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let part = await reader.read(); !part.done; part = await reader.read()) if (hasEvent(part.value)) onEvent()
}

const wait = (millis: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, millis)
    signal.addEventListener("abort", () => {
      clearTimeout(timer)
      resolve()
    })
  })

/** Follows the platform's events while the page is visible. */
export const useLiveEvents = (isOn: boolean): void => {
  const client = useQueryClient()
  const { isPaused } = useConnection()
  useEffect(() => {
    if (!isOn || isPaused) return
    const refreshes = CHANGING.map(([millis, keys]) =>
      atMost(millis, () => {
        void client.invalidateQueries({ predicate: ({ queryKey: [first] }) => typeof first === "string" && keys.has(first) })
      })
    )
    const onEvent = () => refreshes.forEach(({ call }) => call())
    let abort: AbortController | undefined
    let wasConnected = false
    const onOpen = () => {
      setStreaming(true)
      // What happened while there was no connection is not in the stream.
      if (wasConnected) onEvent()
      wasConnected = true
    }
    const connect = async (signal: AbortSignal) => {
      while (!signal.aborted) {
        // The server ends a connection after some minutes. A key that may not follow events polls.
        await follow(signal, onOpen, onEvent).catch(() => wait(RETRY_MILLIS, signal))
        if (!signal.aborted) setStreaming(false)
      }
    }
    const onVisibility = () => {
      abort?.abort()
      setStreaming(false)
      if (document.hidden) return
      abort = new AbortController()
      void connect(abort.signal)
    }
    onVisibility()
    document.addEventListener("visibilitychange", onVisibility)
    return () => {
      document.removeEventListener("visibilitychange", onVisibility)
      abort?.abort()
      for (const { stop } of refreshes) stop()
      setStreaming(false)
    }
  }, [client, isOn, isPaused])
}
