/**
 * `stint keys`: list, create, update, rotate and revoke keys.
 *
 * A secret is printed only when it is created: the platform stores a digest and cannot show it again.
 */
import {
  type AccessKey,
  isForEveryEndpoint,
  KeyPatch,
  KeyRotation,
  KeyScope,
  KeySpec,
  type NewKey,
  type RevokedKey
} from "@stint/contract/AccessKey"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { Argument, Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as PlatformClient from "../client/PlatformClient.ts"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as AdminKey from "../config/AdminKey.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as Output from "../output/Output.ts"
import { duration, json, size } from "./SharedFlags.ts"

const endpointsText = ({ endpoints }: AccessKey): string => endpoints === "all" ? "all" : endpoints.join(", ")

const limitText = ({ rateLimit }: AccessKey): string => {
  if (rateLimit === undefined) return "-"
  const open = rateLimit.concurrent === undefined ? "" : `, ${rateLimit.concurrent} open`
  return `${rateLimit.limit} in ${rateLimit.perMs / 1000} s${open}`
}

const quotaText = ({ limits: { storedBytes, waitingJobs } = {} }: AccessKey): string => {
  const quotas = [
    ...(waitingJobs === undefined ? [] : [`${waitingJobs} waiting jobs`]),
    ...(storedBytes === undefined ? [] : [`${storedBytes} stored bytes`])
  ]
  return quotas.length === 0 ? "-" : quotas.join(", ")
}

const timeText = (millis: number | undefined): string =>
  millis === undefined ? "-" : new Date(millis).toISOString().slice(0, 16).replace("T", " ")

const endText = ({ expiresAt, revokedAt }: AccessKey): string =>
  revokedAt === undefined ? (expiresAt === undefined ? "never" : timeText(expiresAt)) : timeText(revokedAt)

/** The key argument. A full secret is also accepted, and its id is used, because it is easy to paste the secret by mistake. */
const keyId = Argument.String("key").pipe(
  Argument.withDescription("Id of the key: the 16 characters after stint_"),
  Argument.map((text) => /^stint_([0-9a-f]{16})(?:_|$)/.exec(text)?.[1] ?? text)
)

const list = Command.make(
  "list",
  { json },
  Effect.fnUntraced(function*({ json }) {
    const { keys } = yield* call((api) => api.keys.listKeys())
    yield* Output.print(json, keys, (all) =>
      all.length === 0
        ? "No keys yet; only the platform's API key works. Create one: stint keys create NAME --endpoint ENDPOINT"
        : Output.table([
          ["KEY", "NAME", "STATUS", "SCOPES", "ENDPOINTS", "LIMIT", "LAST USED", "ENDS", "ISSUED WITH"],
          ...all.map((key) => [
            key.id,
            key.name,
            key.status,
            key.scopes.join(", "),
            endpointsText(key),
            limitText(key),
            timeText(key.lastUsedAt),
            endText(key),
            key.issuedBy?.join(", ") ?? "-"
          ])
        ]))
  })
).pipe(Command.withDescription("List the keys, without their secrets; times are UTC"), Command.withAlias("ls"))

const show = Command.make(
  "show",
  { key: keyId, json },
  Effect.fnUntraced(function*({ json, key }) {
    const found = yield* call((api) => api.keys.getKey({ params: { key } }))
    yield* Output.print(json, found, (key) =>
      Output.table([
        ["key", key.id],
        ["name", key.name],
        ["status", key.status],
        ["scopes", key.scopes.join(", ")],
        ["endpoints", endpointsText(key)],
        ["limit", limitText(key)],
        ["quotas", quotaText(key)],
        ["created", timeText(key.createdAt)],
        ["last used", timeText(key.lastUsedAt)],
        ["ends", endText(key)],
        ["issued with", key.issuedBy?.join(", ") ?? "-"]
      ]))
  })
).pipe(Command.withDescription("Show one key, without its secret; times are UTC"))

const onceText = ({ key, secret }: NewKey): string =>
  [
    "",
    `  ${Output.inline(secret)}`,
    "",
    "The secret is shown only once: the platform stores a digest of it. Save it in your secret manager.",
    `Lost or leaked: stint keys rotate ${key.id} --grace "0 seconds"`
  ].join("\n")

const fits = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, what: string, value: unknown) =>
  Schema.decodeUnknownEffect(schema, { errors: "all" })(value).pipe(
    Effect.mapError((error) =>
      new CliFailure({ message: `${what} cannot be used.`, hint: fieldIssues(error).map(formatFieldIssue).join("\n  ") })
    )
  )

