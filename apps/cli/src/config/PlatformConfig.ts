/**
 * Settings of `stint serve`, read from the environment once at startup. If a value is invalid, the platform does not start, and the error
 * names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `PORT` | 4600 | port to listen on; 0 chooses a free one |
 * | `STINT_HOST` | 127.0.0.1 | address to bind; 0.0.0.0 exposes the platform to the network |
 * | `STINT_DATA_DIR` | .stint | folder for the database and the compile cache; only its owner can read it |
 * | `STINT_API_KEY` | generated once (AdminKey.ts) | the admin key; at least 16 characters |
 * | `STINT_DATABASE` | none | a PostgreSQL database instead of the embedded one (DatabaseConfig.ts) |
 * | `STINT_DURABILITY` | D2 | `D2`: jobs survive a power failure; `D1`: they survive a killed process only, and writes are faster |
 * | `STINT_PUBLIC_URL` | from host and port | address at which callers and workers reach the platform, for example behind a proxy |
 * | `STINT_CORS_ORIGINS` | none | web pages that may call the jobs API and the OpenAI route: `https://app.example.com, http://localhost:5173`, or `*` for all |
 * | `STINT_WEBHOOKS_ALLOW` | none | private addresses that webhooks may be sent to, comma-separated: `10.0.0.7, 192.168.1.0/24` |
 * | `STINT_WEBHOOKS_ALLOW_PRIVATE` | false | `true` allows webhooks to all private addresses and this machine; callers choose the address |
 * | `STINT_WEBHOOKS_KEEP` | 7 days | how long a delivery is kept after its end, to be inspected and sent again; each is stored with its body |
 * | `STINT_WEBHOOKS_TIMEOUT` | 15 seconds | time limit for a receiver's response; a longer limit lets slow receivers occupy delivery slots longer |
 * | `STINT_BATCH_REQUESTS` | 5000 | maximum requests in one batch; larger batches make longer transactions |
 * | `STINT_BATCHES` | 10 | maximum number of a key's batches on an endpoint that have not ended, including drafts |
 * | `STINT_BATCH_QUEUED` | 50000 | maximum number of an endpoint's waiting jobs when a batch is finalized, including the batch's jobs |
 * | `STINT_DISK_MIN_FREE` | 512 MiB, or a twentieth of a smaller disk | below this free space, new jobs get 503 while stored jobs continue; 0 turns this off |
 * | `STINT_DISK_RESERVE` | 32 MiB | size of a file that is deleted when the disk is full, so that stored jobs can still end; 0 turns this off |
 * | `STINT_SECRETS_KEY_FILE`, `STINT_SECRETS_KEY` | generated with the first secret | the key that encrypts secrets (SecretsKeyConfig.ts) |
 * | `STINT_SHUTDOWN_DELAY` | 0 | how long the platform still serves callers after `/readyz` began to fail; longer than a load balancer needs to notice |
 * | `STINT_SHUTDOWN_GRACE` | 30 seconds | time for running jobs to finish during shutdown |
 */
