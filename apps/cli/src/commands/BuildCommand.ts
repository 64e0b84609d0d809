/**
 * `stint build` builds an endpoint from its repository, shows the log, and follows the release (docs/operations/builds.md).
 */
import { type Build, BuildLogEvent, type BuildLogLine, hasEnded } from "@stint/contract/Build"
import { RETRY_MILLIS } from "@stint/contract/JobEvents"
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { failWith, gone, isTemporary, MAX_FAILURES, NO_MORE } from "../client/EventConnection.ts"
import { call } from "../client/PlatformClient.ts"
import { readEvents } from "../client/SseReader.ts"
import { CliFailure } from "../CliFailure.ts"
import { maskEnv } from "../deploy/HiddenVariables.ts"
import * as RollWatch from "../deploy/RollWatch.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json, message } from "./SharedFlags.ts"

const decodeEvent = Schema.decodeUnknownOption(BuildLogEvent)

/** Prints the log of a build until the build has ended. After a lost connection, it resumes after the last line. */
export const followLog = Effect.fnUntraced(function*(
  { endpoint, number }: Pick<Build, "endpoint" | "number">,
  after: number,
  print: (line: BuildLogLine) => Effect.Effect<void>
) {
  const progress = { cursor: after, hasEnded: false, failures: 0 }
  const connect = Effect.gen(function*() {
    const response = yield* call((api) =>
      api.builds.buildLogEvents({
        params: { endpoint, number },
        query: { after: progress.cursor },
        responseMode: "response-only"
      })
    )
    if (response.status === NO_MORE) {
      progress.hasEnded = true
      return
    }
    if (response.status !== 200) return yield* failWith(response.status, response.json)
    yield* readEvents(response.stream, (found) => {
      progress.failures = 0
      // A newer platform may send events that this version does not know.
      const event = Option.getOrUndefined(decodeEvent(found))
      if (event?.event === "end") progress.hasEnded = true
      if (event?.event !== "line") return Effect.void
      progress.cursor = event.data.number
      return print(event.data)
    })
  })
  // A wrong key or build is an error, not a lost connection.
  yield* connect
  while (!progress.hasEnded) {
    if (progress.failures++ >= MAX_FAILURES) return yield* gone
    yield* Effect.sleep(RETRY_MILLIS)
    yield* Effect.catchIf(connect, isTemporary, () => Effect.void)
  }
})

/** The error for a build that did not succeed. */
const buildFailure = ({ endpoint, number, reason, state }: Build) =>
  new CliFailure({
    message: `Build ${number} of "${endpoint}" ${state === "cancelled" ? "was cancelled" : "failed"}: ${
      reason ?? "no reason was stored"
    }`,
    hint: `The log: stint builds logs ${endpoint} ${number}`,
    code: `build-${state}`
  })

export const command = Command.make(
  "build",
  {
    endpoint,
    ref: Flag.String("ref").pipe(
      Flag.withDescription("A branch, a tag or a commit; default: the one in the build settings"),
      Flag.optional
    ),
    message,
    detach: Flag.Boolean("detach").pipe(Flag.withDescription("Start the build and do not wait"), Flag.withDefault(false)),
    json
  },
  Effect.fnUntraced(function*({ detach, endpoint, json, message, ref }) {
    const started = yield* call((api) =>
      api.builds.startBuild({
        params: { endpoint },
        payload: {
          ...(Option.isSome(ref) ? { ref: ref.value } : {}),
          ...(Option.isSome(message) ? { message: message.value } : {})
        }
      })
    )
    const { number } = started
    if (detach) {
      return yield* Output.print(
        json,
        started,
        () => `Started build ${number} of ${endpoint}. Its log: stint builds logs ${endpoint} ${number} --follow`
      )
    }
    const read = call((api) => api.builds.getBuild({ params: { endpoint, number } }))
    yield* followLog(started, 0, ({ text }) => json ? Effect.void : Output.text(Output.inline(text))).pipe(
      Effect.onInterrupt(() =>
        Output.message(`\nStopped watching. The build continues. Cancel it: stint builds cancel ${endpoint} ${number}`)
      )
    )
    const build = yield* read
    const { release } = build
    if (!hasEnded(build) || build.state !== "succeeded" || release === undefined) return yield* buildFailure(build)
    const active = yield* RollWatch.follow(
      yield* call((api) => api.releases.getRelease({ params: { endpoint, number: release } }))
    )
    yield* Output.print(
      json,
      { ...build, release: { ...active, settings: maskEnv(active.settings) } },
      () => RollWatch.deployedText(active)
    )
  })
).pipe(
  Command.withDescription("Build an endpoint from its Git repository, and deploy it"),
  Command.withExamples([
    {
      command: "stint builds settings words --repository https://git.example.com/team/words.git --context worker",
      description: "Run once, to set the repository"
    },
    { command: "stint build words", description: "Build the branch of the settings, and follow the log" },
    { command: "stint build words --ref v1.4.0 -m \"Answer in Italian\"", description: "Build a tag, and say why" }
  ])
)
