/**
 * The definitions of a pipeline, and how a new one would affect the runs that have not ended (docs/spec/pipelines.md#versions).
 */
import * as Schema from "effect/Schema"
import { DefinitionHash, PipelineGraph } from "../workers/RunJournal.ts"

/** One definition, and the runs that follow it and have not ended. */
const DefinitionReport = Schema.Struct({
  hash: DefinitionHash,
  /** When a worker first sent it, in milliseconds since 1970. */
  definedAt: Schema.Int,
  open: Schema.Int,
  /** How many of them wait for a worker with this definition or a compatible one. */
  held: Schema.Int
})

/** The response of `definitions`, the newest definition first. Empty: the endpoint is not a pipeline, or no worker of it has started. */
export const DefinitionList = Schema.Struct({
  definitions: Schema.Array(DefinitionReport),
  /** There are more open runs than were counted. */
  more: Schema.optionalKey(Schema.Literal(true))
})
export type DefinitionList = typeof DefinitionList.Type

/** The body of `compare-definition`. */
export const CompareDefinition = Schema.Struct({ graph: PipelineGraph })
export type CompareDefinition = typeof CompareDefinition.Type

/** The effect on a node of the definition that runs follow. */
export const ComparedNode = Schema.Struct({
  /** The definition that contains the node. */
  definition: DefinitionHash,
  node: Schema.String,
  change: Schema.Literals(["changed", "removed"]),
  /** The number of open runs that have recorded the node and would therefore wait. 0: the change affects no run. */
  waiting: Schema.Int,
  /** Why they wait. */
  reason: Schema.String,
  /** The id of one of them. */
  example: Schema.optionalKey(Schema.String)
})
export type ComparedNode = typeof ComparedNode.Type

/** The response of `compare-definition`. */
export const DefinitionComparison = Schema.Struct({
  /** The runs that have not ended. */
  open: Schema.Int,
  /** The runs that would continue with the definition. */
  continuing: Schema.Int,
  /** The runs that would wait for a worker with their own definition. */
  waiting: Schema.Int,
  /** The nodes that the definition changes or does not have. */
  nodes: Schema.Array(ComparedNode),
  /** The nodes that it adds to the definitions that open runs follow. */
  added: Schema.Array(Schema.String),
  /** There are more open runs than were compared. */
  more: Schema.optionalKey(Schema.Literal(true))
})
export type DefinitionComparison = typeof DefinitionComparison.Type
