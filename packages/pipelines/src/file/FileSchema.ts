/**
 * The JSON Schema of pipeline files in a project: with it, an editor completes the kinds, their options and the endpoints, and underlines mistakes.
 *
 * It uses draft 7, which editors support best. `check` finds mistakes that it cannot express, such as duplicate names and values that do not fit.
 */
import { MAX_PRIORITY } from "@stint/contract/RunJournal"
import { MAX_TAG, MAX_TAGS } from "@stint/contract/Tags"
import * as Predicate from "effect/Predicate"
import type { Catalog, DeclaredKind } from "./FileCheck.ts"
import { DOES, SETTINGS, SPAN, STEP_NAME } from "./FileFormat.ts"
import type { Does } from "./FileFormat.ts"
import type { JsonSchema } from "./SchemaFit.ts"

const NAME: JsonSchema = {
  type: "string",
  pattern: STEP_NAME.source,
  description: "Identifies the step's recorded result. Unique in the pipeline."
}

const DURATION: JsonSchema = {
  type: "string",
  pattern: SPAN.source,
  description: "A duration, for example \"30 seconds\" or \"3 days\""
}

const COUNT: JsonSchema = { type: "integer", minimum: 0, maximum: 1_000 }

/** The settings of steps. */
const SETTING: Readonly<Record<string, JsonSchema>> = {
  input: {
    description: "What the step receives. ${split} is the output of the step split. Default: the output of the step before."
  },
  forEach: {
    type: "string",
    description: "A list, such as ${split}: one step or job for each element. In input, it is ${item}."
  },
  concurrency: { type: "integer", minimum: 1, maximum: 10_000, description: "Elements at the same time. Default: 8" },
  retry: {
    description: "Further attempts after a failure. Default: 0",
    anyOf: [COUNT, {
      type: "object",
      required: ["times"],
      additionalProperties: false,
      properties: { times: COUNT, delay: DURATION, factor: { type: "number", minimum: 1 }, maxDelay: DURATION }
    }]
  },
  timeout: { ...DURATION, description: "The time limit of one attempt, or of the wait" },
  priority: {
    type: "integer",
    minimum: -MAX_PRIORITY,
    maximum: MAX_PRIORITY,
    description: "The priority of the job, up to the limit of its endpoint. Default: that of the run"
  },
  tags: {
    type: "array",
    maxItems: MAX_TAGS,
    items: { type: "string", minLength: 1, maxLength: MAX_TAG },
    description: "The tags of the job. Default: those of the run"
  },
  key: { type: "string", description: "Distinguishes the events of several runs" },
  otherwise: { type: "string", pattern: STEP_NAME.source, description: "The part for every other value" },
  undo: {
    description: "Undoes the step when a later one fails or the run is cancelled: a kind or an endpoint that receives its output",
    type: "object",
    additionalProperties: false,
    properties: { use: { type: "string" }, with: { type: "object" }, run: { type: "string" } },
    oneOf: [{ required: ["use"] }, { required: ["run"] }]
  }
}

/** A step that does one thing. */
const stepOf = (
  does: Does,
  value: JsonSchema,
  others: Readonly<Record<string, JsonSchema>> = {},
  required: ReadonlyArray<string> = []
) => ({
  type: "object",
  required: [...(does === "select" ? [] : ["name"]), does, ...required],
  additionalProperties: false,
  properties: {
    ...(does === "select" ? {} : { name: NAME }),
    description: { type: "string" },
    [does]: value,
    ...Object.fromEntries(SETTINGS[does].flatMap((key) => SETTING[key] === undefined ? [] : [[key, SETTING[key]]])),
    ...others
  }
})

/** A schema whose references point to the definitions of the file's schema. */
const moved = (schema: JsonSchema, prefix: string): JsonSchema =>
  Object.fromEntries(
    Object.entries(schema).map(([key, one]) => [
      key,
      key === "$ref" && typeof one === "string" ? one.replace("#/$defs/", `#/definitions/${prefix}`) : movedPart(one, prefix)
    ])
  )

const movedPart = (value: unknown, prefix: string): unknown =>
  Array.isArray(value) ? value.map((one) => movedPart(one, prefix)) : Predicate.isObject(value) ? moved(value, prefix) : value

const stepOfKind = (does: "use" | "stream", name: string, { description, options }: DeclaredKind) => {
  const { $defs: _, ...root } = options ?? { type: "object", additionalProperties: false }
  const required = Array.isArray(root["required"]) && root["required"].length > 0
  return stepOf(
    does,
    { const: name, ...(description === undefined ? {} : { description }) },
    { with: moved(root, `${name}.`) },
    required ? ["with"] : []
  )
}

/** The definitions of a kind's options, under names that are unique in the file's schema. */
const definitionsOf = (name: string, { options }: DeclaredKind): ReadonlyArray<readonly [string, unknown]> => {
  const definitions = options?.["$defs"]
  return Predicate.isObject(definitions)
    ? Object.entries(definitions).map(([key, one]) => [`${name}.${key}`, movedPart(one, `${name}.`)])
    : []
}

/** The JSON Schema of the pipeline files of a project with this catalog. */
export const fileSchema = ({ endpoints, kinds }: Catalog): JsonSchema => {
  const steps = { type: "array", minItems: 1, items: { $ref: "#/definitions/step" } }
  const schema = { type: "object", description: "A JSON Schema" }
  const alternatives: Readonly<Record<Does, ReadonlyArray<JsonSchema>>> = {
    use: [...kinds].flatMap(([name, kind]) => kind.streams === true ? [] : [stepOfKind("use", name, kind)]),
    stream: [...kinds].flatMap(([name, kind]) => kind.streams === true ? [stepOfKind("stream", name, kind)] : []),
    run: endpoints.size === 0 ? [] : [stepOf("run", { enum: [...endpoints.keys()], description: "A job of this endpoint" })],
    all: [stepOf("all", {
      type: "object",
      description: "Several sequences of steps at the same time. The output has the output of each under its name.",
      propertyNames: { pattern: STEP_NAME.source },
      additionalProperties: steps
    })],
    branch: [stepOf(
      "branch",
      { type: "string", description: "Which part runs: a reference whose value is the name of a part" },
      {
        parts: {
          type: "object",
          description: "The steps of each branch by its name. A branch without steps passes the value through.",
          propertyNames: { pattern: STEP_NAME.source },
          additionalProperties: { ...steps, minItems: 0 }
        }
      },
      ["parts"]
    )],
    select: [
      stepOf("select", { description: "The value for the next step, from the results. It has no name and is not recorded." })
    ],
    sleep: [stepOf("sleep", DURATION)],
    waitFor: [stepOf("waitFor", { ...schema, description: "The JSON Schema of the event's data; {} for any" })]
  }
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "A Stint pipeline",
    type: "object",
    required: ["name", "steps"],
    additionalProperties: false,
    properties: {
      $schema: { type: "string" },
      name: {
        type: "string",
        pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$",
        description: "The name of the pipeline, which is the id of its endpoint"
      },
      description: { type: "string" },
      input: { ...schema, description: "The JSON Schema of a run's input. Default: any JSON" },
      output: { ...schema, description: "The JSON Schema of a run's output. Default: any JSON" },
      steps
    },
    definitions: {
      step: { oneOf: DOES.flatMap((does) => alternatives[does]) },
      ...Object.fromEntries([...kinds].flatMap(([name, kind]) => definitionsOf(name, kind)))
    }
  }
}
