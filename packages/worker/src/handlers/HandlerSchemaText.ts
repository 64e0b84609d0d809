/**
 * Converts the Schemas of a handler to JSON Schemas. Loaded when they are reported.
 *
 * It imports no module for its classes: in a bundle it has its own copies of Effect's modules (`@stint/pool-process/StartupChunk`), so that a worker's
 * start does not contain the conversion.
 */
import { MAX_SCHEMA_BYTES } from "@stint/contract/HandlerSchema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaRepresentation from "effect/SchemaRepresentation"

/** The Schemas of a handler as they are read and written as JSON. `error`: absent if the handler declares no failures. */
export interface JsonSchemas {
  readonly input: SchemaAST.AST
  readonly output: SchemaAST.AST
  readonly error?: SchemaAST.AST
  readonly streams: boolean
}

const toJsonSchema = (ast: SchemaAST.AST) => {
  const { definitions, schema: root } = SchemaRepresentation.toJsonSchemaDocument(SchemaRepresentation.toRepresentation(ast))
  return Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions }
}

/** The handler's schema as JSON text, as the platform stores it. Undefined if it is larger than the platform accepts. */
export const schemaText = ({ error, input, output, streams }: JsonSchemas): string | undefined => {
  const text = JSON.stringify({
    input: toJsonSchema(input),
    output: toJsonSchema(output),
    ...(error === undefined ? {} : { error: toJsonSchema(error) }),
    streams
  })
  return Buffer.byteLength(text) <= MAX_SCHEMA_BYTES ? text : undefined
}
