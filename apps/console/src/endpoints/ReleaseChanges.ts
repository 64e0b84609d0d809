/**
 * What a release changed, or would change: its settings and source files, compared with an earlier release.
 */
import type { Release, ReleasePreview } from "@stint/contract/Release"

/** A setting that differs. A side is absent if that release lacks the setting. */
export interface SettingChange {
  readonly path: string
  readonly before?: string
  readonly after?: string
}

/** The differences between two releases. */
export interface ReleaseChanges {
  readonly settings: ReadonlyArray<SettingChange>
  readonly added: ReadonlyArray<string>
  readonly removed: ReadonlyArray<string>
  readonly changed: ReadonlyArray<string>
  /** Whether the code differs only because an installed package changed, and none of the endpoint's own files did. */
  readonly packagesOnly: boolean
}

/** Values of environment variables stay hidden: they may be secrets. */
const HIDDEN = "(hidden)"

/** The leaves of a JSON value by their paths, such as `workers.max`. Lists are leaves. */
const leavesOf = (value: unknown, path: string, into: Map<string, string>): Map<string, string> => {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    for (const [key, inner] of Object.entries(value)) leavesOf(inner, path === "" ? key : `${path}.${key}`, into)
  } else {
    into.set(path, JSON.stringify(value))
  }
  return into
}

const isHidden = (path: string): boolean => path.startsWith("env.")

/** The compared members of a release. */
type Compared = Pick<Release, "code"> & { readonly settings: object }

/** Compares a release with the one before it. */
export const releaseChanges = (before: Compared, after: Compared): ReleaseChanges => {
  const [old, current] = [leavesOf(before.settings, "", new Map()), leavesOf(after.settings, "", new Map())]
  const settings = [...new Set([...old.keys(), ...current.keys()])].sort().flatMap((path): ReadonlyArray<SettingChange> => {
    const [was, is] = [old.get(path), current.get(path)]
    if (was === is) return []
    const shown = (value: string) => isHidden(path) ? HIDDEN : value
    return [{
      path,
      ...(was === undefined ? {} : { before: shown(was) }),
      ...(is === undefined ? {} : { after: shown(is) })
    }]
  })
  const [oldFiles, files] = [before, after].map(({ code }) => new Map((code?.files ?? []).map(({ hash, path }) => [path, hash])))
  const names = (map: ReadonlyMap<string, string> | undefined) => [...map?.keys() ?? []]
  const added = names(files).filter((path) => oldFiles?.has(path) === false)
  const removed = names(oldFiles).filter((path) => files?.has(path) === false)
  const changed = names(files).filter((path) => oldFiles?.has(path) === true && oldFiles.get(path) !== files?.get(path))
  const packagesOnly = before.code?.hash !== after.code?.hash && added.length + removed.length + changed.length === 0
  return { settings, added, removed, changed, packagesOnly }
}

/** What a deployment would change, as the platform previews it. */
export const previewedChanges = ({ code, settings }: Pick<ReleasePreview, "code" | "settings">): ReleaseChanges => {
  const { added, after, before, changed, removed } = code
  return {
    settings: settings.map(({ after, before, path }) => {
      const shown = (value: unknown) => isHidden(path) ? HIDDEN : JSON.stringify(value)
      return {
        path,
        ...(before === undefined ? {} : { before: shown(before) }),
        ...(after === undefined ? {} : { after: shown(after) })
      }
    }),
    added,
    removed,
    changed,
    packagesOnly: before !== after && added.length + removed.length + changed.length === 0
  }
}

/** The changed source files, one on a line, like `~ handler.ts`. */
export const fileLines = ({ added, changed, packagesOnly, removed }: ReleaseChanges): ReadonlyArray<string> => [
  ...added.map((path) => `+ ${path}`),
  ...removed.map((path) => `- ${path}`),
  ...changed.map((path) => `~ ${path}`),
  ...(packagesOnly ? ["~ installed packages"] : [])
]