import * as AddressGuard from "@stint/http-guard/AddressGuard"
import type { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import type { NamedVolumes } from "@stint/pool/NamedVolumes"
import type { AuditSettings } from "@stint/server/AuditLog"
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
import * as AlertConfig from "./AlertConfig.ts"
import * as AuditConfig from "./AuditConfig.ts"
import * as BuildConfig from "./BuildConfig.ts"
import { CorsOrigins, parseOrigins } from "./CorsOrigins.ts"
import * as DatabaseConfig from "./DatabaseConfig.ts"
import * as EngineConfig from "./EngineConfig.ts"
import * as KubernetesConfig from "./KubernetesConfig.ts"
import * as LogConfig from "./LogConfig.ts"
import * as ModelsConfig from "./ModelsConfig.ts"
import * as PayloadConfig from "./PayloadConfig.ts"
import * as SearchConfig from "./SearchConfig.ts"
import * as SecretsKeyConfig from "./SecretsKeyConfig.ts"
import { commaSeparated, secretSetting, setting } from "./Setting.ts"
import { rejectUnknown, type SettingName } from "./SettingNames.ts"
import * as TraceUrl from "./TraceUrl.ts"
import * as UsageConfig from "./UsageConfig.ts"
import * as VolumesConfig from "./VolumesConfig.ts"
import * as WorkerConfig from "./WorkerConfig.ts"

/** Allowed webhook addresses, how long deliveries are kept after their end, and the time limit of a request. */
export interface WebhookSettings {
  readonly allow: ReadonlyArray<string>
  readonly allowPrivate: boolean
  readonly keep: Duration.Duration
  readonly timeout: Duration.Duration
}

/** The limits of batches, which the server's `Limits.ts` documents. */
export interface BatchSettings {
  readonly batchRequests: number
  readonly openBatches: number
  readonly batchQueued: number
}

/** The free space to keep on the database's disk, in bytes. `minFreeBytes` undefined: the store's default. */
export interface DiskSettings {
  readonly minFreeBytes: number | undefined
  readonly reserveBytes: number
}

export interface PlatformConfig {
  readonly port: number
  readonly host: string
  readonly dataDir: string
  readonly apiKey: Option.Option<Redacted.Redacted>
  /** See DatabaseConfig.ts. */
  readonly database: Option.Option<Redacted.Redacted>
  readonly durability: "D1" | "D2"
  /** Without a trailing slash. */
  readonly publicUrl: Option.Option<string>
  readonly corsOrigins: AllowedOrigins
  /** See TraceUrl.ts. */
  readonly traceUrl: Option.Option<string>
  readonly shutdownDelay: Duration.Duration
  readonly shutdownGrace: Duration.Duration
  readonly webhooks: WebhookSettings
  /** See PayloadConfig.ts for the variables. */
  readonly payloads: PayloadConfig.PayloadSettings
  /** See AuditConfig.ts for the variables. */
  readonly audit: AuditSettings
  /** See UsageConfig.ts for the variables. */
  readonly usage: UsageConfig.UsageConfig
  /** See AlertConfig.ts for the variables. */
  readonly alerts: AlertConfig.AlertVariables
  readonly batches: BatchSettings
  readonly disk: DiskSettings
  /** See LogConfig.ts for the variables. */
  readonly logs: LogQuotas
  /** See SearchConfig.ts for the variables. */
  readonly search: SearchConfig.SearchSettings
  /** See WorkerConfig.ts for the variables. */
  readonly workers: WorkerConfig.WorkerSettings
  readonly secretsKey: SecretsKeyConfig.SecretsKeySettings
  /** See EngineConfig.ts for the variables. */
  readonly engine: EngineConfig.EngineSettings
  /** See KubernetesConfig.ts for the variable. Undefined: Docker or Podman runs the endpoints with an image. */
  readonly kubernetes: KubernetesSettings | undefined
  /** See BuildConfig.ts for the variables. */
  readonly builds: BuildConfig.BuildSettings
  /** See ModelsConfig.ts for the variables. */
  readonly models: ModelsConfig.ModelSettings
  /** See VolumesConfig.ts for the variable. */
  readonly volumes: NamedVolumes
}

/** Room for a full WAL (16 MiB) and the pages that its checkpoint adds. */
const DEFAULT_RESERVE = 32 * 1024 * 1024

const Port = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 65_535 }))

const ApiKey = Schema.Redacted(Schema.String.check(Schema.isMinLength(16), Schema.isPattern(/^\S+$/)))

const WebAddress = Schema.URL.check(
  Schema.makeFilter((url) => url.protocol === "http:" || url.protocol === "https:" || "an http or https address")
)

/** Comma-separated addresses and CIDR ranges. */
const Ranges = Schema.String.check(
  Schema.makeFilter((text) =>
    Result.isSuccess(AddressGuard.make({ allow: commaSeparated(text) })) || "comma-separated addresses and ranges"
  )
)

const Keep = Schema.DurationFromString.check(
  Schema.makeFilter((duration) => Duration.isGreaterThanOrEqualTo(duration, Duration.hours(1)) || "1 hour or longer")
)

/** Long enough for one request, but short enough that slow receivers do not block the delivery slots. */
const RequestTimeout = Schema.DurationFromString.check(
  Schema.makeFilter((duration) => {
    const millis = Duration.toMillis(duration)
    return (millis >= 100 && millis <= 120_000) || "100 millis to 2 minutes"
  })
)