const rateLimitOf = Effect.fnUntraced(function*(
  limit: Option.Option<number>,
  per: Duration.Duration,
  concurrent: Option.Option<number>
) {
  if (Option.isNone(limit)) {
    if (Option.isNone(concurrent)) return {}
    return yield* new CliFailure({
      message: "--concurrent needs --limit.",
      hint: "For example: --limit 1000 --per \"10 seconds\" --concurrent 200"
    })
  }
  return {
    rateLimit: {
      limit: limit.value,
      perMs: Duration.toMillis(per),
      ...(Option.isSome(concurrent) ? { concurrent: concurrent.value } : {})
    }
  }
})

/** The quotas that the flags set, merged with the key's current ones. */
const quotasOf = (
  { maxStoredBytes, maxWaitingJobs }: {
    readonly maxStoredBytes: Option.Option<number>
    readonly maxWaitingJobs: Option.Option<number>
  },
  now: AccessKey["limits"] = {}
) =>
  Option.isNone(maxStoredBytes) && Option.isNone(maxWaitingJobs) ? {} : {
    limits: {
      ...now,
      ...(Option.isSome(maxWaitingJobs) ? { waitingJobs: maxWaitingJobs.value } : {}),
      ...(Option.isSome(maxStoredBytes) ? { storedBytes: maxStoredBytes.value } : {})
    }
  }

/** The endpoints of a key, from the flags. Fails when the flags specify no endpoint. */
const endpointsOf = Effect.fnUntraced(function*(names: ReadonlyArray<string>, all: boolean, isForAll: boolean) {
  if (all && names.length === 0) return { endpoints: "all" }
  if (names.length > 0 && !all) return { endpoints: [...new Set(names)] }
  if (names.length === 0 && isForAll) return {}
  return yield* new CliFailure({
    message: names.length === 0 ? "The key needs at least one endpoint." : "Give --endpoint or --all-endpoints, not both.",
    hint: "For example: --endpoint hello (repeat it for more endpoints), or --all-endpoints, which includes future endpoints."
  })
})

const name = Argument.String("name").pipe(Argument.withDescription("Name of the key, for example who uses it"))

/** Flags for endpoints, expiry and rate limit, shared by `create` and `update`. */
const settings = {
  endpoint: Flag.String("endpoint").pipe(
    Flag.withDescription("An endpoint that the key may call; repeatable"),
    Flag.atLeast(0)
  ),
  allEndpoints: Flag.Boolean("all-endpoints").pipe(
    Flag.withDescription("The key may call every endpoint, including future ones"),
    Flag.withDefault(false)
  ),
  expiresIn: duration("expires-in").pipe(
    Flag.withDescription("When the key expires, e.g. \"30 days\""),
    Flag.optional
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("Calls per --per, for each kind of operation on each endpoint"),
    Flag.optional
  ),
  per: duration("per").pipe(
    Flag.withDescription("The window of --limit; default \"10 seconds\""),
    Flag.withDefault(Duration.seconds(10))
  ),
  concurrent: Flag.Int("concurrent").pipe(
    Flag.withDescription("Concurrent calls of each kind"),
    Flag.optional
  ),
  maxWaitingJobs: Flag.Int("max-waiting-jobs").pipe(
    Flag.withDescription("Maximum number of waiting jobs of the key, on all endpoints together; further submissions get 429"),
    Flag.optional
  ),
  maxStoredBytes: size("max-stored-bytes").pipe(
    Flag.withDescription("Maximum size of the key's stored jobs, e.g. 5GB; further submissions get 507"),
    Flag.optional
  )
}

