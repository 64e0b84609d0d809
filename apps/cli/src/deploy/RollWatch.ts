/**
 * Follows a release until it is active or has failed.
 *
 * ```
 *   rolling ---> active      exit code 0
 *           ---> failed      exit code 1: the earlier release keeps serving
 *           ---> superseded  exit code 1: another deployment has replaced it
 * ```
 *
 * The platform continues the rollout even if this command does not watch.
 */
import type { Release } from "@stint/contract/Release"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"

/** How often the release is read. */
const POLL = "250 millis"

/** How many seconds the platform may be down during the rollout. A restarted platform continues the rollout. */
const OUTAGE_SECONDS = 30

const read = ({ endpoint, number }: Release) =>
  Effect.retry(call((api) => api.releases.getRelease({ params: { endpoint, number } })), {
    schedule: Schedule.spaced("1 second"),
    times: OUTAGE_SECONDS,
    while: ({ code }) => code === "unreachable"
  })

/** After this time, the progress also says what the first worker waits for. Milliseconds. */
const SLOW = 2_000

/** Why no worker can be started; undefined if there is no reason, or if it cannot be read. */
const problemOf = ({ endpoint }: Release) =>
  call((api) => api.overview.overviewOfEndpoint({ params: { endpoint } })).pipe(
    Effect.map(({ problem }) => problem),
    Effect.orElseSucceed(() => undefined)
  )

const failed = ({ endpoint, number, reason }: Release) =>
  new CliFailure({
    message: `Release ${number} of "${endpoint}" failed. The earlier release keeps serving.`,
    hint: `${reason ?? "The platform gave no reason."}\nCorrect it and deploy again. All releases: stint releases ${endpoint}`,
    code: "release-failed"
  })

const replaced = ({ endpoint, number }: Release) =>
  new CliFailure({
    message: `Release ${number} of "${endpoint}" was replaced by a later deployment before it was ready.`,
    hint: `See: stint releases ${endpoint}`,
    code: "release-replaced"
  })

/** What a followed release does from now on. */
export const deployedText = ({ canary, endpoint, number, state }: Release): string =>
  state === "canary" && canary !== undefined
    ? `${endpoint}  release ${number} gets ${canary.percent} % of the jobs as soon as its first worker is ready\n` +
      `  Watch it: stint releases ${endpoint}. All jobs: stint releases promote ${endpoint}. None: stint rollback ${endpoint}`
    : `${endpoint}  release ${number} is active`

/** Waits until the release is active. Does not wait for a canary. Fails when it does not become active. */
export const follow = Effect.fnUntraced(function*(deployed: Release) {
  const progress = Output.makeProgress()
  const since = yield* Clock.currentTimeMillis
  let release = deployed
  const step = Effect.gen(function*() {
    const elapsed = (yield* Clock.currentTimeMillis) - since
    const problem = elapsed < SLOW ? undefined : yield* problemOf(release)
    yield* progress.show(
      `${release.endpoint}  release ${release.number}: ${
        problem === undefined ? "its first worker is starting" : `its first worker waits. ${problem}`
      }`,
      elapsed
    )
    yield* Effect.sleep(POLL)
    release = yield* read(release)
  })
  while (release.state === "rolling") yield* step
  yield* progress.clear
  if (release.state === "failed") return yield* failed(release)
  if (release.state === "superseded") return yield* replaced(release)
  return release
}, (watch, { endpoint, number }) =>
  Effect.onInterrupt(watch, () =>
    Output.message(
      `\nStopped watching. The platform continues with release ${number} of "${endpoint}": stint releases show ${endpoint} ${number}`
    )))