/** One variable that holds a count. */
const count = (name: SettingName, fallback: number, maximum: number): Effect.Effect<number, CliFailure> =>
  setting(
    name,
    `a whole number from 1 to ${maximum}, for example ${fallback}`,
    Config.schema(Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum })), name).pipe(
      Config.withDefault(fallback)
    )
  )

/** A URL without its trailing slash, so that paths can be appended. */
const webAddress = (name: SettingName): Config.Config<Option.Option<string>> =>
  Config.option(Config.map(Config.schema(WebAddress, name), (url) => url.href.replace(/\/+$/, "")))

/** Reads all settings. Fails on the first invalid setting, and on an unknown variable that looks like a setting. */
export const load: Effect.Effect<PlatformConfig, CliFailure> = Effect.andThen(
  rejectUnknown,
  Effect.all({
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
    apiKey: secretSetting(
      "STINT_API_KEY",
      "at least 16 characters without spaces",
      Config.option(Config.schema(ApiKey, "STINT_API_KEY"))
    ),
    database: DatabaseConfig.load,
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
      "comma-separated origins of web pages, for example https://app.example.com, http://localhost:5173, or * for every page",
      Config.schema(CorsOrigins, "STINT_CORS_ORIGINS").pipe(Config.withDefault(""), Config.map(parseOrigins))
    ),
    traceUrl: TraceUrl.load,
    webhooks: Effect.all({
      allow: setting(
        "STINT_WEBHOOKS_ALLOW",
        "comma-separated addresses and CIDR ranges, for example 10.0.0.7, 192.168.1.0/24",
        Config.schema(Ranges, "STINT_WEBHOOKS_ALLOW").pipe(Config.withDefault(""), Config.map(commaSeparated))
      ),
      allowPrivate: setting(
        "STINT_WEBHOOKS_ALLOW_PRIVATE",
        "true or false",
        Config.Boolean("STINT_WEBHOOKS_ALLOW_PRIVATE").pipe(Config.withDefault(false))
      ),
      keep: setting(
        "STINT_WEBHOOKS_KEEP",
        "a duration of 1 hour or longer, for example \"7 days\"",
        Config.schema(Keep, "STINT_WEBHOOKS_KEEP").pipe(Config.withDefault(Duration.days(7)))
      ),
      timeout: setting(
        "STINT_WEBHOOKS_TIMEOUT",
        "a duration from \"100 millis\" to \"2 minutes\"",
        Config.schema(RequestTimeout, "STINT_WEBHOOKS_TIMEOUT").pipe(Config.withDefault(Duration.seconds(15)))
      )
    }),
    audit: AuditConfig.load,
    usage: UsageConfig.load,
    alerts: AlertConfig.load,
    payloads: PayloadConfig.load,
    batches: Effect.all({
      batchRequests: count("STINT_BATCH_REQUESTS", limitDefaults.batchRequests, 100_000),
      openBatches: count("STINT_BATCHES", limitDefaults.openBatches, 1_000),
      batchQueued: count("STINT_BATCH_QUEUED", limitDefaults.batchQueued, 10_000_000)
    }),
    disk: Effect.all({
      minFreeBytes: PayloadConfig.optionalSize("STINT_DISK_MIN_FREE", "1 GiB"),
      reserveBytes: Effect.map(PayloadConfig.optionalSize("STINT_DISK_RESERVE", "32 MiB"), (bytes) => bytes ?? DEFAULT_RESERVE)
    }),
    logs: LogConfig.load,
    search: SearchConfig.load,
    workers: WorkerConfig.load,
    secretsKey: SecretsKeyConfig.load,
    engine: EngineConfig.load,
    kubernetes: KubernetesConfig.load,
    builds: BuildConfig.load,
    models: ModelsConfig.load,
    volumes: VolumesConfig.load,
    shutdownDelay: setting(
      "STINT_SHUTDOWN_DELAY",
      "a duration, for example \"10 seconds\"",
      Config.Duration("STINT_SHUTDOWN_DELAY").pipe(Config.withDefault(Duration.zero))
    ),
    shutdownGrace: setting(
      "STINT_SHUTDOWN_GRACE",
      "a duration, for example \"30 seconds\" or \"2 minutes\"",
      Config.Duration("STINT_SHUTDOWN_GRACE").pipe(Config.withDefault(Duration.seconds(30)))
    )
  })
)

/** The platform's URL for client commands: `STINT_URL`, or else the default address. */
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
