/**
 * The settings of `stint serve`, read from the environment once, at the start. A wrong value stops the boot and names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `PORT` | 4600 | port to listen on; 0 takes a free one |
 * | `STINT_HOST` | 127.0.0.1 | address to bind; 0.0.0.0 opens the platform to the network |
 * | `STINT_DATA_DIR` | .stint | where jobs, the key and the compile cache are kept |
 * | `STINT_API_KEY` | generated once | the admin key; at least 16 characters |
 * | `STINT_DURABILITY` | D2 | `D2` survives power loss; `D1` survives only the process being killed and writes faster |
 * | `STINT_PUBLIC_URL` | from host and port | the address that workers and callers are told, behind a proxy for example |
 * | `STINT_CORS_ORIGINS` | none | web pages that may call the jobs API and the OpenAI route: `https://app.example.com, http://localhost:5173`, or `*` for all |
 * | `STINT_WEBHOOKS_ALLOW` | none | addresses that webhooks may be sent to although they are not public, by commas: `10.0.0.7, 192.168.1.0/24` |
 * | `STINT_WEBHOOKS_ALLOW_PRIVATE` | false | `true` lets webhooks reach every private address, this machine's own included: whoever submits jobs chooses them |
 * | `STINT_WEBHOOKS_TIMEOUT` | 15 seconds | how long a receiver may take to answer; longer suits slow ones, which then hold their places for longer |
 * | `STINT_BATCH_REQUESTS` | 5000 | requests of one batch; more are kept, started and cancelled in longer steps |
 * | `STINT_BATCHES` | 10 | batches of an endpoint that have not ended, drafts included |
 * | `STINT_BATCH_QUEUED` | 50000 | jobs of an endpoint that may wait when a batch is finalized, its own included |
 * | `STINT_SHUTDOWN_GRACE` | 30 seconds | how long running jobs may take to finish when the platform is told to stop |
 */
import * as AddressGuard from "@stint/http-guard/AddressGuard"
import type { AllowedOrigins } from "@stint/server/Cors"
import { defaults as limitDefaults } from "@stint/server/Limits"
import type { LogQuotas } from "@stint/store/JobLogStore"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import { CorsOrigins, parseOrigins } from "./CorsOrigins.ts"
import * as LogConfig from "./LogConfig.ts"
import * as PayloadConfig from "./PayloadConfig.ts"
import { setting } from "./Setting.ts"

/** Where webhooks may go, and how long they take. */
export interface WebhookSettings {
  readonly allow: ReadonlyArray<string>
  readonly allowPrivate: boolean
  readonly timeout: Duration.Duration
}

/** How many of what batches may have. Each is explained where it is in force (`Limits.ts` of the server). */
export interface BatchSettings {
  readonly batchRequests: number
  readonly openBatches: number
  readonly batchQueued: number
}

export interface PlatformConfig {
  readonly port: number
  readonly host: string
  readonly dataDir: string
  readonly apiKey: Option.Option<Redacted.Redacted>
  readonly durability: "D1" | "D2"
  /** Without a trailing slash. */
  readonly publicUrl: Option.Option<string>
  readonly corsOrigins: AllowedOrigins
  readonly shutdownGrace: Duration.Duration
  readonly webhooks: WebhookSettings
  /** See PayloadConfig.ts for its variables. */
  readonly payloads: PayloadConfig.PayloadSettings
  readonly batches: BatchSettings
  /** See LogConfig.ts for its variables. */
  readonly logs: LogQuotas
}

const Port = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 65_535 }))

const ApiKey = Schema.Redacted(Schema.String.check(Schema.isMinLength(16), Schema.isPattern(/^\S+$/)))

const WebAddress = Schema.URL.check(
  Schema.makeFilter((url) => url.protocol === "http:" || url.protocol === "https:" || "an http or https address")
)

/** Addresses and ranges by commas, as the guard reads them. */
const Ranges = Schema.String.check(
  Schema.makeFilter((text) => Result.isSuccess(AddressGuard.make({ allow: rangesOf(text) })) || "addresses and ranges by commas")
)

const rangesOf = (text: string): ReadonlyArray<string> => text.split(",").map((one) => one.trim()).filter((one) => one !== "")

/** Long enough for a request, and short enough for somebody to wait for. */
const RequestTimeout = Schema.DurationFromString.check(
  Schema.makeFilter((duration) => {
    const millis = Duration.toMillis(duration)
    return (millis >= 100 && millis <= 120_000) || "100 millis to 2 minutes"
  })
)

