/**
 * `stint pipelines list`, `show` and `diff`: the pipelines of a platform, their definitions, and how a deployment would affect their runs.
 */
import type { DefinitionList } from "@stint/contract/Definitions"
import type { GraphNode } from "@stint/contract/RunJournal"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as PipelineChanges from "../deploy/PipelineChanges.ts"
import * as Output from "../output/Output.ts"
import * as Project from "../plugins/Project.ts"
import { endpoint, json } from "./SharedFlags.ts"

const DEFAULT_CONFIG = "stint.config.ts"

/** How many endpoints are queried at the same time. */
const CONCURRENCY = 8

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

/** How many characters of a hash identify a definition in a table. */
const SHORT_HASH = 12

const definitionsOf = (id: string) => call((api) => api.runs.definitions({ params: { endpoint: id } }))

const openOf = ({ definitions }: DefinitionList): number => definitions.reduce((sum, { open }) => sum + open, 0)

const heldOf = ({ definitions }: DefinitionList): number => definitions.reduce((sum, { held }) => sum + held, 0)

/** `stint pipelines list`. An endpoint is a pipeline as soon as one of its workers has started. */
export const list = Command.make(
  "list",
  { json },
  Effect.fnUntraced(function*({ json }) {
    const { endpoints } = yield* call((api) => api.control.listEndpoints())
    const all = yield* Effect.forEach(
      endpoints,
      ({ id }) => Effect.map(definitionsOf(id), (found) => ({ endpoint: id, ...found })),
      { concurrency: CONCURRENCY }
    )
    const pipelines = all.filter(({ definitions }) => definitions.length > 0)
    yield* Output.print(json, { pipelines }, () =>
      pipelines.length === 0
        ? "No pipelines. An endpoint is listed as soon as a worker of its pipeline has started."
        : Output.table([
          ["PIPELINE", "OPEN RUNS", "WAITING", "DEFINITION", "SINCE"],
          ...pipelines.map((one) => [
            one.endpoint,
            String(openOf(one)),
            String(heldOf(one)),
            (one.definitions[0]?.hash ?? "").slice(0, SHORT_HASH),
            timeText(one.definitions[0]?.definedAt ?? 0)
          ])
        ]))
  })
).pipe(Command.withDescription("List the pipelines, their open runs, and those that wait for another definition; times are UTC"))

const nodeRow = ({ address, endpoint: of, kind, needs = [] }: GraphNode): ReadonlyArray<string> => [
  address,
  kind,
  of ?? "",
  needs.join(", ")
]

const notAPipeline = (id: string) =>
  new CliFailure({
    message: `The endpoint "${id}" is not a pipeline, or no worker of it has started.`,
    hint: "See the pipelines: stint pipelines list",
    code: "not-a-pipeline"
  })

/** The hash of the newest definition of a pipeline. */
export const newestDefinition = Effect.fnUntraced(function*(id: string) {
  const [newest] = (yield* definitionsOf(id)).definitions
  return newest === undefined ? yield* notAPipeline(id) : newest.hash
})

/** `stint pipelines show`. */
export const show = Command.make(
  "show",
  { endpoint, json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    const { definitions, more } = yield* definitionsOf(endpoint)
    const [newest] = definitions
    if (newest === undefined) return yield* notAPipeline(endpoint)
    const graph = yield* call((api) => api.runs.definition({ params: { endpoint, hash: newest.hash } }))
    yield* Output.print(json, { endpoint, definitions, graph, ...(more === undefined ? {} : { more }) }, () =>
      [
        Output.table([["NODE", "KIND", "ENDPOINT", "AFTER"], ...graph.nodes.map(nodeRow)]),
        "",
        Output.table([
          ["DEFINITION", "SINCE", "OPEN RUNS", "WAITING"],
          ...definitions.map(({ definedAt, hash, held, open }) => [
            hash.slice(0, SHORT_HASH),
            timeText(definedAt),
            String(open),
            String(held)
          ])
        ]),
        ...(more === true ? ["", "There are more open runs than were counted."] : [])
      ].join("\n"))
  })
).pipe(Command.withDescription("Show the nodes of a pipeline, its definitions and their open runs; times are UTC"))

/** `stint pipelines diff`. The exit code is 0 even if runs would wait, because a release may intend that. */
export const diff = Command.make(
  "diff",
  {
    pipelines: Argument.String("pipeline").pipe(
      Argument.withDescription("Only these pipelines of the configuration; default: all"),
      Argument.variadic()
    ),
    config: Flag.String("config").pipe(
      Flag.withDescription(`A file with \`export default defineConfig({ endpoints })\`; default: ${DEFAULT_CONFIG}`),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ config, json, pipelines }) {
    const { endpoints } = yield* Project.load(Option.getOrElse(config, () => DEFAULT_CONFIG))
    const unknown = pipelines.find((id) => !endpoints.some((spec) => spec.id === id))
    if (unknown !== undefined) {
      return yield* new CliFailure({
        message: `The configuration has no endpoint "${unknown}".`,
        hint: `It has ${endpoints.map(({ id }) => id).join(", ") || "none"}.`,
        code: "endpoint-not-found"
      })
    }
    const changes = yield* PipelineChanges.compare(
      endpoints.filter(({ id }) => pipelines.length === 0 || pipelines.includes(id))
    )
    yield* Output.print(json, { pipelines: changes }, () =>
      changes.length === 0
        ? "The platform has no runs of pipelines of this configuration."
        : PipelineChanges.format(changes))
  })
).pipe(
  Command.withDescription("Show how a deployment would affect the open runs of pipelines: which continue, which wait, and why"),
  Command.withExamples([{ command: "stint pipelines diff gallery", description: "Before `stint deploy`" }])
)
