/**
 * The format of `*.pipeline.json`: a pipeline as data (docs/learning/pipelines.md#pipelines-in-json).
 *
 * A step has a name and exactly one of `use`, `stream`, `run`, `all`, `branch`, `sleep` and `waitFor`; or it is a `select`, which has no name, because it is
 * not recorded. Strings in `input`, `forEach`, `key`, `branch` and `select` are templates (`Template.ts`).
 */
import { EndpointId } from "@stint/contract/Ids"
import { ChildPriority } from "@stint/contract/RunJournal"
import { Tags } from "@stint/contract/Tags"
import * as Schema from "effect/Schema"

/** Names of steps and parts. */
export const STEP_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/

const NAME_RULE = "a name is 1 to 64 letters, digits, \"_\" and \"-\"; the first one is a letter or \"_\""

const StepName = Schema.String.check(Schema.isPattern(STEP_NAME, { message: NAME_RULE }))

/**
 * The names of parts follow the rule for the names of steps. If the rule were a Schema of the keys, invalid keys would be reported as unexpected,
 * without a reason.
 */
const arePartNames = Schema.makeFilter((parts: object) => {
  const wrong = Object.keys(parts).find((name) => !STEP_NAME.test(name))
  return wrong === undefined || { path: [wrong], issue: NAME_RULE }
})

/** Durations, such as `"30 seconds"`. */
export const SPAN = /^\d+(?:\.\d+)? (?:millis?|seconds?|minutes?|hours?|days?|weeks?)$/

const Span = Schema.String.check(Schema.isPattern(SPAN, { message: "expected a duration, for example \"30 seconds\"" }))

const Retry = Schema.Union([
  Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 })),
  Schema.Struct({
    times: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 })),
    delay: Schema.optionalKey(Span),
    factor: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1))),
    maxDelay: Schema.optionalKey(Span)
  })
])

/** A JSON Schema. */
const SchemaObject = Schema.Record(Schema.String, Schema.Json)

/** What undoes a step: a step of a kind, or a job, that receives the output of the step. */
const Undo = Schema.Struct({
  use: Schema.optionalKey(Schema.String),
  with: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  run: Schema.optionalKey(Schema.String)
})
/** What undoes a step: a kind or an endpoint. */
export type FileUndo = typeof Undo.Type

/** One step. `name` is absent for a `select` only. */
export interface FileStep {
  readonly name?: string
  readonly description?: string
  readonly use?: string
  readonly stream?: string
  readonly with?: { readonly [option: string]: Schema.Json }
  readonly run?: string
  readonly all?: { readonly [part: string]: ReadonlyArray<FileStep> }
  readonly branch?: string
  readonly parts?: { readonly [part: string]: ReadonlyArray<FileStep> }
  readonly otherwise?: string
  readonly select?: Schema.Json
  readonly sleep?: string
  readonly waitFor?: { readonly [key: string]: Schema.Json }
  readonly input?: Schema.Json
  readonly forEach?: string
  readonly concurrency?: number
  readonly retry?: typeof Retry.Type
  readonly timeout?: string
  readonly priority?: number
  readonly tags?: ReadonlyArray<string>
  readonly key?: string
  readonly undo?: FileUndo
}

const FileStep = Schema.Struct({
  name: Schema.optionalKey(StepName),
  description: Schema.optionalKey(Schema.String),
  use: Schema.optionalKey(Schema.String),
  stream: Schema.optionalKey(Schema.String),
  with: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  run: Schema.optionalKey(Schema.String),
  all: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.NonEmptyArray(Schema.suspend((): Schema.Codec<FileStep> => FileStep))).check(arePartNames)
  ),
  branch: Schema.optionalKey(Schema.String),
  // A part without steps passes the value through.
  parts: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.Array(Schema.suspend((): Schema.Codec<FileStep> => FileStep))).check(arePartNames)
  ),
  otherwise: Schema.optionalKey(StepName),
  select: Schema.optionalKey(Schema.Json),
  sleep: Schema.optionalKey(Span),
  waitFor: Schema.optionalKey(SchemaObject),
  input: Schema.optionalKey(Schema.Json),
  forEach: Schema.optionalKey(Schema.String),
  concurrency: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000 }))),
  retry: Schema.optionalKey(Retry),
  timeout: Schema.optionalKey(Span),
  priority: Schema.optionalKey(ChildPriority),
  tags: Schema.optionalKey(Tags),
  key: Schema.optionalKey(Schema.String),
  undo: Schema.optionalKey(Undo)
})

/** A pipeline file. */
export const PipelineFile = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  /** The name of the pipeline, which is the id of its endpoint. */
  name: EndpointId,
  description: Schema.optionalKey(Schema.String),
  /** The JSON Schema of a run's input. Default: any JSON. */
  input: Schema.optionalKey(SchemaObject),
  /** The JSON Schema of a run's output. Default: any JSON. */
  output: Schema.optionalKey(SchemaObject),
  steps: Schema.NonEmptyArray(FileStep)
})
export type PipelineFile = typeof PipelineFile.Type

/** What a step does. */
export const DOES = ["use", "stream", "run", "all", "branch", "select", "sleep", "waitFor"] as const
/** One of {@link DOES}. */
export type Does = (typeof DOES)[number]

const WORK = ["input", "forEach", "concurrency", "retry", "timeout", "undo"] as const

/** The settings that a step of each form may have. */
export const SETTINGS: Readonly<Record<Does, ReadonlyArray<keyof FileStep>>> = {
  use: ["with", ...WORK],
  stream: ["with", "input", "retry", "timeout"],
  run: [...WORK, "priority", "tags"],
  all: ["input"],
  branch: ["parts", "otherwise", "input"],
  select: [],
  sleep: [],
  waitFor: ["key", "timeout"]
}

/** The error for a step that uses a kind of stream, and for a stream that uses a kind that is not a stream. */
export const otherKind = (kind: string, key: "use" | "stream"): string =>
  key === "use"
    ? `"${kind}" is a stream. Write "stream" in place of "use".`
    : `"${kind}" is not a stream. Write "use" in place of "stream".`

/** The name of the element in the input of a step with `forEach`. */
export const ITEM = "item"

/** The keys of a step. */
export const STEP_KEYS = Object.keys(FileStep.fields)

/** The keys of a file. */
export const FILE_KEYS = Object.keys(PipelineFile.fields)