const expiryOf = Effect.fnUntraced(function*(expiresIn: Option.Option<Duration.Duration>) {
  if (Option.isNone(expiresIn)) return {}
  return { expiresAt: (yield* Clock.currentTimeMillis) + Math.ceil(Duration.toMillis(expiresIn.value)) }
})

/** Formats the scopes, endpoints, expiry and rate limit of a key on one line. */
const opensText = (key: AccessKey): string =>
  `${key.scopes.join(", ")} of ${key.endpoints === "all" ? "every endpoint" : endpointsText(key)}, ${
    key.expiresAt === undefined ? "without end" : `until ${timeText(key.expiresAt)} UTC`
  }`

const create = Command.make(
  "create",
  {
    name,
    ...settings,
    scope: Flag.Literals("scope", KeyScope.literals).pipe(
      Flag.withDescription(
        "jobs (default), a part of it (jobs:submit, jobs:read, jobs:manage), worker, agent, deploy or admin; repeatable"
      ),
      Flag.atLeast(0)
    ),
    json
  },
  Effect.fnUntraced(function*(flags) {
    const { allEndpoints, concurrent, endpoint, expiresIn, json, limit, name, per, scope } = flags
    const payload = yield* fits(KeySpec, "The key", {
      name,
      ...(scope.length === 0 ? {} : { scopes: [...new Set(scope)] }),
      ...(yield* endpointsOf(endpoint, allEndpoints, isForEveryEndpoint(scope))),
      ...(yield* expiryOf(expiresIn)),
      ...(yield* rateLimitOf(limit, per, concurrent)),
      ...quotasOf(flags)
    })
    const made = yield* call((api) => api.keys.createKey({ payload }))
    yield* Output.print(
      json,
      made,
      ({ key, secret }) => `Created the key "${key.name}" (${key.id}): ${opensText(key)}.\n${onceText({ key, secret })}`
    )
  })
).pipe(
  Command.withDescription("Create a key and print its secret once"),
  Command.withExamples([
    { command: "stint keys create shop --endpoint thumbnail", description: "A caller of one endpoint" },
    {
      command: "stint keys create shop --endpoint thumbnail --limit 100 --per \"10 seconds\" --expires-in \"90 days\"",
      description: "The same, with an expiry and a rate limit"
    },
    {
      command: "stint keys create form --scope jobs:submit --endpoint letters",
      description: "A caller that may submit jobs, and neither read nor cancel them"
    },
    {
      command: "stint keys create rack-7 --scope worker --endpoint llm",
      description: "Workers of one endpoint on another machine"
    },
    { command: "stint keys create ci --scope deploy", description: "A pipeline that manages endpoints, but no keys" },
    { command: "stint keys create ada --scope admin", description: "An admin key that can be revoked separately" }
  ])
)

/** Refuses `--x` together with `--no-x`. */
const orNone = (given: boolean, none: boolean, flag: string) =>
  given && none
    ? Effect.fail(new CliFailure({ message: `Give --${flag} or --no-${flag}, not both.`, hint: "" }))
    : Effect.void

