/**
 * A project: the endpoints of its configuration, and what its packages contribute.
 *
 * ```
 *   stint.config.ts        endpoints                     \
 *   package.json           its own contributions          }-> EndpointSpec, schedules
 *   node_modules/NAME      the packages' contributions   /
 * ```
 *
 * The configuration may name a contributed endpoint without a source, and then changes its settings:
 * `endpoints: { "words-count": { workers: { max: 8 } } }`.
 */
import type { EndpointSpec } from "@stint/contract/Endpoint"
import { formatFieldIssue } from "@stint/contract/SchemaIssues"
import type { Catalog } from "@stint/pipelines/FileCheck"
import { callerLimitIssues } from "@stint/server/CallerLimits"
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import { CliFailure } from "../CliFailure.ts"
import type { Definition } from "../config/EndpointDefinition.ts"
import * as EndpointsFile from "../config/EndpointsFile.ts"
import * as EndpointSpecs from "../config/EndpointSpecs.ts"
import * as Contributions from "./Contributions.ts"
import * as PipelineModule from "./PipelineModule.ts"
import type * as SchedulePlan from "./SchedulePlan.ts"

/** The endpoints and schedules of a project. */
export interface Project {
  readonly endpoints: ReadonlyArray<EndpointSpec>
  readonly schedules: ReadonlyArray<SchedulePlan.ScheduleContribution>
}

const hasSource = ({ command, external, handler, image, pipeline }: Definition): boolean =>
  handler !== undefined || pipeline !== undefined || command !== undefined || image !== undefined || external === true

/** The package's settings, merged with the configuration's. A group keeps the members that the configuration does not name. */
const merged = (base: Definition, over: Definition): Definition => ({
  ...base,
  ...over,
  ...(base.workers && over.workers ? { workers: { ...base.workers, ...over.workers } } : {}),
  ...(base.env && over.env ? { env: { ...base.env, ...over.env } } : {}),
  ...(base.limits && over.limits ? { limits: { ...base.limits, ...over.limits } } : {}),
  ...(base.retry && over.retry ? { retry: { ...base.retry, ...over.retry } } : {}),
  ...(base.rateLimit && over.rateLimit ? { rateLimit: { ...base.rateLimit, ...over.rateLimit } } : {})
})

/** An endpoint whose pipeline file is not compiled yet. `pipeline.file` is absolute; `pipeline.module` is the name of the module that runs it. */
interface Entry {
  readonly id: string
  readonly definition: Definition
  readonly directory: string
  readonly pipeline: { readonly file: string; readonly json: unknown; readonly module: string } | undefined
}

const takenBy = (id: string, owner: string) =>
  new CliFailure({
    message: `The endpoint "${id}" of the configuration is also contributed by ${owner}.`,
    hint: `Rename it. To change the settings of the contributed one, omit its source: ${id}: { workers: { max: 4 } }`,
    code: "invalid-contributions"
  })

/** Loads a configuration and the contributions of its project. */
export const load = Effect.fn("Project.load")(function*(config: string) {
  const path = yield* Path.Path
  const { directory, endpoints } = yield* EndpointsFile.read(config)
  const contributions = yield* Contributions.read(directory)
  const entries: Array<Entry> = []
  const overrides = new Map<string, Definition>()
  const contributed = new Map([...contributions.endpoints, ...contributions.pipelines].map((one) => [one.name, one.package]))
  for (const [id, definition] of Object.entries(endpoints)) {
    const owner = contributed.get(id)
    if (owner !== undefined && hasSource(definition)) return yield* takenBy(id, owner)
    if (owner !== undefined) overrides.set(id, definition)
    else if (definition.pipeline === undefined) entries.push({ id, definition, directory, pipeline: undefined })
    else {
      const file = path.resolve(directory, definition.pipeline)
      const module = PipelineModule.nameOfConfigured(id, path.relative(contributions.folder, file))
      entries.push({ id, definition, directory, pipeline: { file, json: yield* Contributions.readPipeline(file), module } })
    }
  }
  const { folder } = contributions
  for (const { definition, name } of contributions.endpoints) {
    entries.push({
      id: name,
      definition: merged(definition, overrides.get(name) ?? {}),
      directory: folder,
      pipeline: undefined
    })
  }
  for (const { file, json, name } of contributions.pipelines) {
    entries.push({ id: name, definition: overrides.get(name) ?? {}, directory: folder, pipeline: { file, json, module: name } })
  }
  const catalog = Contributions.catalogOf(contributions, entries.map(({ id }) => id))
  yield* rejectMistakes(contributions, entries, catalog)
  const specs = yield* Effect.forEach(
    entries,
    (entry) =>
      Effect.flatMap(
        definitionOf(entry, contributions),
        (definition) => Effect.tap(EndpointSpecs.toSpec(entry.id, definition, entry.directory), EndpointSpecs.requireHandler)
      )
  )
  const refused = contributions.schedules.flatMap((schedule) => {
    const spec = specs.find(({ id }) => id === schedule.endpoint)
    return spec === undefined ? [] : refusals(schedule, spec)
  })
  if (refused.length > 0) return yield* Contributions.failWith(folder, refused)
  return { endpoints: specs, schedules: contributions.schedules } satisfies Project
})

/** Why the platform would reject an endpoint's schedule: it exceeds the limits that the configuration sets for callers. */
const refusals = (
  { endpoint, name, package: from, spec }: SchedulePlan.ScheduleContribution,
  limits: Pick<EndpointSpec, "limits">
): ReadonlyArray<string> =>
  callerLimitIssues(limits, spec).map(({ message, path }) =>
    `${from}: The schedule "${name}" of the endpoint "${endpoint}" asks for too much: ${
      formatFieldIssue({ path, message })
    }. Raise the limits of the endpoint in the configuration.`
  )

/** Fails with all mistakes in pipeline files, and with schedules whose endpoints do not exist. */
const rejectMistakes = Effect.fnUntraced(function*(
  { folder, schedules }: Contributions.Contributions,
  entries: ReadonlyArray<Entry>,
  catalog: Catalog
) {
  const mistakes = [
    ...entries.flatMap(({ id, pipeline }) => {
      if (pipeline === undefined) return []
      const { file, json } = pipeline
      const found = Contributions.pipelineMistakes(file, json, catalog)
      const name = Contributions.nameOf(json)
      return found.length > 0 || name === id
        ? found
        : [`${file}: name: The name is "${name}", but the configuration calls the endpoint "${id}". Use the same name in both.`]
    }),
    ...schedules.filter(({ endpoint }) => !catalog.endpoints.has(endpoint)).map(({ endpoint, name, package: from }) =>
      `${from}: The schedule "${name}" belongs to the endpoint "${endpoint}", which neither the configuration nor a package defines.`
    )
  ]
  if (mistakes.length > 0) return yield* Contributions.failWith(folder, mistakes)
})

/** The definition of an endpoint. For a pipeline file, it names the module that runs the file. */
const definitionOf = ({ definition, id, pipeline }: Entry, { folder, kinds }: Contributions.Contributions) => {
  if (pipeline === undefined) return Effect.succeed(definition)
  const used = PipelineModule.kindsIn(pipeline.json)
  const { file, module: name } = pipeline
  return Effect.map(
    PipelineModule.write({ id, name, file, kinds: kinds.filter(({ name }) => used.has(name)), folder }),
    (module): Definition => ({ ...definition, pipeline: module })
  )
}
