/**
 * Finds the mistakes in a pipeline file without running it: invalid forms, duplicate names, kinds and endpoints that do not exist, and values that do
 * not fit.
 *
 * Values are compared by the JSON Schemas that packages declare. A kind or an endpoint without schemas takes and produces anything.
 */
import { fieldIssues } from "@stint/contract/SchemaIssues"
import { didYouMean } from "@stint/contract/Suggestion"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { DOES, FILE_KEYS, ITEM, otherKind, PipelineFile, SETTINGS, STEP_KEYS } from "./FileFormat.ts"
import type { Does, FileStep, FileUndo } from "./FileFormat.ts"
import { importSchema } from "./ImportedSchema.ts"
import { choicesOf, describe, elementOf, listOf, misfits, objectOf, oneOf, shapeOf } from "./SchemaFit.ts"
import type { JsonSchema, Misfit, Shape } from "./SchemaFit.ts"
import { shapeOfTemplate } from "./Template.ts"

/** The declared JSON Schemas of a kind. Without `options`, the kind has none. `streams`: it is a stream, and `output` describes one chunk. */
export interface DeclaredKind {
  readonly streams?: boolean
  readonly description?: string
  readonly input?: JsonSchema
  readonly output?: JsonSchema
  readonly options?: JsonSchema
}

/** The declared JSON Schemas of an endpoint. */
export interface DeclaredEndpoint {
  readonly description?: string
  readonly input?: JsonSchema
  readonly output?: JsonSchema
}

/** The kinds and endpoints that a file may name. */
export interface Catalog {
  readonly kinds: ReadonlyMap<string, DeclaredKind>
  readonly endpoints: ReadonlyMap<string, DeclaredEndpoint>
}

type Path = ReadonlyArray<string | number>

/** A mistake, with its location in the file. */
export interface Mistake {
  readonly path: Path
  readonly message: string
}

/** `steps[2].input.words`; `file` for the whole file. */
export const formatPath = (path: Path): string =>
  path.reduce<string>(
    (text, key) => typeof key === "number" ? `${text}[${key}]` : text === "" ? key : `${text}.${key}`,
    ""
  ) || "file"

const decode = Schema.decodeUnknownResult(PipelineFile, { errors: "all", onExcessProperty: "error" })

/** Schema's message for an unknown key. */
const EXCESS = "Expected no excess property"

/** The mistakes that made the decoding fail, with the known key that was probably meant. */
const formMistakes = (error: Schema.SchemaError): ReadonlyArray<Mistake> =>
  fieldIssues(error).map(({ message, path }) => {
    if (message !== EXCESS) return { path, message: `${message}.` }
    const key = String(path.at(-1))
    return { path, message: `There is no such key.${didYouMean(key, path.length === 1 ? FILE_KEYS : STEP_KEYS)}` }
  })

/** All settings of steps. */
const SETTING_KEYS = new Set(Object.values(SETTINGS).flat())

/** What a step does; undefined if that is unclear. */
const doesOf = (step: FileStep): Does | undefined => {
  const found = DOES.filter((key) => step[key] !== undefined)
  return found.length === 1 ? found[0] : undefined
}

/** Whether a stream can run in the step. */
const hasStream = ({ all, parts, stream }: FileStep): boolean =>
  stream !== undefined || Object.values({ ...all, ...parts }).some((steps) => steps.some(hasStream))

class Checker {
  readonly mistakes: Array<Mistake> = []
  readonly #catalog: Catalog

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  report(path: Path, message: string): void {
    this.mistakes.push({ path, message })
  }