const update = Command.make(
  "update",
  {
    key: keyId,
    name: Flag.String("name").pipe(Flag.withDescription("New name of the key"), Flag.optional),
    ...settings,
    scope: Flag.Literals("scope", KeyScope.literals).pipe(
      Flag.withDescription(
        "jobs, a part of it (jobs:submit, jobs:read, jobs:manage), worker, agent, deploy or admin; replaces all scopes; repeatable"
      ),
      Flag.atLeast(0)
    ),
    noExpiry: Flag.Boolean("no-expires-in").pipe(
      Flag.withDescription("Remove the expiry"),
      Flag.withDefault(false)
    ),
    noLimit: Flag.Boolean("no-limit").pipe(
      Flag.withDescription("Remove the key's own rate limit; limits of endpoints still apply"),
      Flag.withDefault(false)
    ),
    noQuotas: Flag.Boolean("no-quotas").pipe(
      Flag.withDescription("Remove --max-waiting-jobs and --max-stored-bytes; limits of endpoints still apply"),
      Flag.withDefault(false)
    ),
    json
  },
  Effect.fnUntraced(function*(flags) {
    const { allEndpoints, concurrent, endpoint, expiresIn, json, key, limit, name, noExpiry, noLimit, noQuotas, per, scope } =
      flags
    yield* orNone(Option.isSome(expiresIn), noExpiry, "expires-in")
    yield* orNone(Option.isSome(limit), noLimit, "limit")
    const setsQuotas = Option.isSome(flags.maxWaitingJobs) || Option.isSome(flags.maxStoredBytes)
    if (setsQuotas && noQuotas) {
      return yield* new CliFailure({
        message: "Give either --no-quotas, or --max-waiting-jobs and --max-stored-bytes.",
        hint: ""
      })
    }
    // A patch replaces all quotas of a key, so unchanged quotas are sent again.
    const now = setsQuotas ? (yield* call((api) => api.keys.getKey({ params: { key } }))).limits : undefined
    const isForAll = isForEveryEndpoint(scope)
    const payload = yield* fits(KeyPatch, "The change", {
      ...(Option.isSome(name) ? { name: name.value } : {}),
      ...(scope.length === 0 ? {} : { scopes: [...new Set(scope)] }),
      ...(endpoint.length > 0 || allEndpoints ? yield* endpointsOf(endpoint, allEndpoints, isForAll) : {}),
      ...(noExpiry ? { expiresAt: null } : yield* expiryOf(expiresIn)),
      ...(noLimit ? { rateLimit: null } : yield* rateLimitOf(limit, per, concurrent)),
      ...(noQuotas ? { limits: null } : quotasOf(flags, now))
    })
    if (Object.keys(payload).length === 0) {
      return yield* new CliFailure({
        message: "No change was given.",
        hint:
          "Give at least one of --name, --scope, --endpoint, --all-endpoints, --expires-in, --no-expires-in, --limit, --no-limit, " +
          "--max-waiting-jobs, --max-stored-bytes, --no-quotas."
      })
    }
    const changed = yield* call((api) => api.keys.patchKey({ params: { key }, payload }))
    yield* Output.print(
      json,
      changed,
      (key) =>
        `Changed the key "${key.name}" (${key.id}): ${opensText(key)}, ${
          key.rateLimit === undefined ? "no limit of its own" : limitText(key)
        }. Its secret stays.`
    )
  })
).pipe(
  Command.withDescription(
    "Change the name, scopes, endpoints, expiry, rate limit or quotas of a key; takes effect with the next request"
  ),
  Command.withAlias("patch"),
  Command.withExamples([
    {
      command: "stint keys update 0123456789abcdef --endpoint thumbnail --endpoint resize",
      description: "Replace its endpoints"
    },
    { command: "stint keys update 0123456789abcdef --expires-in \"90 days\"", description: "Let it expire in 90 days" },
    { command: "stint keys update 0123456789abcdef --no-limit", description: "Remove its own rate limit" }
  ])
)

/** The name of the platform's own key on the command line. */
const ADMIN = "admin"

const rotateAdmin = Effect.fnUntraced(function*(json: boolean, hasGrace: boolean) {
  if (hasGrace) {
    return yield* new CliFailure({
      message: "The platform's own key has no grace period: the previous key ends at once.",
      hint:
        "Leave out --grace. For a change without interruption, use keys with the scope admin (stint keys create NAME --scope admin)."
    })
  }
  const { file } = yield* AdminKey.rotate(yield* PlatformConfig.load)
  yield* Output.print(
    json,
    { file },
    () =>
      `The platform has a new API key, in ${file}. A running platform accepts it within a second; the previous key no longer works.`
  )
})

