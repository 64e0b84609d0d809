/**
 * Follows a job's events over Server-Sent Events. The client reconnects without a gap.
 */
import type { JobEvent } from "@stint/client"
import { useEffect, useState } from "react"
import { jobsClient } from "../api/JobsClient.ts"
import { addEvents, emptyFeed, type JobFeed } from "./JobFeed.ts"

/** Events that arrive within this time are drawn together. Milliseconds. */
const DRAW_MILLIS = 100

/** The feed of a job, and the error that ended it early. Changing `again` restarts the feed, for a job that was retried. */
export const useJobFeed = (
  endpoint: string,
  id: string | undefined,
  again: number,
  onEnd: () => void
): { readonly feed: JobFeed; readonly error: unknown } => {
  const [feed, setFeed] = useState<JobFeed>(emptyFeed)
  const [error, setError] = useState<unknown>(undefined)
  useEffect(() => {
    setFeed(emptyFeed)
    setError(undefined)
    if (id === undefined) return
    const abort = new AbortController()
    let pending: Array<JobEvent> = []
    let timer: number | undefined
    const draw = () => {
      timer = undefined
      const events = pending
      pending = []
      setFeed((before) => addEvents(before, events))
    }
    const follow = async () => {
      for await (const event of jobsClient.endpoint(endpoint).events(id, { signal: abort.signal })) {
        pending.push(event)
        timer ??= window.setTimeout(draw, DRAW_MILLIS)
        if (event._tag === "End") onEnd()
      }
    }
    follow().catch((cause: unknown) => {
      if (!abort.signal.aborted) setError(cause)
    })
    return () => {
      abort.abort()
      window.clearTimeout(timer)
    }
  }, [endpoint, id, again, onEnd])
  return { feed, error }
}
