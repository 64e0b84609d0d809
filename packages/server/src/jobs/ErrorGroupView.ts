/**
 * Which error groups match the filters of a request, and how they are returned.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { ErrorGroup, ErrorGroupState } from "@stint/contract/ErrorGroup"
import type { ErrorGroupRecord } from "@stint/store/ErrorGroupStore"

/** The filters. An undefined filter matches every group. */
export interface ErrorFilter {
  readonly state: ErrorGroupState | undefined
  readonly release: number | undefined
  /** A release, and when it was made, because its first jobs run before it is active. */
  readonly since: { readonly release: number; readonly at: number } | undefined
}

const stateOf = ({ resolved }: ErrorGroupRecord): ErrorGroupState => resolved === null ? "open" : "resolved"

/** Whether a group matches. */
export const matchesFilter = (group: ErrorGroupRecord, { release, since, state }: ErrorFilter): boolean =>
  (state === undefined || stateOf(group) === state) &&
  (release === undefined || group.releases.some((one) => one.release === release)) &&
  (since === undefined ||
    group.releases.some((one) => one.release === null ? one.lastSeen >= since.at : one.release >= since.release))

/** The group of a response. */
export const errorGroupView = (
  group: ErrorGroupRecord,
  { errorTraceback, id }: Pick<Endpoint, "errorTraceback" | "id">
): ErrorGroup => {
  const { count, fingerprint, firstRelease, firstSeen, frames, jobs, lastSeen, message, releases, reopenedAt, resolved, type } =
    group
  return {
    endpoint: id,
    fingerprint,
    state: stateOf(group),
    ...(type === null ? {} : { type }),
    message,
    frames: errorTraceback === "none" ? [] : frames,
    count,
    firstSeen,
    lastSeen,
    ...(firstRelease === null ? {} : { firstRelease }),
    releases: releases.map(({ release, ...rest }) => ({ ...rest, ...(release === null ? {} : { release }) })),
    jobs,
    ...(resolved === null
      ? {}
      : { resolved: { at: resolved.at, by: resolved.by, ...(resolved.release === null ? {} : { release: resolved.release }) } }),
    ...(reopenedAt === null ? {} : { reopenedAt })
  }
}
