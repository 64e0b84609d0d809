/**
 * `stint builds` lists the builds of an endpoint, shows and cancels them, deploys an earlier one, and changes the build settings.
 */
import { type Build, BuildSettings } from "@stint/contract/Build"
import { BUILD_LOG_LIMIT } from "@stint/contract/BuildsApi"
import { SecretName } from "@stint/contract/Secret"
import { Argument, CliError, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import { maskEnv } from "../deploy/HiddenVariables.ts"
import * as RollWatch from "../deploy/RollWatch.ts"
import * as Output from "../output/Output.ts"
import { followLog } from "./BuildCommand.ts"
import { canaryFlags, canaryOf } from "./CanaryFlags.ts"
import { duration, endpoint, json, toMillis } from "./SharedFlags.ts"

const DEFAULT_LIMIT = 20

const number = Argument.Int("number").pipe(Argument.withDescription("The build's number"))

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const firstLine = (text: string): string => text.split("\n", 1)[0] ?? ""

const tookText = ({ endedAt, startedAt }: Build): string =>
  startedAt === undefined || endedAt === undefined ? "-" : `${Math.round((endedAt - startedAt) / 1_000)} s`

const formatList = (endpoint: string, builds: ReadonlyArray<Build>): string => {
  if (builds.length === 0) return `"${endpoint}" has no builds. Start one: stint build ${endpoint}`
  const table = Output.table([
    ["BUILD", "STATE", "WHEN (UTC)", "TOOK", "REF", "COMMIT", "RELEASE", "BY"],
    ...builds.map((one) => [
      String(one.number),
      one.state,
      timeText(one.createdAt),
      tookText(one),
      one.settings.ref ?? "default",
      one.commit?.slice(0, 10) ?? "-",
      one.release === undefined ? "-" : String(one.release),
      one.createdBy
    ])
  ])
  const reasons = builds.flatMap(({ number, reason, state }) =>
    state === "failed" && reason !== undefined ? [`Build ${number} failed: ${firstLine(reason)}`] : []
  )
  return [table, ...(reasons.length === 0 ? [] : ["", ...reasons])].join("\n")
}

const settingLines = (settings: BuildSettings): ReadonlyArray<string> =>
  Object.entries(settings).map(([name, value]) =>
    `${name.padEnd(14)}${typeof value === "string" ? value : JSON.stringify(value)}`
  )

const formatOne = (build: Build): string =>
  [
    Output.field("build", `${build.number} of ${build.endpoint}`),
    Output.field("state", build.state),
    Output.field("started", `${timeText(build.createdAt)} by ${build.createdBy}`),
    ...(build.message === undefined ? [] : [Output.field("why", build.message)]),
    ...(build.commit === undefined ? [] : [Output.field("commit", build.commit)]),
    ...(build.image === undefined ? [] : [Output.field("image", build.image)]),
    ...(build.release === undefined ? [] : [Output.field("release", String(build.release))]),
    ...(build.reason === undefined ? [] : [Output.field("reason", build.reason)]),
    ...build.warnings.map((text) => Output.field("warning", text)),
    "settings of this build:",
    ...settingLines(build.settings).map((line) => `  ${Output.inline(line)}`)
  ].join("\n")

const show = Command.make(
  "show",
  { endpoint, number, json },
  Effect.fnUntraced(function*({ endpoint, json, number }) {
    yield* Output.print(json, yield* call((api) => api.builds.getBuild({ params: { endpoint, number } })), formatOne)
  })
).pipe(Command.withDescription("Show a build, and the settings with which it was started"))

const logs = Command.make(
  "logs",
  {
    endpoint,
    number,
    follow: Flag.Boolean("follow").pipe(
      Flag.withAlias("f"),
      Flag.withDescription("Follow the log until the build ends"),
      Flag.withDefault(false)
    ),
    after: Flag.Int("after").pipe(Flag.withDescription("Only lines after the line with this number"), Flag.withDefault(0)),
    limit: Flag.Int("limit").pipe(Flag.withDescription("Print at most this number of lines"), Flag.optional),
    json: Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON object per line"), Flag.withDefault(false))
  },
  Effect.fnUntraced(function*({ after, endpoint, follow, json, limit, number }) {
    const print = (line: { readonly text: string }) => json ? Output.jsonLine(line) : Output.text(Output.inline(line.text))
    if (follow) {
      const { endpoint: id } = yield* call((api) => api.builds.getBuild({ params: { endpoint, number } }))
      return yield* followLog({ endpoint: id, number }, after, print)
    }
    let cursor = after
    let left = Option.getOrElse(limit, () => Infinity)
    while (left > 0) {
      const page = yield* call((api) =>
        api.builds.buildLogs({ params: { endpoint, number }, query: { after: cursor, limit: Math.min(left, BUILD_LOG_LIMIT) } })
      )
      for (const line of page.lines) yield* print(line)
      left -= page.lines.length
      cursor = page.cursor
      if (page.lines.length === 0) return
    }
  })
).pipe(Command.withDescription("Show the log of a build"))

const cancel = Command.make(
  "cancel",
  { endpoint, number, json },
  Effect.fnUntraced(function*({ endpoint, json, number }) {
    const build = yield* call((api) => api.builds.cancelBuild({ params: { endpoint, number } }))
    yield* Output.print(json, build, ({ state }) => `Build ${number} of ${endpoint} is ${state}.`)
  })
).pipe(Command.withDescription("Cancel a queued or running build"))

const deploy = Command.make(
  "deploy",
  { endpoint, number, json },
  Effect.fnUntraced(function*({ endpoint, json, number }) {
    const active = yield* RollWatch.follow(yield* call((api) => api.builds.deployBuild({ params: { endpoint, number } })))
    yield* Output.print(
      json,
      { ...active, settings: maskEnv(active.settings) },
      (release) => `${endpoint}  release ${release.number} is active: the image of build ${number}`
    )
  })
).pipe(Command.withDescription("Deploy the image of an earlier build, with the endpoint's current settings"))

const isSecretName = Schema.is(SecretName)

const decodeSettings = Schema.decodeUnknownEffect(BuildSettings)

const secretName = (flag: string) =>
  Flag.String(flag).pipe(Flag.mapEffect((text) =>
    text === "" || isSecretName(text) ? Effect.succeed(text) : Effect.fail(
      new CliError.InvalidValue({
        option: flag,
        value: text,
        expected: "the name of a secret, as in stint secrets list",
        kind: "flag"
      })
    )
  ))

/** A text flag that an empty value unsets. */
const text = (name: string, description: string) =>
  Flag.String(name).pipe(Flag.withDescription(`${description}; "" unsets it`), Flag.optional)

const settingFlags = {
  repository: Flag.String("repository").pipe(
    Flag.withDescription("https://HOST/PATH, ssh://git@HOST/PATH, git@HOST:PATH or file:///PATH"),
    Flag.optional
  ),
  ref: text("ref", "Branch, tag or commit; default: the default branch"),
  dockerfile: text("dockerfile", "The Dockerfile, relative to the repository's root; default: Dockerfile"),
  context: text("context", "The folder that the Dockerfile copies from, relative to the repository's root; default: the root"),
  handler: text("handler", "The handler's file, for a repository without Dockerfile"),
  baseImage: text("base-image", "The base image of a generated Dockerfile"),
  args: Flag.String("arg").pipe(
    Flag.withMetavar("NAME=VALUE"),
    Flag.withDescription("A value of ARG; repeatable, NAME= unsets it"),
    Flag.atLeast(0)
  ),
  secrets: Flag.String("build-secret").pipe(
    Flag.withMetavar("ID=SECRET"),
    Flag.withDescription("A secret for RUN --mount=type=secret,id=ID; repeatable, ID= unsets it"),
    Flag.atLeast(0)
  ),
  credential: secretName("credential").pipe(
    Flag.withDescription("The secret with the deploy key (ssh) or the token (https); \"\" unsets it"),
    Flag.optional
  ),
  webhookSecret: secretName("webhook-secret").pipe(
    Flag.withDescription("The secret that signs webhooks of the Git host; \"\" unsets it"),
    Flag.optional
  ),
  onPush: Flag.Boolean("on-push").pipe(
    Flag.withDescription("Also build on a push after the first successful build; --no-on-push turns it off"),
    Flag.optional
  ),
  ...canaryFlags,
  noCanary: Flag.Boolean("no-canary").pipe(
    Flag.withDescription("Give the next builds all jobs once their first worker is ready"),
    Flag.withDefault(false)
  ),
  timeout: duration("timeout").pipe(Flag.withDescription("How long a build may take; default 1h"), Flag.optional)
}

/** The given texts; an empty one removes the setting. */
const changed = (before: unknown, given: Readonly<Record<string, Option.Option<unknown>>>): Record<string, unknown> => {
  const after: Record<string, unknown> = typeof before === "object" && before !== null ? { ...before } : {}
  for (const [name, value] of Object.entries(given)) {
    if (Option.isNone(value)) continue
    if (value.value === "") delete after[name]
    else after[name] = value.value
  }
  return after
}

const pairs = (flag: string, before: Readonly<Record<string, string>>, given: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const after: Record<string, string> = { ...before }
    for (const one of given) {
      const at = one.indexOf("=")
      if (at <= 0) {
        return yield* new CliFailure({
          message: `--${flag} ${one} has no name.`,
          hint: `Write it as --${flag} NAME=VALUE`,
          code: "usage"
        })
      }
      const [name, value] = [one.slice(0, at), one.slice(at + 1)]
      if (value === "") delete after[name]
      else after[name] = value
    }
    return Object.keys(after).length === 0 ? Option.none<Record<string, string>>() : Option.some(after)
  })

