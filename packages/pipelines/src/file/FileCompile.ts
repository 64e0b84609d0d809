/**
 * Makes a pipeline from a pipeline file. Its definition and hash equal those of the same steps in TypeScript, unless a step runs an endpoint,
 * whose output is any JSON here.
 *
 * Between the steps of a file, values are JSON: a step of a kind decodes its input and encodes its output.
 */
import { TypeId } from "@stint/worker/Runnable"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Pipeline } from "../Builder.ts"
import { Building, typed } from "../Building.ts"
import type { Results, Retry, StepRun } from "../Definition.ts"
import { call } from "../StepCall.ts"
import type { StepContext } from "../StepContext.ts"
import type * as StepKind from "../StepKind.ts"
import { chunksOf } from "../StreamRun.ts"
import { ITEM, otherKind } from "./FileFormat.ts"
import type { FileStep, FileUndo, PipelineFile } from "./FileFormat.ts"
import { importSchema } from "./ImportedSchema.ts"
import type { JsonSchema } from "./SchemaFit.ts"
import { fill, textOf } from "./Template.ts"

/** A pipeline from a file. Its kinds need no services. */
export type FilePipeline = Pipeline<string, Schema.Codec<unknown>, Schema.Codec<unknown>, never>

const span = Schema.decodeUnknownSync(Schema.DurationFromString)

const retryOf = (retry: FileStep["retry"]): number | Retry | undefined => {
  if (retry === undefined || typeof retry === "number") return retry
  const { delay, factor, maxDelay, times } = retry
  return {
    times,
    ...(delay === undefined ? {} : { delay: span(delay) }),
    ...(factor === undefined ? {} : { factor }),
    ...(maxDelay === undefined ? {} : { maxDelay: span(maxDelay) })
  }
}

/** What undoes a step: an endpoint, or the step of a kind. */
const undoOf = ({ run, use, with: options }: FileUndo, kinds: ReadonlyMap<string, StepKind.Any>) => {
  if (run !== undefined) return targetOf(run)
  const step = stepOf(kindOf(use ?? "", kinds), options ?? {})
  return (output: unknown, context: StepContext) => step(output, {}, context)
}

const workOf = ({ concurrency, retry, timeout, undo }: FileStep, kinds: ReadonlyMap<string, StepKind.Any>) => {
  const times = retryOf(retry)
  return {
    ...(undo === undefined ? {} : { undo: undoOf(undo, kinds) }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(times === undefined ? {} : { retry: times }),
    ...(timeout === undefined ? {} : { timeout: span(timeout) })
  }
}

/** A step of a kind receives a value that the kind does not accept. */
class ValueDoesNotFit extends Schema.TaggedError<ValueDoesNotFit>()("ValueDoesNotFit", { message: Schema.String }) {}

const misfit = (what: string) => ({ message }: Schema.SchemaError) =>
  new ValueDoesNotFit({ message: `${what} not fit: ${message}` })

/** A kind with what it receives in a step. */
const receiverOf = (kind: StepKind.Any, given: unknown) => {
  const options = Schema.decodeUnknownEffect(Schema.toCodecJson(kind.options), { errors: "all", onExcessProperty: "error" })(
    given
  )
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(kind.input), { errors: "all" })
  return (value: unknown) =>
    Effect.gen(function*() {
      const input = yield* Effect.mapError(decode(value), misfit("The input does"))
      const chosen = yield* Effect.mapError(options, misfit("The options do"))
      return { input, chosen }
    })
}

/** The step of a kind, from JSON to JSON. */
const stepOf = (kind: StepKind.Any, given: unknown): StepRun => {
  const receive = receiverOf(kind, given)
  const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(kind.output))
  return (value, results, context) =>
    Effect.flatMap(
      receive(value),
      ({ chosen, input }) => Effect.flatMap(call((one) => kind.run(one, chosen, context), input, results)(context), encode)
    )
}

/** The stream of a kind, from JSON to chunks of JSON. */
const streamOf = (kind: StepKind.Any, given: unknown): StepRun => {
  const receive = receiverOf(kind, given)
  const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(kind.output))
  return (value, _, context) =>
    Stream.unwrap(
      Effect.map(receive(value), ({ chosen, input }) =>
        Stream.mapEffect(
          chunksOf(() => kind.run(input, chosen, context), context),
          (chunk) => encode(chunk)
        ))
    )
}

/** What a kind records: its output as JSON. */
const recorded = (kind: StepKind.Any): Schema.ConstraintCodec<unknown, unknown> =>
  Schema.toEncoded(Schema.toCodecJson(kind.output))

const targetOf = (name: string) => ({
  [TypeId]: TypeId,
  name,
  input: Schema.Json,
  output: Schema.Json,
  streams: false
} as const)

