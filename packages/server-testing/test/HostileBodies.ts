/**
 * Request bodies that are expensive to decode, for every operation of the OpenAPI document that reads a body. Each one is valid, except that
 * one value anywhere in it is replaced with a bomb: a value that is as large as the body and breaks a promise of the schema.
 */
import { document, OPERATIONS } from "./OpenApiResponses.ts"

/** The keys and indices from the body to a value in it. */
export type Path = ReadonlyArray<string>

type Node = Readonly<Record<string, unknown>>

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value)

const listOf = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

const resolved = (schema: unknown): Node => {
  if (!isNode(schema)) return {}
  const ref = schema["$ref"]
  return typeof ref === "string" ? resolved(document.components.schemas[ref.split("/").at(-1) ?? ""]) : schema
}

/** The bombs that replace a value, each as JSON text of about `size` characters. */
export const BOMBS: Readonly<Record<string, (size: number) => string>> = {
  numbers: (size) => `[${"1,".repeat(size / 2)}1]`,
  "short strings": (size) => `[${"\"a\",".repeat(size / 4)}"a"]`,
  "empty objects": (size) => `[${"{},".repeat(size / 3)}{}]`,
  "nested arrays": (size) => `[${`${"[".repeat(200)}${"]".repeat(200)},`.repeat(Math.ceil(size / 401))}1]`,
  "deep brackets": (size) => `${"[".repeat(size / 2)}${"]".repeat(size / 2)}`,
  "many keys": (size) => `{${Array.from({ length: size / 12 }, (_, i) => `"k${100_000 + i}":1,`).join("")}"z":1}`,
  "one key": (size) => `{${"\"a\":1,".repeat(size / 6)}"a":1}`,
  "a long string": (size) => JSON.stringify("x".repeat(size)),
  escapes: (size) => `"${"\\u0041".repeat(size / 6)}"`,
  backslashes: (size) => `"${"\\\\".repeat(size / 2)}"`,
  digits: (size) => "9".repeat(size),
  "white space": (size) => `[${" ".repeat(size)}]`
}

/** The paths to all values that a schema describes, including the body itself. Elements of arrays have the key "0". */
const pathsIn = (schema: unknown, depth = 0): ReadonlyArray<Path> => {
  const { allOf, anyOf, items, oneOf, properties } = resolved(schema)
  if (depth > 6) return [[]]
  const below = [
    ...Object.entries(isNode(properties) ? properties : {}),
    ...(items === undefined ? [] : [["0", items] as const])
  ].flatMap(([key, inner]) => pathsIn(inner, depth + 1).map((path) => [key, ...path]))
  const beside = [allOf, anyOf, oneOf].flatMap(listOf).flatMap((inner) => pathsIn(inner, depth + 1))
  const all = new Map([[], ...below, ...beside].map((path) => [path.join("\n"), path]))
  return [...all.values()]
}

/** JSON text of a value in which the value at a path is replaced with the text of a bomb. Missing objects on the path are added. */
const withBomb = (value: unknown, path: Path, bomb: string): string => {
  const [key, ...rest] = path
  if (key === undefined) return bomb
  if (key === "0") {
    const [first] = listOf(value)
    return `[${withBomb(first, rest, bomb)}]`
  }
  const members = isNode(value) ? value : {}
  const others = Object.entries(members).filter(([name]) => name !== key).map(([name, one]) =>
    `${JSON.stringify(name)}:${JSON.stringify(one)}`
  )
  return `{${[...others, `${JSON.stringify(key)}:${withBomb(members[key], rest, bomb)}`].join(",")}}`
}

/** An operation that reads a body. */
export interface BodyOperation {
  /** `POST /v2/{endpoint}/run`. */
  readonly name: string
  readonly method: string
  /** `/v2/{endpoint}/run`. */
  readonly template: string
  /** A valid body. */
  readonly example: unknown
  /** The places for a bomb. */
  readonly paths: ReadonlyArray<Path>
  readonly body: (path: Path, bomb: string) => string
}

/** All operations that read a body. */
export const BODY_OPERATIONS: ReadonlyArray<BodyOperation> = OPERATIONS.flatMap(({ method, name, operation, template }) => {
  const media = operation.requestBody?.content?.["application/json"]
  if (media === undefined) return []
  // The last example has the most members.
  const example = Object.values(media.examples ?? {}).at(-1)?.value ?? {}
  return [{ name, method, template, example, paths: pathsIn(media.schema), body: (path, bomb) => withBomb(example, path, bomb) }]
})
