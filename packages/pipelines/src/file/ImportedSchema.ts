/**
 * Converts JSON Schemas to Schemas, and back.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import type { JsonSchema } from "./SchemaFit.ts"

/** The complete JSON Schema of what a Schema reads and writes as JSON, without members that it does not name. */
export const exportSchema = (schema: Schema.Constraint): JsonSchema => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })
  return Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }
}

/** An imported Schema needs no services, because a JSON Schema has no code. */
function withoutServices(schema: Schema.Top): Schema.Codec<unknown>
function withoutServices(schema: Schema.Top): Schema.Top {
  return schema
}

/** The Schema for a JSON Schema; without one, any JSON. Fails with the reason when Effect does not support a keyword. */
export const importSchema = (schema: JsonSchema | undefined): Result.Result<Schema.Codec<unknown>, string> => {
  if (schema === undefined) return Result.succeed(Schema.Json)
  const { $defs, $schema: _, ...root } = schema
  const definitions = Predicate.isObject($defs) ? Object.entries($defs) : []
  return Result.try({
    try: () =>
      withoutServices(SchemaRepresentation.fromJsonSchemaDocument({
        dialect: "draft-2020-12",
        schema: root,
        definitions: Object.fromEntries(definitions.map(([name, one]) => [name, Predicate.isObject(one) ? one : {}]))
      }, { patterns: "apply" })),
    catch: (error) => `The JSON Schema cannot be used: ${error instanceof Error ? error.message : String(error)}`
  })
}
