/**
 * `stint deploy` deploys the endpoints of a configuration (docs/operations/deploy.md).
 *
 * ```
 *   configuration --preview--> what differs --shown, confirmed--> a release of each endpoint that differs, one after the other
 *                                                                       |
 *                                                            followed until it is active
 * ```
 *
 * The first release that fails ends the command; the endpoints after it do not change.
 */
import type { Release } from "@stint/contract/Release"
import { Argument, Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as DeployPlan from "../deploy/DeployPlan.ts"
import { maskEnv } from "../deploy/HiddenVariables.ts"
import * as PipelineChanges from "../deploy/PipelineChanges.ts"
import * as RollWatch from "../deploy/RollWatch.ts"
import { confirm } from "../output/Confirm.ts"
import * as Output from "../output/Output.ts"
import * as Project from "../plugins/Project.ts"
import type { ScheduleContribution } from "../plugins/SchedulePlan.ts"
import * as SchedulePlan from "../plugins/SchedulePlan.ts"
import { canaryFlags, canaryOf } from "./CanaryFlags.ts"
import { json, message as messageFlag, yes } from "./SharedFlags.ts"

/** The configuration of a project that `stint init` wrote. */
const DEFAULT_CONFIG = "stint.config.ts"

const configFile = Effect.fnUntraced(function*(given: Option.Option<string>) {
  if (Option.isSome(given)) return given.value
  const fs = yield* FileSystem.FileSystem
  if (yield* Effect.orElseSucceed(fs.exists(DEFAULT_CONFIG), () => false)) return DEFAULT_CONFIG
  return yield* new CliFailure({
    message: `There is no ${DEFAULT_CONFIG} in this folder.`,
    hint: "Run the command in the folder of your configuration, or name it: stint deploy --config FILE",
    code: "no-configuration"
  })
})

const CONFLICT = 409

/** The result for one endpoint. */
interface Done extends DeployPlan.PlannedJson {
  readonly release?: Release
}

const withHint = ({ code, message, status }: CliFailure, hint: string) =>
  new CliFailure({
    message,
    hint,
    ...(code === undefined ? {} : { code }),
    ...(status === undefined ? {} : { status })
  })

/** The platform's hint for a conflict is for programs that call it. */
const withWayOut = (failure: CliFailure) =>
  failure.status === CONFLICT
    ? withHint(failure, "Run the command again: it shows what differs from that release.")
    : failure

const hasFailed = (release: Release, cause: CliFailure, rest: ReadonlyArray<string>) =>
  rest.length === 0
    ? cause
    : withHint(cause, `${cause.hint}\nNot deployed, because ${release.endpoint} failed: ${rest.join(", ")}`)

/** Compares the schedules that packages contribute with those of the platform. `only`: the endpoints to compare; empty: all. */
const schedulePlan = Effect.fnUntraced(function*(declared: ReadonlyArray<ScheduleContribution>, only: ReadonlyArray<string>) {
  const isChosen = ({ endpoint }: { readonly endpoint: string }) => only.length === 0 || only.includes(endpoint)
  const list = Effect.map(call((api) => api.schedules.listSchedules({ query: {} })), ({ schedules }) => schedules)
  // If packages contribute no schedules, it does not matter that a platform or a key cannot list schedules.
  const stored = yield* declared.length === 0 ? Effect.orElseSucceed(list, () => []) : list
  return SchedulePlan.make(stored.filter(isChosen), declared.filter(isChosen), yield* Clock.currentTimeMillis)
})

const scheduleLines = (plan: SchedulePlan.SchedulePlan): ReadonlyArray<string> => [
  ...plan.set.map(({ endpoint, isNew, name, package: from }) =>
    `${endpoint}  ${isNew ? "new" : "changed"} schedule ${name}, from the package ${from}`
  ),
  ...SchedulePlan.keptLines(plan).map(Output.inline)
]

const FORBIDDEN = 403

/** How the plan affects open runs of pipelines. A key that may deploy may lack the permission to read jobs; in that case, nothing is compared. */
const openRuns = (planned: ReadonlyArray<DeployPlan.Deployment>) =>
  PipelineChanges.compare(planned.filter(({ action }) => action === "change").map(({ spec }) => spec)).pipe(
    Effect.catchIf(({ status }: CliFailure) => status === FORBIDDEN, () => Effect.succeed([])),
    Effect.map((changes) => changes.filter(({ open }) => open > 0))
  )

/** The schedules of the plan as `--json` prints them. Absent when no package has contributed any. */
const schedulesJson = ({ own, set, undeclared }: SchedulePlan.SchedulePlan) =>
  set.length + own.length + undeclared.length === 0 ? {} : {
    schedules: [
      ...set.map(({ endpoint, isNew, name }) => ({ endpoint, schedule: name, action: isNew ? "create" : "change" })),
      ...[...own, ...undeclared].map(({ endpoint, name }) => ({ endpoint, schedule: name, action: "keep" }))
    ]
  }

export const command = Command.make(
  "deploy",
  {
    endpoints: Argument.String("endpoint").pipe(
      Argument.withDescription("Only these endpoints of the configuration; default: all"),
      Argument.variadic()
    ),
    config: Flag.String("config").pipe(
      Flag.withDescription(`A file with \`export default defineConfig({ endpoints })\`; default: ${DEFAULT_CONFIG}`),
      Flag.optional
    ),
    message: messageFlag,
    ...canaryFlags,
    expected: Flag.Int("expected").pipe(
      Flag.withDescription("Fail unless the endpoint is at this release; 0: fail if it exists. Only with a single endpoint"),
      Flag.optional
    ),
    remove: Flag.Boolean("remove").pipe(
      Flag.withDescription("Also remove endpoints that the configuration does not name, if they have no waiting or running jobs"),
      Flag.withDefault(false)
    ),
    yes,
    json
  },
  Effect.fnUntraced(function*({ canary, canaryJobs, canaryPoints, config, endpoints, expected, json, message, remove, yes }) {
    const rule = yield* canaryOf({ canary, canaryJobs, canaryPoints })
    const { endpoints: specs, schedules } = yield* Project.load(yield* configFile(config))
    const plan = yield* DeployPlan.make({ specs, only: endpoints, remove })
    const planSchedules = yield* schedulePlan(schedules, endpoints)
    const planned = plan.deployments.filter(({ action }) => action !== "none")
    if (Option.isSome(expected) && plan.deployments.length !== 1) {
      return yield* new CliFailure({
        message: `--expected applies to a single endpoint, but ${plan.deployments.length} endpoints are compared.`,
        hint: "Name the endpoint: stint deploy ENDPOINT --expected NUMBER",
        code: "usage"
      })
    }
    const changes = yield* openRuns(planned)
    const asJson = {
      endpoints: DeployPlan.toJson(plan),
      ...schedulesJson(planSchedules),
      ...(changes.length === 0 ? {} : { pipelines: changes })
    }
    if (!json) yield* Output.text([DeployPlan.format(plan), ...scheduleLines(planSchedules)].join("\n"))
    if (!json && changes.length > 0) yield* Output.text(`\nOpen runs of pipelines:\n${PipelineChanges.format(changes)}`)
    if (DeployPlan.isEmpty(plan) && planSchedules.set.length === 0) {
      return yield* json
        ? Output.print(true, asJson, () => "")
        : Output.text("\nNothing to deploy.")
    }
    const agreed = yield* confirm({ text: "\nDeploy?", yes, json }).pipe(
      Effect.tapError(() => json ? Output.print(true, asJson, () => "") : Effect.void)
    )
    if (!agreed) return yield* Output.message("Nothing was deployed.")

    const releases = new Map<string, Release>()
    for (const [index, { id, preview, spec }] of planned.entries()) {
      const release = yield* call((api) =>
        api.releases.deployRelease({
          params: { endpoint: id },
          payload: {
            spec,
            // Must not overwrite a deployment made since the comparison.
            expected: Option.getOrElse(expected, () => preview.active ?? 0),
            ...(Option.isSome(message) ? { message: message.value } : {}),
            ...(rule === undefined ? {} : { canary: rule })
          }
        })
      ).pipe(Effect.mapError(withWayOut))
      const active = yield* RollWatch.follow(release).pipe(
        Effect.mapError((cause) => hasFailed(release, cause, planned.slice(index + 1).map((one) => one.id)))
      )
      releases.set(id, { ...active, settings: maskEnv(active.settings) })
      if (!json) yield* Output.text(RollWatch.deployedText(active))
    }
    for (const { action, id } of plan.leftovers) {
      if (action !== "remove") continue
      yield* call((api) => api.control.deleteEndpoint({ params: { endpoint: id } }))
      if (!json) yield* Output.text(`${Output.inline(id)}  removed`)
    }
    for (const { endpoint, name, spec } of planSchedules.set) {
      yield* call((api) => api.schedules.putSchedule({ params: { endpoint, schedule: name }, payload: spec }))
      if (!json) yield* Output.text(`${endpoint}  schedule ${name} is set`)
    }
    if (!json) return
    const done = DeployPlan.toJson(plan).map((one): Done => {
      const release = releases.get(one.endpoint)
      return release === undefined ? one : { ...one, release }
    })
    yield* Output.print(true, { ...asJson, endpoints: done }, () => "")
  })
).pipe(
  Command.withDescription("Deploy the endpoints of a configuration: show what differs, ask, and roll out the release"),
  Command.withExamples([
    { command: "stint deploy", description: "Deploy what differs from stint.config.ts" },
    { command: "stint deploy words -m \"Count hyphens\"", description: "One endpoint, and why" },
    { command: "stint deploy words --canary 10", description: "Only 10 % of its jobs, rolled back when more of them fail" },
    { command: "stint deploy --yes --json", description: "In CI" },
    { command: "stint deploy --remove", description: "Also remove endpoints that the configuration no longer names" }
  ])
)
