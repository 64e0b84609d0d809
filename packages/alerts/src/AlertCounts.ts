/**
 * Counts the platform's events for alerts, in bounded memory: a few numbers for each endpoint and each failing webhook receiver. A job event
 * costs a lookup and an addition.
 */
import type { Listener } from "@stint/queue/PlatformEvents"
import type { EndpointObservation, HostObservation } from "./AlertRules.ts"
import { EventWindow } from "./EventWindow.ts"

/** The maximum number of endpoints whose jobs are counted. One window takes about 300 bytes. */
export const MAX_ENDPOINTS = 5_000

/** The maximum number of failing receivers, because callers choose their addresses. Beyond it, the receiver that failed first is removed. */
export const MAX_HOSTS = 500

const HOUR = 3_600_000

export interface AlertCounts {
  /** Counts an event. */
  readonly listener: Listener
  readonly ofEndpoint: (endpoint: string, now: number) => Pick<EndpointObservation, "ended" | "failed" | "failedBuild">
  /** Endpoints whose latest build failed, with that build's number. */
  readonly failedBuilds: () => ReadonlyArray<readonly [endpoint: string, build: number]>
  readonly hosts: (now: number) => ReadonlyArray<HostObservation>
  /** Removes all other endpoints. */
  readonly retain: (endpoints: ReadonlySet<string>) => void
}

export const make = (windowMs: number): AlertCounts => {
  const jobs = new Map<string, EventWindow>()
  const builds = new Map<string, { readonly build: number; readonly reason: string | undefined }>()
  const hosts = new Map<string, { readonly window: EventWindow; reason: string }>()

  const jobEnded = (endpoint: string, isFailed: boolean, at: number) => {
    let window = jobs.get(endpoint)
    if (window === undefined) {
      if (jobs.size >= MAX_ENDPOINTS) return
      jobs.set(endpoint, window = new EventWindow(windowMs))
    }
    window.add(at, isFailed)
  }

  const deliveryFailed = (host: string, reason: string, at: number) => {
    let known = hosts.get(host)
    if (known === undefined) {
      const [oldest] = hosts.size >= MAX_HOSTS ? hosts.keys() : []
      if (oldest !== undefined) hosts.delete(oldest)
      hosts.set(host, known = { window: new EventWindow(HOUR), reason })
    }
    known.reason = reason
    known.window.add(at, true)
  }

  return {
    listener: (event, at) => {
      switch (event.type) {
        case "job.ended":
          if (event.status !== "CANCELLED") jobEnded(event.endpoint, event.status !== "COMPLETED", at)
          return
        case "build.ended":
          if (event.state === "succeeded") builds.delete(event.endpoint)
          if (event.state === "failed" && (builds.has(event.endpoint) || builds.size < MAX_ENDPOINTS)) {
            builds.set(event.endpoint, { build: event.build, reason: event.reason })
          }
          return
        case "webhook.delivered":
          if (hosts.size > 0) hosts.delete(event.host)
          return
        case "webhook.failed":
          return deliveryFailed(event.host, event.reason, at)
        default:
          return
      }
    },
    ofEndpoint: (endpoint, now) => {
      const { all, marked } = jobs.get(endpoint)?.sum(now) ?? { all: 0, marked: 0 }
      return { ended: all, failed: marked, failedBuild: builds.get(endpoint) }
    },
    failedBuilds: () => [...builds].map(([endpoint, { build }]) => [endpoint, build]),
    hosts: (now) =>
      [...hosts].flatMap(([host, { reason, window }]) => {
        const failed = window.sum(now).marked
        if (failed === 0) hosts.delete(host)
        return failed === 0 ? [] : [{ host, failed, reason }]
      }),
    retain: (endpoints) => {
      for (const known of [jobs, builds]) {
        for (const endpoint of known.keys()) if (!endpoints.has(endpoint)) known.delete(endpoint)
      }
    }
  }
}
