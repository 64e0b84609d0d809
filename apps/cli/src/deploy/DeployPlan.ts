/**
 * Plans a deployment: compares the endpoints of a configuration with those of the platform.
 */
import { type Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import type { ReleasePreview } from "@stint/contract/Release"
import { didYouMean } from "@stint/contract/Suggestion"
import { diffSettings } from "@stint/releases/ReleaseDiff"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { call, type PlatformClient } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { changeLines } from "./ChangeText.ts"
import { maskChange } from "./HiddenVariables.ts"

/** An endpoint of the configuration. `none`: nothing differs. */
export interface Deployment {
  readonly action: "create" | "change" | "none"
  readonly id: string
  readonly spec: EndpointSpec
  readonly preview: ReleasePreview
}

/** An endpoint that the configuration does not name. `keep`: without `--remove`. */
export interface Leftover {
  readonly action: "remove" | "keep"
  readonly id: string
}

/** What a deployment would do, in the order of the configuration. */
export interface Plan {
  readonly deployments: ReadonlyArray<Deployment>
  readonly leftovers: ReadonlyArray<Leftover>
}

/** What is compared. */
export interface PlanOptions {
  readonly specs: ReadonlyArray<EndpointSpec>
  /** Only these endpoints; empty: all. */
  readonly only: ReadonlyArray<string>
  /** Whether endpoints that the configuration does not name are removed. */
  readonly remove: boolean
}

const unknownEndpoint = (id: string, known: ReadonlyArray<string>) =>
  new CliFailure({
    message: `Neither the configuration nor the platform has an endpoint "${id}".`,
    hint: `The configuration has ${known.length === 0 ? "none" : known.join(", ")}.${didYouMean(id, known)}`,
    code: "endpoint-not-found"
  })

const planOne = Effect.fnUntraced(function*(spec: EndpointSpec): Effect.fn.Return<
  Deployment,
  CliFailure,
  PlatformClient
> {
  const preview = yield* call((api) => api.releases.previewRelease({ params: { endpoint: spec.id }, payload: { spec } }))
  return { action: preview.active === undefined ? "create" : preview.changes ? "change" : "none", id: spec.id, spec, preview }
})

/** Fails with all errors at once, because all of them must be corrected before anything is deployed. */
const failTogether = (failures: ReadonlyArray<readonly [string, CliFailure]>): CliFailure => {
  const [first] = failures
  if (first === undefined || failures.length === 1) return first?.[1] ?? new CliFailure({ message: "", hint: "" })
  return new CliFailure({
    message: `${failures.length} endpoints cannot be deployed. Nothing was changed.`,
    hint: failures.map(([id, { hint, message }]) => `${id}: ${message}${hint === "" ? "" : ` ${hint}`}`).join("\n")
  })
}

/** Compares. Changes nothing. */
export const make = Effect.fnUntraced(function*({ only, remove, specs }: PlanOptions) {
  const { endpoints } = yield* call((api) => api.control.listEndpoints())
  const named = new Set<string>(specs.map(({ id }) => id))
  const others = endpoints.filter(({ id }: Endpoint) => !named.has(id)).map(({ id }): string => id)
  const unknown = only.find((id) => !named.has(id) && !others.includes(id))
  if (unknown !== undefined) return yield* unknownEndpoint(unknown, [...named])
  const isChosen = (id: string) => only.length === 0 || only.includes(id)
  const deployments: Array<Deployment> = []
  const failures: Array<readonly [string, CliFailure]> = []
  for (const spec of specs.filter(({ id }) => isChosen(id))) {
    const planned = yield* Effect.result(planOne(spec))
    if (planned._tag === "Success") deployments.push(planned.success)
    // If the platform is unreachable, every endpoint fails in the same way.
    else if (planned.failure.code === "unreachable") return yield* planned.failure
    else failures.push([spec.id, planned.failure])
  }
  if (failures.length > 0) return yield* failTogether(failures)
  const leftovers = others.filter(isChosen).map((id): Leftover => ({ action: remove ? "remove" : "keep", id }))
  return { deployments, leftovers } satisfies Plan
})

/** Whether there is anything to do. */
export const isEmpty = ({ deployments, leftovers }: Plan): boolean =>
  deployments.every(({ action }) => action === "none") && leftovers.every(({ action }) => action === "keep")

const decodeSpec = Schema.decodeUnknownSync(EndpointSpec)

/** The non-default settings of a new endpoint, and its source. */
const chosenSettings = ({ preview, spec }: Deployment) => {
  const chosen = new Set(diffSettings(decodeSpec({ id: spec.id, source: spec.source }), spec).map(({ path }) => path))
  return preview.settings.filter(({ path }) => chosen.has(path) || path.startsWith("source."))
}

const deploymentLines = (deployment: Deployment): ReadonlyArray<string> => {
  const { action, id, preview } = deployment
  if (action === "none") return [`${id}  no changes (release ${preview.active})`]
  if (action === "change") return [`${id}  at release ${preview.active}`, ...changeLines(preview)]
  return [`${id}  new`, ...changeLines({ ...preview, settings: chosenSettings(deployment) })]
}

const leftoverLine = ({ action, id }: Leftover): string =>
  action === "remove"
    ? `${Output.inline(id)}  not in the configuration: it will be removed, with its ended jobs`
    : `${Output.inline(id)}  not in the configuration: it is kept (--remove removes it)`

/** The plan as text, starting with unchanged endpoints. */
export const format = ({ deployments, leftovers }: Plan): string => {
  const quiet = [
    ...deployments.filter(({ action }) => action === "none").flatMap(deploymentLines),
    ...leftovers.map(leftoverLine)
  ]
  const loud = deployments.filter(({ action }) => action !== "none").map((one) => deploymentLines(one).join("\n"))
  return [...(quiet.length === 0 ? [] : [quiet.join("\n")]), ...loud].join("\n\n")
}

/** One endpoint of the plan as `--json` prints it. Values of secret variables are hidden. */
export interface PlannedJson {
  readonly endpoint: string
  readonly action: Deployment["action"] | Leftover["action"]
  readonly preview?: ReleasePreview
}

/** The plan as `--json` prints it. */
export const toJson = ({ deployments, leftovers }: Plan): ReadonlyArray<PlannedJson> => [
  ...deployments.map(({ action, id, preview }) => ({
    endpoint: id,
    action,
    preview: { ...preview, settings: preview.settings.map(maskChange) }
  })),
  ...leftovers.map(({ action, id }) => ({ endpoint: id, action }))
]
