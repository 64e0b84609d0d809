/**
 * Converts the Schemas of a handler to JSON Schemas. Loaded when they are reported.
 */
import { MAX_SCHEMA_BYTES } from "@stint/contract/HandlerSchema"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { Schemas } from "./Handler.ts"

/** The JSON Schema of what a Schema reads and writes as JSON. */
const toJsonSchema = (schema: Schema.Constraint) => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema)
  return Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }
}

/** The handler's schema as JSON text, as the platform stores it. Undefined if it is larger than the platform accepts. */
export const schemaText = ({ error, input, output, streams }: Schemas): string | undefined => {
  const schema = {
    input: toJsonSchema(input),
    output: toJsonSchema(output),
    ...(SchemaAST.isNever(error.ast) ? {} : { error: toJsonSchema(error) }),
    streams
  }
  const text = JSON.stringify(schema)
  return Buffer.byteLength(text) <= MAX_SCHEMA_BYTES ? text : undefined
}
