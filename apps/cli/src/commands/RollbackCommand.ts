/**
 * `stint rollback` deploys an earlier release of an endpoint (docs/operations/deploy.md#rolling-back). The platform has stored its code, so
 * the handler's files are not needed.
 */
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import { changeLines } from "../deploy/ChangeText.ts"
import { maskEnv } from "../deploy/HiddenVariables.ts"
import { changesBetween, rollbackTarget } from "../deploy/ReleaseHistory.ts"
import * as RollWatch from "../deploy/RollWatch.ts"
import { confirm } from "../output/Confirm.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json, message, yes } from "./SharedFlags.ts"

/** The platform stores 20 releases of an endpoint. */
const LIST_LIMIT = 100

export const command = Command.make(
  "rollback",
  {
    endpoint,
    to: Flag.Int("to").pipe(
      Flag.withDescription("The release to return to; default: the newest earlier release that was active"),
      Flag.optional
    ),
    message,
    yes,
    json
  },
  Effect.fnUntraced(function*({ endpoint, json, message, to, yes }) {
    const now = yield* call((api) => api.control.getEndpoint({ params: { endpoint } }))
    const { releases } = yield* call((api) => api.releases.listReleases({ params: { endpoint }, query: { limit: LIST_LIMIT } }))
    const target = Option.isSome(to)
      ? yield* call((api) => api.releases.getRelease({ params: { endpoint, number: to.value } }))
      : rollbackTarget(releases, now)
    if (target === undefined) {
      return yield* new CliFailure({
        message: `"${endpoint}" has no earlier release that was active.`,
        hint: `Name a release with --to: stint releases ${endpoint}`,
        code: "release-not-found"
      })
    }
    const current = releases.find(({ number }) => number === now.release)
    if (!json) {
      const changes = changeLines(changesBetween(current, target))
      yield* Output.text([
        `${endpoint}  from release ${now.release ?? "-"} back to release ${target.number}`,
        ...(changes.length === 0 ? ["  nothing differs"] : changes)
      ].join("\n"))
    }
    if (!(yield* confirm({ text: "\nRoll back?", yes, json }))) return yield* Output.message("Nothing was rolled back.")
    const made = yield* call((api) =>
      api.releases.rollback({
        params: { endpoint },
        payload: { to: target.number, ...(Option.isSome(message) ? { message: message.value } : {}) }
      })
    )
    const active = yield* RollWatch.follow(made)
    yield* Output.print(
      json,
      { ...active, settings: maskEnv(active.settings) },
      ({ number }) => `${endpoint}  release ${number} is active: release ${target.number} again`
    )
  })
).pipe(
  Command.withDescription("Return an endpoint to an earlier release"),
  Command.withExamples([
    { command: "stint rollback words", description: "To the previous release" },
    {
      command: "stint rollback words --to 3 -m \"Release 4 loses hyphens\" --yes",
      description: "To a specific release, with a message"
    }
  ])
)
