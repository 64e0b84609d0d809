/**
 * Compares two versions of an endpoint. Pure.
 */
import type { EndpointSpec } from "@stint/contract/Endpoint"
import type { ReleaseCode, ReleasePreview } from "@stint/contract/Release"
import { settingsJson } from "@stint/store/ReleaseMachine"
import * as Schema from "effect/Schema"

type Json = typeof Schema.Json.Type
type Leaves = ReadonlyMap<string, Json>

const isObject = (value: Json | undefined): value is { readonly [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The values by their path, such as `workers.max`. An array is one value, because its elements have no names. */
const leavesOf = (value: Json, path: string, leaves = new Map<string, Json>()): Map<string, Json> => {
  if (!isObject(value) || (Object.keys(value).length === 0 && path !== "")) return leaves.set(path, value)
  for (const [key, below] of Object.entries(value)) leavesOf(below, path === "" ? key : `${path}.${key}`, leaves)
  return leaves
}

const decodeJson = Schema.decodeUnknownSync(Schema.Json)

const leaves = (settings: EndpointSpec | undefined): Leaves => {
  if (settings === undefined) return new Map()
  const { id: _, ...rest } = settingsJson(settings)
  return leavesOf(decodeJson(JSON.parse(JSON.stringify(rest))), "")
}

/** Whether a value is an empty object that has members in the other version, which the difference lists. */
const isFilled = (value: Json | undefined, path: string, other: Leaves): boolean =>
  isObject(value) && [...other.keys()].some((key) => key.startsWith(`${path}.`))

/** The settings that differ, ordered by path. The id does not count as a setting. */
export const diffSettings = (before: EndpointSpec | undefined, after: EndpointSpec): ReleasePreview["settings"] => {
  const [old, changed] = [leaves(before), leaves(after)]
  return [...new Set([...old.keys(), ...changed.keys()])].sort().flatMap((path) => {
    const [from, to] = [old.get(path), changed.get(path)]
    if (JSON.stringify(from) === JSON.stringify(to) || isFilled(from, path, changed) || isFilled(to, path, old)) return []
    return [{ path, ...(from === undefined ? {} : { before: from }), ...(to === undefined ? {} : { after: to }) }]
  })
}

/** The source files that differ, by path. */
export const diffCode = (before: ReleaseCode | undefined, after: ReleaseCode | undefined): ReleasePreview["code"] => {
  const old = new Map(before?.files.map(({ hash, path }) => [path, hash]))
  const changed = new Map(after?.files.map(({ hash, path }) => [path, hash]))
  return {
    ...(before === undefined ? {} : { before: before.hash }),
    ...(after === undefined ? {} : { after: after.hash }),
    added: [...changed.keys()].filter((path) => !old.has(path)),
    removed: [...old.keys()].filter((path) => !changed.has(path)),
    changed: [...changed].filter(([path, hash]) => old.has(path) && old.get(path) !== hash).map(([path]) => path)
  }
}
