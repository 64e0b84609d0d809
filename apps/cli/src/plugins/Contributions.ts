/**
 * What the packages of a project contribute, validated: files exist, names are unique, schedules have a time. Runs no code of the packages.
 */
import { ScheduleSpec } from "@stint/contract/Schedule"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { check, formatPath } from "@stint/pipelines/FileCheck"
import type { Catalog, DeclaredEndpoint, DeclaredKind } from "@stint/pipelines/FileCheck"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"
import type { Definition } from "../config/EndpointDefinition.ts"
import * as PluginPackages from "./PluginPackages.ts"
import type { PluginPackage } from "./PluginPackages.ts"
import { type ScheduleContribution, tagOf } from "./SchedulePlan.ts"

/** Something that a package contributes under a name. */
interface Contributed {
  readonly package: string
  readonly name: string
}

/** `definition`: with the absolute path of its handler. */
export interface EndpointContribution extends Contributed {
  readonly definition: Definition
  readonly declared: DeclaredEndpoint
}

/** `module`: an absolute path. */
export interface KindContribution extends Contributed {
  readonly module: string
  readonly export: string
  readonly declared: DeclaredKind
}

/** `file`: an absolute path. `json`: its unchecked content. */
export interface PipelineContribution extends Contributed {
  readonly file: string
  readonly json: unknown
}

/** Everything that is contributed to a project. */
export interface Contributions {
  readonly folder: string
  readonly packages: ReadonlyArray<PluginPackage>
  readonly endpoints: ReadonlyArray<EndpointContribution>
  readonly kinds: ReadonlyArray<KindContribution>
  readonly pipelines: ReadonlyArray<PipelineContribution>
  readonly schedules: ReadonlyArray<ScheduleContribution>
}

const decodeSpec = Schema.decodeUnknownResult(ScheduleSpec, { errors: "all", onExcessProperty: "error" })
const decodeJson = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

/** Node refuses to run TypeScript in `node_modules`. */
const TYPESCRIPT = /\.[cm]?ts$/

/** The absolute path of a file in a package; undefined after a mistake. */
const fileOf = Effect.fnUntraced(
  function*({ folder }: PluginPackage, file: string, isModule: boolean, report: (text: string) => void) {
    const path = yield* Path.Path
    const fs = yield* FileSystem.FileSystem
    const absolute = path.join(folder, file)
    const found = yield* Effect.option(fs.stat(absolute))
    if (Option.isNone(found) || found.value.type !== "File") {
      report(`${absolute} ${Option.isNone(found) ? "does not exist" : "is not a file"}. Correct the path, or build the package.`)
      return undefined
    }
    if (isModule && TYPESCRIPT.test(file) && absolute.split(path.sep).includes("node_modules")) {
      report(`Node does not run TypeScript in node_modules: ${absolute}. Publish JavaScript.`)
      return undefined
    }
    return absolute
  }
)

/** Reads a pipeline file. */
export const readPipeline = Effect.fnUntraced(function*(file: string) {
  const text = yield* PluginPackages.readText(file)
  if (text === undefined) {
    return yield* new CliFailure({ message: `${file} does not exist.`, hint: "Correct the path.", code: "invalid-contributions" })
  }
  return yield* Effect.mapError(
    decodeJson(text),
    ({ message }) =>
      new CliFailure({ message: `${file} is not JSON: ${message}`, hint: "Correct it.", code: "invalid-contributions" })
  )
})

/** The name in a pipeline file that has not been checked yet. */
export const nameOf = (json: unknown): string | undefined =>
  Predicate.hasProperty(json, "name") && Predicate.isString(json.name) ? json.name : undefined