  #schema(path: Path, schema: JsonSchema | undefined): Shape {
    const imported = importSchema(schema)
    if (Result.isFailure(imported)) this.report(path, imported.failure)
    return shapeOf(schema)
  }

  /** Reports where a value does not fit what `taker` accepts. */
  #fit(path: Path, found: ReadonlyArray<Misfit>, taker: string): void {
    for (const { message, path: at } of found) {
      this.report(path, `The input${at === "" ? "" : ` at ${at}`} of ${taker} ${message}.`)
    }
  }

  file({ input, output, steps }: PipelineFile): void {
    const start = this.#schema(["input"], input)
    const last = this.steps(steps, ["steps"], start, new Map([["input", start]]))
    const end = this.#schema(["output"], output)
    for (const { message, path: at } of misfits(last, end)) {
      this.report(["output"], `The value${at === "" ? "" : ` at ${at}`} of the last step ${message}.`)
    }
  }

  /** Checks a sequence. Returns the shape of its last value. */
  steps(steps: ReadonlyArray<FileStep>, path: Path, start: Shape, before: ReadonlyMap<string, Shape>): Shape {
    let value = start
    const results = new Map(before)
    for (const [index, step] of steps.entries()) {
      const at = [...path, index]
      const { name } = step
      this.#name(step, at, results)
      const output = this.#step(step, at, value, results)
      if (name !== undefined) results.set(name, output ?? shapeOf(undefined))
      value = output ?? value
    }
    return value
  }

  #name({ name, select }: FileStep, path: Path, results: ReadonlyMap<string, Shape>): void {
    if (name === undefined && select === undefined) {
      this.report(path, "The step has no name. Recorded results are identified by name: add one.")
    } else if (name !== undefined && select !== undefined) {
      this.report([...path, "name"], "A step with select has no name, because it is not recorded. Remove it.")
    } else if (name !== undefined && results.has(name)) {
      this.report(
        [...path, "name"],
        `The name "${name}" is already used. Recorded results are identified by name: choose another one.`
      )
    }
  }

  /** Checks a step. Returns the shape of its output; undefined when the value passes through. */
  #step(step: FileStep, path: Path, before: Shape, results: ReadonlyMap<string, Shape>): Shape | undefined {
    const does = doesOf(step)
    if (does === undefined) {
      const given = DOES.filter((key) => step[key] !== undefined)
      this.report(
        path,
        `The step "${step.name ?? ""}" needs exactly one of ${DOES.join(", ")}; it has ${
          given.length === 0 ? "none" : given.join(" and ")
        }.`
      )
      return shapeOf(undefined)
    }
    for (const key of SETTING_KEYS) {
      if (step[key] !== undefined && !SETTINGS[does].includes(key)) {
        const known = SETTINGS[does].length === 0 ? "no settings" : SETTINGS[does].join(", ")
        this.report([...path, key], `A step with ${does} has no ${key}; it may have ${known}. Remove it.`)
      }
    }
    switch (does) {
      case "sleep":
        return undefined
      case "select":
        return this.#template(step.select, [...path, "select"], results)
      case "branch":
        return this.#branch(step, path, before, results)
      case "waitFor":
        this.#template(step.key, [...path, "key"], results)
        return this.#schema([...path, "waitFor"], step.waitFor)
      case "all": {
        this.#streams(step, path)
        const value = this.#input(step, path, before, results)
        return objectOf(
          Object.entries(step.all ?? {}).map(([part, steps]) => [
            part,
            this.steps(steps, [...path, "all", part], value, results)
          ])
        )
      }
      case "use":
        return this.#work(step, path, before, results, this.#kind(step, path))
      case "stream": {
        const { forEach: _, stream = "", with: options, ...rest } = step
        const kind = this.#kind({ use: stream, ...(options === undefined ? {} : { with: options }) }, path, "stream")
        return listOf(this.#work({ ...rest, stream }, path, before, results, kind))
      }
      case "run":
        return this.#work(step, path, before, results, this.#endpoint(step, path))
    }
  }

  /** Reports a second part with a stream. */
  #streams({ all = {}, name }: FileStep, path: Path): void {
    const [first, second] = Object.keys(all).filter((part) => all[part]?.some(hasStream))
    if (first === undefined || second === undefined) return
    this.report(
      [...path, "all", second],
      `The part "${first}" of "${
        name ?? ""
      }" runs at the same time and also contains a stream. A run can only stream one of them at a time: ` +
        "put the streams one after the other, or make one of them a step."
    )
  }

  #template(template: Schema.Json | undefined, path: Path, results: ReadonlyMap<string, Shape>): Shape | undefined {
    return template === undefined
      ? undefined
      : shapeOfTemplate(template, results, (mistake) => this.report([...path, ...mistake.path], mistake.message))
  }

  #input({ input }: FileStep, path: Path, before: Shape, results: ReadonlyMap<string, Shape>): Shape {
    return this.#template(input, [...path, "input"], results) ?? before
  }

  /** Checks a branch. Returns the shape of the outputs of its parts. */
  #branch(step: FileStep, path: Path, before: Shape, results: ReadonlyMap<string, Shape>): Shape {
    const { branch, otherwise, parts = {} } = step
    const names = Object.keys(parts)
    if (names.length === 0) this.report(path, "A step with branch needs parts: the steps of each branch by its name.")
    if (otherwise !== undefined && names.length > 0 && !names.includes(otherwise)) {
      this.report(
        [...path, "otherwise"],
        `There is no part "${otherwise}".${didYouMean(otherwise, names)} The parts are ${names.join(", ")}.`
      )
    }
    const chosen = this.#template(branch, [...path, "branch"], results) ?? shapeOf(undefined)
    for (const { message } of misfits(chosen, CHOICE)) this.report([...path, "branch"], `It ${message}.`)
    const missing = otherwise === undefined ? choicesOf(chosen).filter((one) => !names.includes(one)) : []
    if (names.length > 0 && missing.length > 0) {
      this.report(
        [...path, "branch"],
        `It may be "${missing.join("\" or \"")}", but the parts are ${names.join(", ")}. Add a part, or name one in otherwise.`
      )
    }
    const value = this.#input(step, path, before, results)
    return oneOf(Object.entries(parts).map(([part, steps]) => this.steps(steps, [...path, "parts", part], value, results)))
  }

  /** Checks what undoes a step with this output. */
  #undo({ undo }: FileStep, path: Path, output: Shape): void {
    if (undo === undefined) return
    const at = [...path, "undo"]
    if ((undo.use === undefined) === (undo.run === undefined)) {
      return this.report(at, "It needs exactly one of use and run, which undoes the step.")
    }
    if (undo.run !== undefined && undo.with !== undefined) {
      this.report([...at, "with"], "Only a kind of step has options. Remove it.")
    }
    const taker = undo.run === undefined ? this.#kind(undo, at) : this.#endpoint(undo, at)
    this.#fit(at, misfits(output, shapeOf(taker.input)), `"${undo.use ?? undo.run}"`)
  }

  #kind(step: FileUndo, path: Path, key: "use" | "stream" = "use"): DeclaredKind {
    const { use = "", with: options = {} } = step
    const kind = this.#catalog.kinds.get(use)
    if (kind === undefined) {
      const known = [...this.#catalog.kinds.keys()]
      this.report(
        [...path, key],
        `There is no kind of step "${use}".${didYouMean(use, known)} ${
          known.length === 0
            ? "No installed package contributes one."
            : `Installed are ${known.join(", ")}; install the package that contributes it.`
        }`
      )
      return {}
    }
    if ((kind.streams === true) !== (key === "stream")) {
      this.report([...path, key], otherKind(use, key))
      return {}
    }
    const imported = importSchema(kind.options ?? NO_OPTIONS)
    if (Result.isFailure(imported)) return kind
    const found = Schema.decodeUnknownResult(imported.success, { errors: "all", onExcessProperty: "error" })(options)
    if (Result.isFailure(found)) {
      for (const { message, path: at } of fieldIssues(found.failure)) {
        const known = Object.keys(kind.options?.["properties"] ?? {})
        this.report(
          [...path, "with", ...at],
          message === EXCESS || known.length === 0
            ? `"${use}" has no such option; ${known.length === 0 ? "it has none" : `it has ${known.join(", ")}`}.`
            : `${message}.`
        )
      }
    }
    return kind
  }

  #endpoint({ run = "" }: FileUndo, path: Path): DeclaredEndpoint {
    const endpoint = this.#catalog.endpoints.get(run)
    if (endpoint !== undefined) return endpoint
    const known = [...this.#catalog.endpoints.keys()]
    this.report(
      [...path, "run"],
      `There is no endpoint "${run}".${
        didYouMean(run, known)
      } Add it to the endpoints of stint.config.ts, or install the package that contributes it.`
    )
    return {}
  }

  /** Checks what a step of a kind or a job receives. Returns the shape of its output. */
  #work(step: FileStep, path: Path, before: Shape, results: ReadonlyMap<string, Shape>, taker: DeclaredEndpoint): Shape {
    const name = `"${step.use ?? step.stream ?? step.run}"`
    const takes = shapeOf(taker.input)
    const output = shapeOf(taker.output)
    this.#undo(step, path, output)
    if (step.forEach === undefined) {
      if (step.concurrency !== undefined) {
        this.report([...path, "concurrency"], "Only a step with forEach has a concurrency. Remove it, or add forEach.")
      }
      const value = this.#input(step, path, before, results)
      this.#fit(step.input === undefined ? path : [...path, "input"], misfits(value, takes), name)
      return output
    }
    const list = this.#template(step.forEach, [...path, "forEach"], results) ?? before
    const element = elementOf(list)
    if (element === undefined) {
      this.report([...path, "forEach"], `It is ${describe(list)}, but must be a list.`)
      return listOf(output)
    }
    const value = this.#input(step, path, element, new Map([...results, [ITEM, element]]))
    this.#fit(step.input === undefined ? [...path, "forEach"] : [...path, "input"], misfits(value, takes), name)
    return listOf(output)
  }
}

/** The values that can name a part. */
const CHOICE = shapeOf({ type: ["string", "number", "boolean"] })

const NO_OPTIONS: JsonSchema = { type: "object", properties: {}, additionalProperties: false }

/** The decoded file, or its mistakes. */
export const check = (json: unknown, catalog: Catalog): Result.Result<PipelineFile, ReadonlyArray<Mistake>> => {
  const decoded = decode(json)
  if (Result.isFailure(decoded)) return Result.fail(formMistakes(decoded.failure))
  const checker = new Checker(catalog)
  checker.file(decoded.success)
  return checker.mistakes.length === 0 ? Result.succeed(decoded.success) : Result.fail(checker.mistakes)
}