const settings = Command.make(
  "settings",
  { endpoint, ...settingFlags, json },
  Effect.fnUntraced(function*({ args, canary, canaryJobs, canaryPoints, endpoint, json, noCanary, secrets, timeout, ...given }) {
    const rule = yield* canaryOf({ canary, canaryJobs, canaryPoints })
    if (noCanary && rule !== undefined) {
      return yield* new CliFailure({ message: "--no-canary contradicts --canary.", hint: "Remove one of them.", code: "usage" })
    }
    const before = yield* call((api) => api.builds.getBuildSettings({ params: { endpoint } })).pipe(
      Effect.catchIf(({ code }) => code === "build-not-found", () => Effect.succeed(undefined))
    )
    const isChange = args.length > 0 || secrets.length > 0 || Option.isSome(timeout) || noCanary || rule !== undefined ||
      Object.values(given).some((one: Option.Option<unknown>) => Option.isSome(one))
    if (!isChange) {
      if (before === undefined) {
        return yield* new CliFailure({
          message: `"${endpoint}" has no build settings.`,
          hint: `Set them: stint builds settings ${endpoint} --repository URL`,
          code: "build-not-found"
        })
      }
      return yield* Output.print(json, before, (found) => settingLines(found).map(Output.inline).join("\n"))
    }
    const { args: oldArgs = {}, secrets: oldSecrets = {}, ...rest } = before ?? {}
    const payload = changed(rest, {
      ...given,
      args: yield* pairs("arg", oldArgs, args),
      secrets: yield* pairs("build-secret", oldSecrets, secrets),
      canary: noCanary ? Option.some("") : Option.fromUndefinedOr(rule),
      timeoutMs: Option.map(timeout, toMillis)
    })
    if (payload["repository"] === undefined) {
      return yield* new CliFailure({
        message: `"${endpoint}" has no repository to build.`,
        hint: `Name it: stint builds settings ${endpoint} --repository https://git.example.com/team/words.git`,
        code: "usage"
      })
    }
    const decoded = yield* Effect.mapError(
      decodeSettings(payload),
      (error) =>
        new CliFailure({
          message: `The build settings are invalid: ${error.message}`,
          hint: "Correct the option.",
          code: "invalid-option"
        })
    )
    const saved = yield* call((api) => api.builds.setBuildSettings({ params: { endpoint }, payload: decoded }))
    yield* Output.print(json, saved, (after) =>
      [
        ...settingLines(after).map(Output.inline),
        "",
        `Saved for later builds. Start one: stint build ${endpoint}`
      ].join("\n"))
  })
).pipe(
  Command.withDescription("Show or change how an endpoint is built"),
  Command.withExamples([
    { command: "stint builds settings words", description: "Show the settings" },
    {
      command: "stint builds settings words --repository git@git.example.com:team/words.git --credential words-deploy-key",
      description: "A private repository, with a deploy key that is stored as a secret"
    },
    {
      command: "stint builds settings words --dockerfile lab1/Dockerfile --context lab1",
      description: "A Dockerfile that copies files of its own folder"
    }
  ])
)

/** `stint builds` and its subcommands. */
export const builds = Command.make(
  "builds",
  {
    endpoint,
    limit: Flag.Int("limit").pipe(
      Flag.withDescription(`Number of builds, 1 to 100; default ${DEFAULT_LIMIT}`),
      Flag.withDefault(DEFAULT_LIMIT)
    ),
    before: Flag.Int("before").pipe(Flag.withDescription("Only builds with a lower number"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ before, endpoint, json, limit }) {
    const page = yield* call((api) =>
      api.builds.listBuilds({
        params: { endpoint },
        query: { limit, ...(Option.isSome(before) ? { before: before.value } : {}) }
      })
    )
    yield* Output.print(json, page, ({ builds }) => formatList(endpoint, builds))
  })
).pipe(
  Command.withDescription("List the builds of an endpoint: state, time, source and release"),
  Command.withSubcommands([show, logs, cancel, deploy, settings])
)