/** `key`: the key under which the file names it. */
const kindOf = (name: string, kinds: ReadonlyMap<string, StepKind.Any>, key: "use" | "stream" = "use"): StepKind.Any => {
  const found = kinds.get(name)
  if (found === undefined) {
    throw new TypeError(`There is no kind of step "${name}". Loaded are ${[...kinds.keys()].join(", ") || "none"}.`)
  }
  if ((found.streams === true) !== (key === "stream")) throw new TypeError(otherKind(name, key))
  return found
}

/** The builder with the value that a step of a kind or a job receives. */
const received = (start: Building, { forEach, input }: FileStep): Building => {
  if (forEach === undefined) return input === undefined ? start : start.select((results) => fill(input, isResults(results)))
  return start.select((given) => {
    const results = isResults(given)
    const list = fill(forEach, results)
    return input === undefined || !Array.isArray(list)
      ? list
      : list.map((item: unknown) => fill(input, { ...results, [ITEM]: item }))
  })
}

/** The interpreter passes the results as an object. */
function isResults(results: unknown): Results
function isResults(results: unknown): unknown {
  return results
}

const withStep = (start: Building, step: FileStep, kinds: ReadonlyMap<string, StepKind.Any>): Building => {
  const { all, branch, forEach, key, name = "", otherwise, parts = {}, priority, run, select } = step
  const { sleep, stream, tags, timeout, use, waitFor } = step
  if (select !== undefined) return start.select((results) => fill(select, isResults(results)))
  if (sleep !== undefined) return start.sleep(name, span(sleep))
  if (waitFor !== undefined) {
    return start.waitFor(name, schemaOf(waitFor), {
      ...(key === undefined ? {} : { key: (results: unknown) => textOf(fill(key, isResults(results))) }),
      ...(timeout === undefined ? {} : { timeout: span(timeout) })
    })
  }
  const builder = received(start, step)
  if (all !== undefined) {
    return builder.all(name, builders(all, kinds))
  }
  if (branch !== undefined) {
    const choose = (results: unknown) => {
      const chosen = textOf(fill(branch, isResults(results)))
      return otherwise === undefined || Object.hasOwn(parts, chosen) ? chosen : otherwise
    }
    return builder.branch(name, choose, builders(parts, kinds))
  }
  if (run !== undefined) {
    const options = {
      ...workOf(step, kinds),
      ...(priority === undefined ? {} : { priority }),
      ...(tags === undefined ? {} : { tags })
    }
    return forEach === undefined ? builder.run(name, targetOf(run), options) : builder.forEach(name, targetOf(run), options)
  }
  if (stream !== undefined) {
    const kind = kindOf(stream, kinds, "stream")
    return builder.stream(name, streamOf(kind, step.with ?? {}), {
      ...workOf(step, kinds),
      output: typed<Schema.ConstraintCodec<unknown, unknown>>(Schema.Array(recorded(kind)))
    })
  }
  const kind = kindOf(use ?? "", kinds)
  const body = stepOf(kind, step.with ?? {})
  const options = { ...workOf(step, kinds), output: recorded(kind) }
  return forEach === undefined ? builder.step(name, body, options) : builder.forEach(name, body, options)
}

const builders = (parts: NonNullable<FileStep["parts"]>, kinds: ReadonlyMap<string, StepKind.Any>) =>
  Object.fromEntries(Object.entries(parts).map(([part, steps]) => [part, (inner: Building) => withSteps(inner, steps, kinds)]))

const withSteps = (start: Building, steps: ReadonlyArray<FileStep>, kinds: ReadonlyMap<string, StepKind.Any>): Building =>
  steps.reduce((builder, step) => withStep(builder, step, kinds), start)

const schemaOf = (schema: JsonSchema | undefined): Schema.Codec<unknown> => {
  const imported = importSchema(schema)
  if (Result.isFailure(imported)) throw new TypeError(imported.failure)
  return imported.success
}

/** Makes the pipeline. Throws a TypeError when a kind is missing, or a name is taken. */
export const compile = (file: PipelineFile, kinds: ReadonlyMap<string, StepKind.Any>): FilePipeline => {
  const input = schemaOf(file.input)
  const output = schemaOf(file.output)
  return withoutServices(withSteps(new Building(file.name, input, [], new Set(["input"])), file.steps, kinds).end(output))
}

/** A kind in a file must not need services. A step of a kind that needs services fails. */
function withoutServices(pipeline: Pipeline<string, Schema.Constraint, Schema.Constraint, unknown>): FilePipeline
function withoutServices(pipeline: unknown): unknown {
  return pipeline
}
