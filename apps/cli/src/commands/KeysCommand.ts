/**
 * `stint keys`: list, create, update, rotate and revoke keys.
 *
 * A secret is printed where it is made, because it is told nowhere else and never again; everything else about keys is printed without it.
 */
import { type AccessKey, KeyPatch, KeyRotation, KeyScope, KeySpec, type NewKey } from "@stint/contract/AccessKey"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { Argument, Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

const endpointsText = ({ endpoints }: AccessKey): string => endpoints === "all" ? "all" : endpoints.join(", ")

const limitText = ({ rateLimit }: AccessKey): string => {
  if (rateLimit === undefined) return "-"
  const open = rateLimit.concurrent === undefined ? "" : `, ${rateLimit.concurrent} open`
  return `${rateLimit.limit} in ${rateLimit.perMs / 1000} s${open}`
}

const timeText = (millis: number | undefined): string =>
  millis === undefined ? "-" : new Date(millis).toISOString().slice(0, 16).replace("T", " ")

const endText = ({ expiresAt, revokedAt }: AccessKey): string =>
  revokedAt === undefined ? (expiresAt === undefined ? "never" : timeText(expiresAt)) : timeText(revokedAt)

/** The key that a command is about. A whole secret is taken as well, and its id used: pasting one is an easy mistake. */
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
        ? "No keys yet: the platform's API key opens everything. Create one: stint keys create NAME --endpoint ENDPOINT"
        : Output.table([
          ["KEY", "NAME", "STATUS", "SCOPES", "ENDPOINTS", "LIMIT", "LAST USED", "ENDS"],
          ...all.map((key) => [
            key.id,
            key.name,
            key.status,
            key.scopes.join(", "),
            endpointsText(key),
            limitText(key),
            timeText(key.lastUsedAt),
            endText(key)
          ])
        ]))
  })
).pipe(Command.withDescription("List the keys, without their secrets; times are UTC"), Command.withAlias("ls"))

const onceText = ({ key, secret }: NewKey): string =>
  [
    "",
    `  ${secret}`,
    "",
    "This is the only time that the secret is shown: the platform keeps just its digest. Put it where you keep secrets.",
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

/** What a key opens, as it was asked for; one that would open nothing is nobody's wish. */
const endpointsOf = Effect.fnUntraced(function*(names: ReadonlyArray<string>, all: boolean, isAdmin: boolean) {
  if (all && names.length === 0) return { endpoints: "all" }
  if (names.length > 0 && !all) return { endpoints: [...new Set(names)] }
  if (names.length === 0 && isAdmin) return {}
  return yield* new CliFailure({
    message: names.length === 0 ? "The key has to open something." : "Give --endpoint or --all-endpoints, not both.",
    hint: "For example: --endpoint hello, once for each endpoint; or --all-endpoints, those of later included."
  })
})

const name = Argument.String("name").pipe(Argument.withDescription("What people call the key, for example who uses it"))

/** What a key opens and how often, for `create` and `update` alike. */
const settings = {
  endpoint: Flag.String("endpoint").pipe(
    Flag.withDescription("An endpoint that it opens; may be given several times"),
    Flag.atLeast(0)
  ),
  allEndpoints: Flag.Boolean("all-endpoints").pipe(
    Flag.withDescription("It opens every endpoint, those of later included"),
    Flag.withDefault(false)
  ),
  expiresIn: Flag.String("expires-in").pipe(
    Flag.withDescription("When it ends by itself, e.g. \"30 days\""),
    Flag.withSchema(Schema.DurationFromString),
    Flag.optional
  ),
  limit: Flag.Int("limit").pipe(
    Flag.withDescription("Calls in --per, of each kind of operation on each endpoint"),
    Flag.optional
  ),
  per: Flag.String("per").pipe(
    Flag.withDescription("The window of --limit; default \"10 seconds\""),
    Flag.withSchema(Schema.DurationFromString),
    Flag.withDefault(Duration.seconds(10))
  ),
  concurrent: Flag.Int("concurrent").pipe(
    Flag.withDescription("Calls of each kind that may be open at once"),
    Flag.optional
  )
}

const expiryOf = Effect.fnUntraced(function*(expiresIn: Option.Option<Duration.Duration>) {
  if (Option.isNone(expiresIn)) return {}
  return { expiresAt: (yield* Clock.currentTimeMillis) + Math.ceil(Duration.toMillis(expiresIn.value)) }
})

/** What a key opens, until when and how often, in a few words. */
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
      Flag.withDescription("jobs (the default), worker, or admin; may be given several times"),
      Flag.atLeast(0)
    ),
    json
  },
  Effect.fnUntraced(function*({ allEndpoints, concurrent, endpoint, expiresIn, json, limit, name, per, scope }) {
    const payload = yield* fits(KeySpec, "The key", {
      name,
      ...(scope.length === 0 ? {} : { scopes: [...new Set(scope)] }),
      ...(yield* endpointsOf(endpoint, allEndpoints, scope.includes("admin"))),
      ...(yield* expiryOf(expiresIn)),
      ...(yield* rateLimitOf(limit, per, concurrent))
    })
    const made = yield* call((api) => api.keys.createKey({ payload }))
    yield* Output.print(
      json,
      made,
      ({ key, secret }) => `Created the key "${key.name}" (${key.id}): ${opensText(key)}.\n${onceText({ key, secret })}`
    )
  })
).pipe(
  Command.withDescription("Create a key and print its secret, this once"),
  Command.withExamples([
    { command: "stint keys create shop --endpoint thumbnail", description: "A caller of one endpoint" },
    {
      command: "stint keys create shop --endpoint thumbnail --limit 100 --per \"10 seconds\" --expires-in \"90 days\"",
      description: "The same, for a while, and not too often"
    },
    {
      command: "stint keys create rack-7 --scope worker --endpoint llm",
      description: "Workers of one endpoint on another machine"
    },
    { command: "stint keys create deploy --scope admin", description: "What the platform's API key may, to be revoked by itself" }
  ])
)