const rotate = Command.make(
  "rotate",
  {
    key: keyId,
    grace: duration("grace").pipe(
      Flag.withDescription("How long the current secret stays valid; default \"24 hours\", \"0 seconds\" ends it immediately"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ grace, json, key }) {
    if (key === ADMIN) return yield* rotateAdmin(json, Option.isSome(grace))
    const payload = yield* fits(
      KeyRotation,
      "The grace period",
      Option.isSome(grace) ? { graceMs: Math.ceil(Duration.toMillis(grace.value)) } : {}
    )
    const made = yield* call((api) => api.keys.rotateKey({ params: { key }, payload })).pipe(Effect.provide(PlatformClient.layer))
    yield* Output.print(
      json,
      made,
      ({ key, secret }) =>
        `The key "${key.name}" (${key.id}) has a new secret. The previous one ${
          key.previousUntil === undefined ? "no longer works" : `works until ${timeText(key.previousUntil)} UTC`
        }.\n${onceText({ key, secret })}`
    )
  })
).pipe(
  Command.withDescription("Give a key a new secret and print it once; the previous secret works for a grace period"),
  Command.withExamples([
    { command: "stint keys rotate 0123456789abcdef", description: "The current secret works for another 24 hours" },
    {
      command: "stint keys rotate admin",
      description: "Replace the platform's own key, also when it is lost; run it on the platform's machine"
    }
  ])
)

const print = Command.make(
  "print",
  {},
  Effect.fnUntraced(function*() {
    const key = yield* AdminKey.find(yield* PlatformConfig.load)
    if (Option.isNone(key)) return yield* PlatformClient.keyMissing
    yield* Output.text(Redacted.value(key.value))
  })
).pipe(
  Command.withDescription("Print the API key that this command line uses"),
  Command.withExamples([
    { command: "export STINT_API_KEY=$(stint keys print)", description: "Use the key in programs that you start from this shell" }
  ])
)

const issuedText = ({ issued }: RevokedKey, withIssued: boolean): string => {
  if (issued.length === 0) return ""
  const names = issued.map(({ id, name }) => `  ${id}  ${name}`).join("\n")
  return withIssued
    ? `\nAlso revoked, because they were issued with it:\n${names}`
    : `\nThese keys were issued with it and still work; to revoke them, too: stint keys revoke KEY --with-issued\n${names}`
}

const revoke = Command.make(
  "revoke",
  {
    key: keyId,
    withIssued: Flag.Boolean("with-issued").pipe(
      Flag.withDescription("Also revoke the keys that were created or rotated with this key; use it after a leak"),
      Flag.withDefault(false)
    ),
    json
  },
  Effect.fnUntraced(function*({ json, key, withIssued }) {
    const revoked = yield* call((api) => api.keys.revokeKey({ params: { key }, payload: { withIssued } }))
    yield* Output.print(
      json,
      revoked,
      (key) => `Revoked the key "${key.name}" (${key.id}). None of its secrets works anymore.${issuedText(key, withIssued)}`
    )
  })
).pipe(Command.withDescription("Revoke a key immediately and permanently, and list the keys that were issued with it"))

/** `stint keys` and its subcommands. Those that work without a running platform do not connect to one. */
export const keys = Command.make("keys").pipe(
  Command.withDescription("Keys: list, show, create, update, rotate, revoke, print"),
  Command.withSubcommands([
    list.pipe(Command.provide(PlatformClient.layer)),
    show.pipe(Command.provide(PlatformClient.layer)),
    create.pipe(Command.provide(PlatformClient.layer)),
    update.pipe(Command.provide(PlatformClient.layer)),
    rotate,
    revoke.pipe(Command.provide(PlatformClient.layer)),
    print
  ])
)
