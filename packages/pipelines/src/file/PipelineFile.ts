/**
 * Pipelines from files: makes the pipeline of a `*.pipeline.json`, for its worker and for tests.
 *
 * ```ts
 * const Words = PipelineFile.make(file, [Split, Count])
 * ```
 *
 * The module that the command line generates for such an endpoint calls {@link launch} with exactly the kinds that the file uses.
 */
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import type { MainModule } from "@stint/worker/MainModule"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { fingerprintOfJson } from "../Graph.ts"
import * as Pipeline from "../Pipeline.ts"
import * as StepKind from "../StepKind.ts"
import type { DeclaredKind } from "./FileCheck.ts"
import { compile } from "./FileCompile.ts"
import type { FilePipeline } from "./FileCompile.ts"
import * as FileFormat from "./FileFormat.ts"
import { exportSchema } from "./ImportedSchema.ts"

const decode = Schema.decodeUnknownResult(FileFormat.PipelineFile, { errors: "all", onExcessProperty: "error" })

/**
 * Makes the pipeline of a file from its JSON and the kinds that it uses. Throws a TypeError when the file has a mistake; `stint pipelines check`
 * finds all of them.
 */
export const make = (json: unknown, kinds: ReadonlyArray<StepKind.Any> = []): FilePipeline => {
  const file = decode(json)
  if (Result.isFailure(file)) {
    throw new TypeError(`The pipeline file has mistakes: ${fieldIssues(file.failure).map(formatFieldIssue).join("; ")}`)
  }
  return compile(file.success, new Map(kinds.map((kind) => [kind.name, kind])))
}

/** A kind that a package contributes. */
export interface ContributedKind {
  readonly package: string
  readonly name: string
  /** The module that the package names, and its export. */
  readonly module: { readonly [name: string]: unknown }
  readonly export: string
  readonly declared: DeclaredKind
}

const SCHEMAS = ["input", "output", "options"] as const

/** The JSON Schemas of a kind, as its package should declare them: without options when it has none. */
export const declarationOf = (kind: StepKind.Any): Pick<DeclaredKind, (typeof SCHEMAS)[number] | "streams"> => ({
  ...(kind.streams === true ? { streams: true } : {}),
  input: exportSchema(kind.input),
  output: exportSchema(kind.output),
  ...(StepKind.hasOptions(kind) ? { options: exportSchema(kind.options) } : {})
})

/** The kind in its module. Throws a TypeError if the package declares a different one. */
export const activate = ({ declared, export: member, module, name, package: from }: ContributedKind): StepKind.Any => {
  const found = module[member]
  if (!StepKind.isStepKind(found)) {
    throw new TypeError(
      `The package ${from} contributes the kind of step "${name}", but "${member}" in its module is not one. It exports ${
        Object.keys(module).join(", ") || "nothing"
      }.`
    )
  }
  if (found.name !== name) {
    throw new TypeError(
      `The package ${from} contributes the kind of step "${name}", but "${member}" in its module is "${found.name}".`
    )
  }
  const actual = declarationOf(found)
  // A kind has an input and an output, but not always options. A declaration without options means that there are none.
  const isDeclared = SCHEMAS.some((key) => declared[key] !== undefined)
  const wrong = SCHEMAS.find((key) =>
    (declared[key] !== undefined || (key === "options" && isDeclared)) &&
    fingerprintOfJson(declared[key]) !== fingerprintOfJson(actual[key])
  )
  const isOther = isDeclared && (declared.streams === true) !== (found.streams === true)
  if (wrong === undefined && !isOther) return found
  const difference = isOther ? "form" : wrong ?? ""
  throw new TypeError(
    `The package ${from} declares a different ${difference} of "${name}" than its module has. The package's author must run: stint plugins write`
  )
}

/** Runs the worker of a pipeline file as this process's program (`Pipeline.launch`). */
export const launch = (
  json: unknown,
  { kinds, main }: { readonly kinds: ReadonlyArray<ContributedKind>; readonly main?: MainModule }
): void => Pipeline.launch(make(json, kinds.map(activate)), main === undefined ? {} : { main })