/** `--no-x` beside `--x`: contradictory wishes are nobody's. */
const orNone = (given: boolean, none: boolean, flag: string) =>
  given && none
    ? Effect.fail(new CliFailure({ message: `Give --${flag} or --no-${flag}, not both.`, hint: "" }))
    : Effect.void

const update = Command.make(
  "update",
  {
    key: keyId,
    name: Flag.String("name").pipe(Flag.withDescription("What people call the key from now on"), Flag.optional),
    ...settings,
    scope: Flag.Literals("scope", KeyScope.literals).pipe(
      Flag.withDescription("jobs, worker or admin: all that it has from now on; may be given several times"),
      Flag.atLeast(0)
    ),
    noExpiry: Flag.Boolean("no-expires-in").pipe(
      Flag.withDescription("It does not end by itself any more"),
      Flag.withDefault(false)
    ),
    noLimit: Flag.Boolean("no-limit").pipe(
      Flag.withDescription("It has no limit of its own any more; the endpoints' hold as before"),
      Flag.withDefault(false)
    ),
    json
  },
  Effect.fnUntraced(function*(flags) {
    const { allEndpoints, concurrent, endpoint, expiresIn, json, key, limit, name, noExpiry, noLimit, per, scope } = flags
    yield* orNone(Option.isSome(expiresIn), noExpiry, "expires-in")
    yield* orNone(Option.isSome(limit), noLimit, "limit")
    const isAdmin = scope.includes("admin")
    const payload = yield* fits(KeyPatch, "The change", {
      ...(Option.isSome(name) ? { name: name.value } : {}),
      ...(scope.length === 0 ? {} : { scopes: [...new Set(scope)] }),
      ...(endpoint.length > 0 || allEndpoints ? yield* endpointsOf(endpoint, allEndpoints, isAdmin) : {}),
      ...(noExpiry ? { expiresAt: null } : yield* expiryOf(expiresIn)),
      ...(noLimit ? { rateLimit: null } : yield* rateLimitOf(limit, per, concurrent))
    })
    if (Object.keys(payload).length === 0) {
      return yield* new CliFailure({
        message: "Nothing to change was given.",
        hint:
          "Say what changes: --name, --scope, --endpoint, --all-endpoints, --expires-in, --no-expires-in, --limit, --no-limit."
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
  Command.withDescription("Change what a key opens, its name, end or limit, from the next request on; what is not given stays"),
  Command.withAlias("patch"),
  Command.withExamples([
    { command: "stint keys update 0123456789abcdef --endpoint thumbnail --endpoint resize", description: "All that it opens" },
    { command: "stint keys update 0123456789abcdef --expires-in \"90 days\"", description: "It ends 90 days from now" },
    { command: "stint keys update 0123456789abcdef --no-limit", description: "Only the endpoints' limits hold" }
  ])
)

const rotate = Command.make(
  "rotate",
  {
    key: keyId,
    grace: Flag.String("grace").pipe(
      Flag.withDescription("How long the present secret stays valid; default \"24 hours\", \"0 seconds\" ends it at once"),
      Flag.withSchema(Schema.DurationFromString),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ grace, json, key }) {
    const payload = yield* fits(
      KeyRotation,
      "The grace period",
      Option.isSome(grace) ? { graceMs: Math.ceil(Duration.toMillis(grace.value)) } : {}
    )
    const made = yield* call((api) => api.keys.rotateKey({ params: { key }, payload }))
    yield* Output.print(
      json,
      made,
      ({ key, secret }) =>
        `The key "${key.name}" (${key.id}) has another secret. The one before ${
          key.previousUntil === undefined ? "does not work any more" : `works until ${timeText(key.previousUntil)} UTC`
        }.\n${onceText({ key, secret })}`
    )
  })
).pipe(Command.withDescription("Give a key another secret and print it, this once; the one before works on for a while"))

const revoke = Command.make(
  "revoke",
  { key: keyId, json },
  Effect.fnUntraced(function*({ json, key }) {
    const revoked = yield* call((api) => api.keys.revokeKey({ params: { key } }))
    yield* Output.print(json, revoked, ({ id, name }) => `Revoked the key "${name}" (${id}). None of its secrets works any more.`)
  })
).pipe(Command.withDescription("End a key at once and for good"))

/** `stint keys` and its subcommands. */
export const keys = Command.make("keys").pipe(
  Command.withDescription("Keys: list, create, update, rotate, revoke"),
  Command.withSubcommands([list, create, update, rotate, revoke])
)
