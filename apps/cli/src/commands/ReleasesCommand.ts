/**
 * `stint releases` lists the releases of an endpoint, and shows one.
 */
import type { CanaryStatus, Release } from "@stint/contract/Release"
import { summaryOfExit } from "@stint/pool/WorkerExit"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import { changeLines, summaryOf } from "../deploy/ChangeText.ts"
import { maskEnv } from "../deploy/HiddenVariables.ts"
import { changesBetween, replacedBy } from "../deploy/ReleaseHistory.ts"
import * as RollWatch from "../deploy/RollWatch.ts"
import { confirm } from "../output/Confirm.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json, yes } from "./SharedFlags.ts"

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const firstLine = (text: string): string => text.split("\n", 1)[0] ?? ""

/** Requests one more release, so that the list can show what its last release changed. */
const ONE_MORE = 1

const DEFAULT_LIMIT = 20

/** The maximum that the platform returns at once. */
const MAX_LIMIT = 100

/** Why the release was made: the message, and the release to which it rolled back. */
const whyText = ({ message, rollbackOf }: Release): string =>
  [...(rollbackOf === undefined ? [] : [`rollback to ${rollbackOf}`]), ...(message === undefined ? [] : [firstLine(message)])]
    .join(": ")

const changedText = (releases: ReadonlyArray<Release>, release: Release, isComplete: boolean): string => {
  const before = replacedBy(releases, release)
  if (before !== undefined) return summaryOf(changesBetween(before, release))
  return isComplete ? "new" : "-"
}

const ratio = ({ failed, jobs }: CanaryStatus["canary"]): string =>
  jobs === 0 ? "no attempts" : `${failed} of ${jobs} attempts failed (${Math.round((failed / jobs) * 1_000) / 10} %)`

/** The results of the canary. */
const canaryText = (endpoint: string, { active, canary, percent, release }: CanaryStatus): string =>
  `Release ${release} is a canary with ${percent} % of the jobs: ${ratio(canary)}; of the active release, ${ratio(active)}.\n` +
  `All jobs: stint releases promote ${endpoint}. None: stint rollback ${endpoint}`

const formatList = (endpoint: string, all: ReadonlyArray<Release>, limit: number, canary?: CanaryStatus): string => {
  if (all.length === 0) return `"${endpoint}" has no releases: its workers always run the current files.`
  const shown = all.slice(0, limit)
  const table = Output.table([
    ["RELEASE", "STATE", "WHEN (UTC)", "WHO", "CHANGED", "WHY"],
    ...shown.map((one) => [
      String(one.number),
      one.state,
      timeText(one.createdAt),
      one.createdBy,
      changedText(all, one, all.length <= limit),
      whyText(one)
    ])
  ])
  const failures = shown.flatMap(({ number, reason, state }) =>
    state === "failed" && reason !== undefined ? [`Release ${number} failed: ${summaryOfExit(reason)}`] : []
  )
  const notes = [...(canary === undefined ? [] : [canaryText(endpoint, canary)]), ...failures]
  return [table, ...(notes.length === 0 ? [] : ["", ...notes])].join("\n")
}

const masked = (release: Release): Release => ({ ...release, settings: maskEnv(release.settings) })

const formatOne = (release: Release, before: Release | undefined): string => {
  const lines = [
    Output.field("release", `${release.number} of ${release.endpoint}`),
    Output.field("state", release.state),
    Output.field("made", `${timeText(release.createdAt)} by ${release.createdBy}`)
  ]
  if (release.activatedAt !== undefined) lines.push(Output.field("active", `since ${timeText(release.activatedAt)}`))
  const why = whyText(release)
  if (why !== "") lines.push(Output.field("why", why))
  if (release.reason !== undefined) lines.push(Output.field("reason", release.reason))
  const changes = before === undefined ? [] : changeLines(changesBetween(before, release))
  lines.push(
    ...(before === undefined
      ? changeLines(changesBetween(undefined, release))
      : [`since release ${before.number}:`, ...(changes.length === 0 ? ["  nothing"] : changes)])
  )
  return lines.join("\n")
}

const show = Command.make(
  "show",
  { endpoint, number: Argument.Int("number").pipe(Argument.withDescription("The release's number")), json },
  Effect.fnUntraced(function*({ endpoint, json, number }) {
    const release = yield* call((api) => api.releases.getRelease({ params: { endpoint, number } }))
    if (json) return yield* Output.print(true, masked(release), () => "")
    const { releases } = yield* call((api) =>
      api.releases.listReleases({ params: { endpoint }, query: { limit: MAX_LIMIT, before: number } })
    )
    yield* Output.text(formatOne(release, replacedBy(releases, release)))
  })
).pipe(Command.withDescription("Show a release, and what it changed"))

const promote = Command.make(
  "promote",
  { endpoint, yes, json },
  Effect.fnUntraced(function*({ endpoint, json, yes }) {
    const { canary } = yield* call((api) => api.control.getEndpoint({ params: { endpoint } }))
    const text = canary === undefined
      ? `Give all jobs of "${endpoint}" to its canary?`
      : `Give all jobs of "${endpoint}" to release ${canary.release}, which has ${canary.percent} % of them?`
    if (!(yield* confirm({ text, yes, json }))) return yield* Output.message("Nothing was changed.")
    const active = yield* RollWatch.follow(yield* call((api) => api.releases.promote({ params: { endpoint } })))
    yield* Output.print(json, masked(active), ({ number }) => `${endpoint}  release ${number} is active`)
  })
).pipe(Command.withDescription("Give all jobs to the canary of an endpoint"))

/** `stint releases`. */
export const releases = Command.make(
  "releases",
  {
    endpoint,
    limit: Flag.Int("limit").pipe(
      Flag.withDescription(`Number of releases, 1 to ${MAX_LIMIT}; default ${DEFAULT_LIMIT}`),
      Flag.withDefault(DEFAULT_LIMIT)
    ),
    before: Flag.Int("before").pipe(Flag.withDescription("Only releases with a lower number"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ before, endpoint, json, limit }) {
    const page = yield* call((api) =>
      api.releases.listReleases({
        params: { endpoint },
        query: {
          limit: json ? limit : Math.min(MAX_LIMIT, limit + ONE_MORE),
          ...(Option.isSome(before) ? { before: before.value } : {})
        }
      })
    )
    yield* json
      ? Output.print(true, { ...page, releases: page.releases.map(masked) }, () => "")
      : Output.text(formatList(endpoint, page.releases, limit, page.canary))
  })
).pipe(
  Command.withDescription("List the releases of an endpoint: state, time, author, changes and message"),
  Command.withSubcommands([show, promote])
)
