/**
 * Error groups in memory: part of the memory store, which changes a group in the same step as its job.
 */
import type { EndpointId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import { identifyFailure, type JobFailure, withFailure, withResolution } from "../errors/ErrorGroupMachine.ts"
import { type ErrorGroupRecord, ErrorGroupStore, GROUP_RETENTION_MILLIS, GROUPS_KEPT } from "../errors/ErrorGroupStore.ts"

interface Groups {
  readonly byFingerprint: Map<string, ErrorGroupRecord>
  removed: number
}

const lastSeenFirst = (a: ErrorGroupRecord, b: ErrorGroupRecord): number =>
  b.lastSeen - a.lastSeen || (a.fingerprint < b.fingerprint ? -1 : 1)

/** The store, and the functions that the job store calls. */
export const make = () => {
  const endpoints = new Map<string, Groups>()

  /** Removes the groups that are beyond the bounds. */
  const prune = (groups: Groups, now: number) => {
    const { byFingerprint } = groups
    const sorted = [...byFingerprint.values()].sort(lastSeenFirst)
    const kept = sorted.filter(({ lastSeen }) => lastSeen >= now - GROUP_RETENTION_MILLIS)
    for (const { fingerprint } of [...sorted.slice(kept.length), ...kept.slice(GROUPS_KEPT)]) byFingerprint.delete(fingerprint)
    groups.removed += Math.max(0, kept.length - GROUPS_KEPT)
  }

  /** Adds a failure. Returns the fingerprint of its group. */
  const record = (failure: JobFailure): string => {
    const identity = identifyFailure(failure)
    const groups = endpoints.get(failure.endpoint) ?? { byFingerprint: new Map(), removed: 0 }
    endpoints.set(failure.endpoint, groups)
    const known = groups.byFingerprint.get(identity.fingerprint)
    groups.byFingerprint.set(identity.fingerprint, withFailure(known, failure, identity))
    if (known === undefined) prune(groups, failure.at)
    return identity.fingerprint
  }

  const service = ErrorGroupStore.of({
    list: (endpoint, since) =>
      Effect.sync(() => {
        const { byFingerprint, removed } = endpoints.get(endpoint) ??
          { byFingerprint: new Map<string, ErrorGroupRecord>(), removed: 0 }
        return { groups: [...byFingerprint.values()].filter(({ lastSeen }) => lastSeen >= since).sort(lastSeenFirst), removed }
      }),
    get: (endpoint, fingerprint) => Effect.sync(() => endpoints.get(endpoint)?.byFingerprint.get(fingerprint)),
    resolve: (endpoint, fingerprint, resolution) =>
      Effect.sync(() => {
        const groups = endpoints.get(endpoint)?.byFingerprint
        const known = groups?.get(fingerprint)
        if (groups === undefined || known === undefined) return undefined
        const changed = withResolution(known, resolution)
        groups.set(fingerprint, changed)
        return changed
      })
  })

  return {
    service,
    record,
    removeAll: (endpoint: EndpointId) => {
      endpoints.delete(endpoint)
    }
  }
}
