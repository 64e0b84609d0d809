/**
 * How a deployment would affect pipeline runs that have not ended (docs/learning/pipelines.md#new-versions).
 */
import type { DefinitionComparison } from "@stint/contract/Definitions"
import type { EndpointSpec } from "@stint/contract/Endpoint"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { call } from "../client/PlatformClient.ts"
import type { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import * as DefinitionProbe from "./DefinitionProbe.ts"

/** The comparison for one pipeline. Without open runs, nothing is compared. */
export type PipelineChange =
  | { readonly endpoint: string; readonly open: 0 }
  | ({ readonly endpoint: string } & DefinitionComparison)
  /** The handler did not send its definition. */
  | { readonly endpoint: string; readonly open: number; readonly unknown: string }

/** The open runs of an endpoint; undefined if it is not a pipeline or does not exist on the platform. */
const openRunsOf = (id: string) =>
  call((api) => api.runs.definitions({ params: { endpoint: id } })).pipe(
    Effect.map(({ definitions }) => definitions.length === 0 ? undefined : definitions.reduce((sum, { open }) => sum + open, 0)),
    Effect.catchIf(({ status }: CliFailure) => status === 404, () => Effect.succeed(undefined))
  )

/** Compares the endpoints that are pipelines on the platform. Starts a handler only if it has open runs. */
export const compare = Effect.fn("PipelineChanges.compare")(function*(specs: ReadonlyArray<EndpointSpec>) {
  const changes: Array<PipelineChange> = []
  for (const spec of specs) {
    const { id } = spec
    const open = yield* openRunsOf(id)
    if (open === undefined) continue
    if (open === 0) {
      changes.push({ endpoint: id, open: 0 })
      continue
    }
    const graph = yield* Effect.result(DefinitionProbe.graphOf(spec))
    if (Result.isFailure(graph)) changes.push({ endpoint: id, open, unknown: graph.failure.message })
    else {
      const compared = yield* call((api) =>
        api.runs.compareDefinition({ params: { endpoint: id }, payload: { graph: graph.success } })
      )
      changes.push({ endpoint: id, ...compared })
    }
  }
  return changes
})

const runs = (count: number): string => count === 1 ? "1 open run" : `${count} open runs`

const nodeLines = ({ added, nodes }: DefinitionComparison): ReadonlyArray<string> => [
  ...nodes.map(({ change, definition, example, node, reason, waiting }) =>
    waiting === 0
      ? `  ${node}  ${change}: no open run of definition ${definition.slice(0, 12)} has recorded it`
      : `  ${node}  ${change}: ${waiting} would wait, for example ${example ?? ""}. ${reason}`
  ),
  ...(added.length === 0 ? [] : [`  added: ${added.join(", ")}`])
]

/** The lines of one pipeline. */
const lines = (change: PipelineChange): ReadonlyArray<string> => {
  const { endpoint } = change
  if ("unknown" in change) {
    return [`${endpoint}  ${runs(change.open)}, which could not be compared with the new definition. ${change.unknown}`]
  }
  if (!("continuing" in change)) return [`${endpoint}  no open runs`]
  const { continuing, more, open, waiting } = change
  return [
    `${endpoint}  ${runs(open)}${more === true ? " or more" : ""}: ${continuing} would continue, ${waiting} would wait`,
    ...nodeLines(change),
    ...(waiting === 0 ? [] : [
      "  Waiting runs can be finished by a worker of the release that they began with. To continue one from a changed node: " +
      `stint jobs retry ${endpoint} RUN --from NODE`
    ])
  ]
}

/** The {@link lines} of all pipelines, printable. */
export const format = (changes: ReadonlyArray<PipelineChange>): string => changes.flatMap(lines).map(Output.inline).join("\n")
