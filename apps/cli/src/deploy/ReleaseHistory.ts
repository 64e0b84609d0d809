/**
 * What the releases of an endpoint changed.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { Release } from "@stint/contract/Release"
import { diffCode, diffSettings } from "@stint/releases/ReleaseDiff"
import type { Changes } from "./ChangeText.ts"

/** What changes from one release to another. */
export const changesBetween = (before: Release | undefined, after: Release): Changes => ({
  settings: diffSettings(before?.settings, after.settings),
  code: diffCode(before?.code, after.code)
})

/** The release that this one replaced, or should have replaced; undefined if it is not in `releases`, which are newest first. */
export const replacedBy = (releases: ReadonlyArray<Release>, { number }: Release): Release | undefined =>
  releases.find((one) => one.number < number && one.activatedAt !== undefined)

/**
 * The release to which a rollback without a number returns: during a rollout or a canary, the serving one; otherwise the last one that was active.
 */
export const rollbackTarget = (
  releases: ReadonlyArray<Release>,
  { canary, previousRelease, release: current }: Pick<Endpoint, "release" | "previousRelease" | "canary">
): Release | undefined =>
  canary !== undefined
    ? releases.find(({ number }) => number === current)
    : previousRelease === undefined
    ? releases.find(({ activatedAt, number }) => activatedAt !== undefined && number < (current ?? 0))
    : releases.find(({ number }) => number === previousRelease)
