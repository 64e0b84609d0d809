/**
 * `stint errors` lists failures grouped by error, and marks groups as corrected.
 */
import type { ErrorGroup, ErrorGroupDetail } from "@stint/contract/ErrorGroup"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json, since } from "./SharedFlags.ts"

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

/** The releases of a group, in ascending order: `3, 5`; `-` when none is known. */
const releasesOf = ({ releases }: ErrorGroup): string => {
  const numbers = releases.flatMap(({ release }) => release === undefined ? [] : [release]).sort((a, b) => a - b)
  return numbers.length === 0 ? "-" : numbers.join(", ")
}

const titleOf = ({ message, type }: ErrorGroup): string => type === undefined ? message : `${type}: ${message}`

const stateOf = ({ reopenedAt, state }: ErrorGroup): string => state === "open" && reopenedAt !== undefined ? "open again" : state

const rowOf = (group: ErrorGroup): ReadonlyArray<string> => [
  group.endpoint,
  group.fingerprint,
  stateOf(group),
  String(group.count),
  timeText(group.firstSeen),
  timeText(group.lastSeen),
  releasesOf(group),
  titleOf(group).slice(0, 80)
]

const whereOf = ({ endpoint, fingerprint }: ErrorGroup): string =>
  `endpoint:${Output.inline(endpoint)} error-group:${Output.inline(fingerprint)}`

const text = (group: ErrorGroup): string =>
  Output.table([
    ["error", titleOf(group)],
    ["endpoint", group.endpoint],
    ["fingerprint", group.fingerprint],
    ...group.frames.map((frame, index) => [index === 0 ? "in" : "", frame]),
    ["state", stateOf(group)],
    ...(group.resolved === undefined ? [] : [[
      "resolved",
      `${timeText(group.resolved.at)} by ${group.resolved.by}; ${
        group.resolved.release === undefined
          ? "any failure opens it again"
          : `failures of releases after ${group.resolved.release} open it again`
      }`
    ]]),
    ...(group.reopenedAt === undefined ? [] : [["open again", `since ${timeText(group.reopenedAt)}`]]),
    ["failures", String(group.count)],
    ["first seen", timeText(group.firstSeen) + (group.firstRelease === undefined ? "" : ` in release ${group.firstRelease}`)],
    ["last seen", timeText(group.lastSeen)]
  ])

const detailText = (group: ErrorGroupDetail): string =>
  [
    text(group),
    "",
    Output.table([
      ["RELEASE", "FAILURES", "FIRST SEEN", "LAST SEEN"],
      ...group.releases.map(({ count, firstSeen, lastSeen, release }) => [
        release === undefined ? "-" : String(release),
        String(count),
        timeText(firstSeen),
        timeText(lastSeen)
      ])
    ]),
    "",
    group.samples.length === 0
      ? "Its last failed jobs were removed."
      : Output.table([
        ["JOB", "STATUS", "SUBMITTED", ""],
        ...group.samples.map(({ createdAt, error, id, status }) => [
          id,
          status,
          timeText(createdAt),
          (error ?? "").split("\n", 1)[0]?.slice(0, 60) ?? ""
        ])
      ]),
    "",
    `Its jobs: stint jobs '${whereOf(group)}'`,
    `Run them again: stint jobs retry --where '${whereOf(group)}'`,
    `Mark it as corrected: stint errors resolve ${Output.inline(group.endpoint)} ${Output.inline(group.fingerprint)}`
  ].join("\n")

const fingerprint = Argument.String("fingerprint").pipe(Argument.withDescription("Fingerprint of the group"))

const show = Command.make(
  "show",
  { endpoint, fingerprint, json },
  Effect.fnUntraced(function*({ endpoint, fingerprint, json }) {
    const group = yield* call((api) => api.errors.getError({ params: { endpoint, fingerprint } }))
    yield* Output.print(json, group, detailText)
  })
).pipe(Command.withDescription("Show a group with its releases and its last failed jobs; times are UTC"))

const resolve = Command.make(
  "resolve",
  {
    endpoint,
    fingerprint,
    release: Flag.Int("release").pipe(
      Flag.withDescription("The last release with the fault; default: the endpoint's release"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ endpoint, fingerprint, json, release }) {
    const payload = Option.isSome(release) ? { release: release.value } : {}
    const group = yield* call((api) => api.errors.resolveError({ params: { endpoint, fingerprint }, payload }))
    yield* Output.print(json, group, text)
  })
).pipe(
  Command.withDescription("Mark a fault as corrected; a failure of a later release opens the group again"),
  Command.withExamples([
    {
      command: "stint errors resolve resize 9f2b6c1d4e5a7083 --release 12",
      description: "Release 13 corrects it"
    }
  ])
)

const reopen = Command.make(
  "reopen",
  { endpoint, fingerprint, json },
  Effect.fnUntraced(function*({ endpoint, fingerprint, json }) {
    const group = yield* call((api) => api.errors.reopenError({ params: { endpoint, fingerprint } }))
    yield* Output.print(json, group, text)
  })
).pipe(Command.withDescription("Undo a resolution"))

/** `stint errors` and its subcommands. */
export const errors = Command.make(
  "errors",
  {
    endpoint: endpoint.pipe(Argument.optional),
    sinceRelease: Flag.String("since-release").pipe(
      Flag.withMetavar("release"),
      Flag.withDescription("Only errors that were seen in this release or a later one: its number, or latest"),
      Flag.optional
    ),
    release: Flag.Int("release").pipe(Flag.withDescription("Only errors that were seen in this release"), Flag.optional),
    since: since("since").pipe(
      Flag.withDescription("Only errors that were seen since this time: 2h, 7d, or 2026-11-22"),
      Flag.optional
    ),
    state: Flag.Literals("state", ["open", "resolved"]).pipe(Flag.withDescription("Only errors in this state"), Flag.optional),
    limit: Flag.Int("limit").pipe(Flag.withDescription("Number of errors, 1 to 200; default 50"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ endpoint, json, limit, release, since, sinceRelease, state }) {
    const query = {
      ...(Option.isSome(endpoint) ? { endpoint: endpoint.value } : {}),
      ...(Option.isSome(sinceRelease) ? { sinceRelease: sinceRelease.value } : {}),
      ...(Option.isSome(release) ? { release: release.value } : {}),
      ...(Option.isSome(since) ? { since: since.value } : {}),
      ...(Option.isSome(state) ? { state: state.value } : {}),
      ...(Option.isSome(limit) ? { limit: limit.value } : {})
    }
    const found = yield* call((api) => api.errors.listErrors({ query }))
    yield* Output.print(json, found, ({ groups, more, removed }) =>
      [
        groups.length === 0
          ? "No errors."
          : Output.table([
            ["ENDPOINT", "FINGERPRINT", "STATE", "FAILURES", "FIRST SEEN", "LAST SEEN", "RELEASES", "ERROR"],
            ...groups.map(rowOf)
          ]),
        ...(more ? ["", "More errors match: add --limit, or a filter."] : []),
        ...removed.map(({ endpoint, groups }) =>
          `${Output.inline(endpoint)}: ${groups} ${
            groups === 1 ? "error was" : "errors were"
          } removed, because it had more than 200.`
        )
      ].join("\n"))
  })
).pipe(
  Command.withDescription("List failures grouped by error, last seen first; times are UTC"),
  Command.withExamples([
    { command: "stint errors resize --since-release latest", description: "Failures since the last release" },
    { command: "stint errors --state open --since 24h", description: "Failures since yesterday, on all endpoints" }
  ]),
  Command.withSubcommands([show, resolve, reopen])
)