const contributionsOf = Effect.fnUntraced(function*(plugin: PluginPackage, mistakes: Array<string>) {
  const { contributes, name: from } = plugin
  const at = (path: string) => (text: string) => void mistakes.push(`${from}: stint.contributes.${path}: ${text}`)
  const endpoints: Array<EndpointContribution> = []
  const kinds: Array<KindContribution> = []
  const pipelines: Array<PipelineContribution> = []
  const schedules: Array<ScheduleContribution> = []
  for (const [name, { description, input, output, ...definition }] of Object.entries(contributes.endpoints ?? {})) {
    const handler = yield* fileOf(plugin, definition.handler, true, at(`endpoints.${name}.handler`))
    const declared = {
      ...(description === undefined ? {} : { description }),
      ...(input === undefined ? {} : { input }),
      ...(output === undefined ? {} : { output })
    }
    if (handler !== undefined) endpoints.push({ package: from, name, definition: { ...definition, handler }, declared })
  }
  for (const [name, { export: member, module: file, ...declared }] of Object.entries(contributes.stepKinds ?? {})) {
    const module = yield* fileOf(plugin, file, true, at(`stepKinds.${name}.module`))
    if (module !== undefined) kinds.push({ package: from, name, module, export: member, declared })
  }
  for (const [index, given] of (contributes.pipelines ?? []).entries()) {
    const report = at(`pipelines[${index}]`)
    const file = yield* fileOf(plugin, given, false, report)
    if (file === undefined) continue
    const json = yield* Effect.result(readPipeline(file))
    const name = Result.isSuccess(json) ? nameOf(json.success) : undefined
    if (Result.isFailure(json)) report(`${json.failure.message} ${json.failure.hint}`.trimEnd())
    else if (name === undefined) report(`${file} has no name. Add "name", which is the id of its endpoint.`)
    else pipelines.push({ package: from, name, file, json: json.success })
  }
  for (const [index, { endpoint, name, ...rest }] of (contributes.schedules ?? []).entries()) {
    const tags = Array.isArray(rest["tags"]) ? rest["tags"] : []
    const spec = decodeSpec({ ...rest, tags: [...tags, tagOf(from)] })
    if (Result.isSuccess(spec)) schedules.push({ package: from, endpoint, name, spec: spec.success })
    else for (const issue of fieldIssues(spec.failure)) at(`schedules[${index}]`)(formatFieldIssue(issue))
  }
  return { endpoints, kinds, pipelines, schedules }
})

/** Names that are contributed twice, by two packages or by one. */
const taken = (what: string, all: ReadonlyArray<Contributed>): ReadonlyArray<string> => {
  const owners = new Map<string, string>()
  return all.flatMap(({ name, package: from }) => {
    const owner = owners.get(name)
    owners.set(name, owner ?? from)
    if (owner === undefined) return []
    return owner === from
      ? [`${from} contributes the ${what} "${name}" twice. Rename one of them.`]
      : [
        `${owner} and ${from} both contribute the ${what} "${name}". Name the packages to use in "stint": { "plugins": [...] } of your package.json.`
      ]
  })
}

/** Fails with all mistakes, because each of them must be corrected. */
export const failWith = (folder: string, mistakes: ReadonlyArray<string>): CliFailure =>
  new CliFailure({
    message: `The contributions of the packages of ${folder} have mistakes.`,
    hint: mistakes.join("\n  "),
    code: "invalid-contributions"
  })

/** Reads the contributions to the project that contains a folder. */
export const read = Effect.fn("Contributions.read")(function*(folder: string) {
  const found = yield* PluginPackages.find(folder)
  const mistakes = [...found.mistakes]
  const all = yield* Effect.forEach(found.packages, (plugin) => contributionsOf(plugin, mistakes))
  const contributions: Contributions = {
    folder: found.folder,
    packages: found.packages,
    endpoints: all.flatMap(({ endpoints }) => endpoints),
    kinds: all.flatMap(({ kinds }) => kinds),
    pipelines: all.flatMap(({ pipelines }) => pipelines),
    schedules: all.flatMap(({ schedules }) => schedules)
  }
  mistakes.push(
    ...taken("endpoint", [...contributions.endpoints, ...contributions.pipelines]),
    ...taken("kind of step", contributions.kinds),
    ...taken(
      "schedule",
      contributions.schedules.map(({ endpoint, name, package: from }) => ({ package: from, name: `${endpoint}/${name}` }))
    )
  )
  return mistakes.length === 0 ? contributions : yield* failWith(found.folder, mistakes)
})

/** The kinds and endpoints that the project's pipeline files may name. `endpoints`: those of the configuration. */
export const catalogOf = (contributions: Contributions, endpoints: Iterable<string>): Catalog => ({
  kinds: new Map(contributions.kinds.map(({ declared, name }) => [name, declared])),
  endpoints: new Map([
    ...[...endpoints].map((name): [string, DeclaredEndpoint] => [name, {}]),
    ...contributions.pipelines.map(({ json, name }): [string, DeclaredEndpoint] => [name, schemasOf(json)]),
    ...contributions.endpoints.map(({ declared, name }): [string, DeclaredEndpoint] => [name, declared])
  ])
})

/** The JSON Schemas of a pipeline file's input and output. */
const schemasOf = (json: unknown): DeclaredEndpoint => ({
  ...(Predicate.hasProperty(json, "input") && Predicate.isObject(json.input) ? { input: json.input } : {}),
  ...(Predicate.hasProperty(json, "output") && Predicate.isObject(json.output) ? { output: json.output } : {})
})

/** A line for each mistake in a pipeline file. */
export const pipelineMistakes = (file: string, json: unknown, catalog: Catalog): ReadonlyArray<string> => {
  const found = check(json, catalog)
  return Result.isSuccess(found) ? [] : found.failure.map(({ message, path }) => `${file}: ${formatPath(path)}: ${message}`)
}