/** One variable that is a number of things. */
const count = (name: string, fallback: number, maximum: number): Effect.Effect<number, CliFailure> =>
  setting(
    name,
    `a whole number from 1 to ${maximum}, for example ${fallback}`,
    Config.schema(Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum })), name).pipe(
      Config.withDefault(fallback)
    )
  )

/** An address without its trailing slash, so that paths can follow it. */
const webAddress = (name: string): Config.Config<Option.Option<string>> =>
  Config.option(Config.map(Config.schema(WebAddress, name), (url) => url.href.replace(/\/+$/, "")))

/** Reads all settings; fails with the first one that is wrong. */
export const load: Effect.Effect<PlatformConfig, CliFailure> = Effect.all({
  port: setting(
    "PORT",
    "a port number from 0 to 65535, for example 4600",
    Config.schema(Port, "PORT").pipe(Config.withDefault(4600))
  ),
  host: setting(
    "STINT_HOST",
    "an address to bind, for example 127.0.0.1",
    Config.NonEmptyString("STINT_HOST").pipe(Config.withDefault("127.0.0.1"))
  ),
  dataDir: setting(
    "STINT_DATA_DIR",
    "a folder, for example .stint",
    Config.NonEmptyString("STINT_DATA_DIR").pipe(Config.withDefault(".stint"))
  ),
  apiKey: setting(
    "STINT_API_KEY",
    "at least 16 characters without spaces",
    Config.option(Config.schema(ApiKey, "STINT_API_KEY"))
  ),
  durability: setting(
    "STINT_DURABILITY",
    "D2 (survives power loss) or D1 (survives a killed process)",
    Config.Literals(["D1", "D2"], "STINT_DURABILITY").pipe(Config.withDefault("D2" as const))
  ),
  publicUrl: setting(
    "STINT_PUBLIC_URL",
    "an http or https address, for example https://jobs.example.org",
    webAddress("STINT_PUBLIC_URL")
  ),
  corsOrigins: setting(
    "STINT_CORS_ORIGINS",
    "origins of web pages by commas, for example https://app.example.com, http://localhost:5173, or * for every page",
    Config.schema(CorsOrigins, "STINT_CORS_ORIGINS").pipe(Config.withDefault(""), Config.map(parseOrigins))
  ),
  webhooks: Effect.all({
    allow: setting(
      "STINT_WEBHOOKS_ALLOW",
      "addresses and ranges by commas, for example 10.0.0.7, 192.168.1.0/24",
      Config.schema(Ranges, "STINT_WEBHOOKS_ALLOW").pipe(Config.withDefault(""), Config.map(rangesOf))
    ),
    allowPrivate: setting(
      "STINT_WEBHOOKS_ALLOW_PRIVATE",
      "true or false",
      Config.Boolean("STINT_WEBHOOKS_ALLOW_PRIVATE").pipe(Config.withDefault(false))
    ),
    timeout: setting(
      "STINT_WEBHOOKS_TIMEOUT",
      "a duration from \"100 millis\" to \"2 minutes\"",
      Config.schema(RequestTimeout, "STINT_WEBHOOKS_TIMEOUT").pipe(Config.withDefault(Duration.seconds(15)))
    )
  }),
  payloads: PayloadConfig.load,
  batches: Effect.all({
    batchRequests: count("STINT_BATCH_REQUESTS", limitDefaults.batchRequests, 100_000),
    openBatches: count("STINT_BATCHES", limitDefaults.openBatches, 1_000),
    batchQueued: count("STINT_BATCH_QUEUED", limitDefaults.batchQueued, 10_000_000)
  }),
  logs: LogConfig.load,
  shutdownGrace: setting(
    "STINT_SHUTDOWN_GRACE",
    "a duration, for example \"30 seconds\" or \"2 minutes\"",
    Config.Duration("STINT_SHUTDOWN_GRACE").pipe(Config.withDefault(Duration.seconds(30)))
  )
})

/** Where the platform of this machine is to be reached, for commands that talk to one: `STINT_URL`, else the default address. */
export const clientUrl: Effect.Effect<string, CliFailure> = setting(
  "STINT_URL",
  "an http or https address, for example http://127.0.0.1:4600",
  webAddress("STINT_URL")
).pipe(
  Effect.flatMap(Option.match({
    onSome: Effect.succeed,
    onNone: () => Effect.map(load, ({ port }) => `http://127.0.0.1:${port}`)
  }))
)
