/**
 * The responses of `VerbCalls.ts` with every member that the contract describes, and with hostile text in every string.
 *
 * A string becomes hostile where the contract accepts any text. The others (ids, states, names without control characters) become hostile in
 * responses that break the contract, which a client must survive too.
 */
import { Api } from "@stint/contract/Api"
import * as Exit from "effect/Exit"
import { HttpApi } from "effect/http-api"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { at, batch, document, entries, list, operations, RESPONSES } from "./VerbCalls.ts"

/** Sets the terminal's title, in both encodings of the sequence, clears the screen, reverses text, and forges a line. */
export const HOSTILE = "\u001b]0;title\u0007 \u009d0;title\u009c \u001b[2J \r\u202e over\n2026-11-22T12:00:00Z INFO   forged"

type Path = ReadonlyArray<string>

/** Whether the contract accepts a value as the response to an operation. */
const isAccepted: ReadonlyMap<string, (value: unknown) => boolean> = (() => {
  const found = new Map<string, (value: unknown) => boolean>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group, successes }) => {
      const decoders = [...successes.values()].flat().map((schema) =>
        Schema.decodeUnknownExit(Schema.make<Schema.Codec<unknown>>(schema.ast))
      )
      found.set(`${group.identifier}.${endpoint.identifier}`, (value) => decoders.some((decode) => Exit.isSuccess(decode(value))))
    }
  })
  return found
})()

/** The value, with the part at a path replaced. */
const replaced = (value: unknown, [key, ...rest]: Path, by: unknown): unknown => {
  if (key === undefined) return by
  if (Array.isArray(value)) {
    return Number(key) < value.length
      ? value.map((one, index) => String(index) === key ? replaced(one, rest, by) : one)
      : [...value, by]
  }
  return { ...Object.fromEntries(entries(value)), [key]: replaced(at(value, key), rest, by) }
}

/** The paths of the parts of a value for which the test is true. */
const pathsOf = (value: unknown, test: (value: unknown) => boolean): ReadonlyArray<Path> => [
  ...(test(value) ? [[]] : []),
  ...(Predicate.isObjectOrArray(value) ? Object.entries(value) : []).flatMap(([key, one]) =>
    pathsOf(one, test).map((path) => [key, ...path])
  )
]

const resolved = (schema: unknown): unknown => {
  const reference = at(schema, "$ref")
  return typeof reference === "string" ? resolved(at(document, ...reference.replace("#/", "").split("/"))) : schema
}

/** A schema, and the schemas that it combines. */
const partsOf = (schema: unknown): ReadonlyArray<unknown> => {
  const self = resolved(schema)
  const parts = ["anyOf", "oneOf", "allOf"].flatMap((name) => list(at(self, name)))
  return [self, ...parts.flatMap(partsOf)]
}

/** A small value with all members of its schema. It may break the contract, because JSON Schema does not state the whole contract. */
const sampleOf = (schema: unknown, depth = 0): unknown => {
  const parts = partsOf(schema)
  const first = (name: string) => parts.map((part) => at(part, name)).find((found) => found !== undefined)
  const constant = first("const") ?? list(first("enum"))[0]
  if (constant !== undefined) return constant
  const types = parts.map((part) => at(part, "type"))
  const members = parts.find((part) => at(part, "properties") !== undefined)
  if (depth > 6) return "text"
  if (members !== undefined) {
    return Object.fromEntries(entries(at(members, "properties")).map(([name, one]) => [name, sampleOf(one, depth + 1)]))
  }
  if (types.includes("string")) return "text"
  if (types.includes("array")) return [sampleOf(first("items"), depth + 1)]
  if (types.includes("integer") || types.includes("number")) return 1
  // False, because a command would read forever if `more` were true.
  if (types.includes("boolean")) return false
  return types.includes("object") ? {} : "text"
}

/** The operations' success schemas in the document. */
const schemas: ReadonlyMap<string, unknown> = new Map(
  entries(at(document, "paths")).flatMap(([, methods]) =>
    entries(methods).flatMap(([, operation]) =>
      entries(at(operation, "responses")).filter(([status]) => status.startsWith("2")).map(([, response]) =>
        [String(at(operation, "operationId")), at(response, "content", "application/json", "schema")] as const
      )
    )
  )
)

/** The response with the members that it lacks, as far as the contract accepts them. */
const completed = (answer: unknown, schema: unknown, accepts: (value: unknown) => boolean): unknown => {
  let whole = answer
  const complete = (path: Path, within: unknown) => {
    const parts = partsOf(within)
    const present = () => path.reduce<unknown>((value, key) => at(value, key), whole)
    for (const part of parts) {
      for (const [name, one] of entries(at(part, "properties"))) {
        if (at(present(), name) === undefined || at(present(), name) === null) {
          const candidate = replaced(whole, [...path, name], sampleOf(one))
          if (accepts(candidate)) whole = candidate
        }
        if (at(present(), name) !== undefined) complete([...path, name], one)
      }
      const items = at(part, "items")
      if (items === undefined || !Array.isArray(present())) continue
      for (const one of [items, ...partsOf(items)]) {
        const candidate = replaced(whole, [...path, String(list(present()).length)], sampleOf(one))
        if (accepts(candidate) && list(present()).length < 6) whole = candidate
      }
      for (const index of list(present()).keys()) complete([...path, String(index)], items)
    }
  }
  if (Predicate.isObjectOrArray(answer)) complete([], schema)
  return whole
}

/** An operation's hostile responses: one that the contract accepts, and one that breaks it. */
export interface HostileAnswers {
  readonly accepted: unknown
  readonly broken: unknown
  /** How many strings the accepted one has, and how many of them are hostile. */
  readonly strings: number
  readonly hostile: number
}

const hostileOf = (id: string): HostileAnswers => {
  const accepts = isAccepted.get(id) ?? (() => false)
  const plain = completed(RESPONSES[id] ?? batch, schemas.get(id), accepts)
  const strings = pathsOf(plain, Predicate.isString)
  let accepted = plain
  let hostile = 0
  for (const path of strings) {
    const candidate = replaced(accepted, path, HOSTILE)
    if (!accepts(candidate)) continue
    accepted = candidate
    hostile += 1
  }
  const broken = strings.reduce((value, path) => replaced(value, path, HOSTILE), plain)
  return { accepted, broken, strings: strings.length, hostile }
}

/** By operation. */
export const HOSTILE_ANSWERS: ReadonlyMap<string, HostileAnswers> = new Map(operations.map(({ id }) => [id, hostileOf(id)]))
