/**
 * The names of all environment variables that Stint reads. `setting` accepts only these names, so the list is complete.
 *
 * Variables that begin with `STINT_` and are not in the list stop every command: a misspelled `STINT_DURABILTY` would otherwise be ignored. Names
 * without this prefix are never checked: the environment belongs to the user, and `RUNPOD_*` to the workers.
 */
import { didYouMean } from "@stint/contract/Suggestion"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import process from "node:process"
import { CliFailure } from "../CliFailure.ts"

/** The names, in alphabetical order. */
export const SETTING_NAMES = [
  "PORT",
  "STINT_AGENT_TOKEN",
  "STINT_ALERT_FAILED_JOBS",
  "STINT_ALERT_FAILED_PERCENT",
  "STINT_ALERT_QUEUE_AGE",
  "STINT_ALERT_REPEAT",
  "STINT_ALERT_SECRET",
  "STINT_ALERT_URL",
  "STINT_ALERT_WINDOW",
  "STINT_API_KEY",
  "STINT_AUDIT_ENTRIES",
  "STINT_AUDIT_KEEP",
  "STINT_BATCHES",
  "STINT_BATCH_QUEUED",
  "STINT_BATCH_REQUESTS",
  "STINT_BUILD_FOLDERS",
  "STINT_BUILD_OPTIONS",
  "STINT_CACHE_DIR",
  "STINT_CORS_ORIGINS",
  "STINT_DATABASE",
  "STINT_DATA_DIR",
  "STINT_DISK_MIN_FREE",
  "STINT_DISK_RESERVE",
  "STINT_DURABILITY",
  "STINT_ENGINE",
  "STINT_ENGINE_AUTH",
  "STINT_ENGINE_VOLUMES",
  "STINT_HOST",
  "STINT_KUBERNETES",
  "STINT_LIMIT_BATCH",
  "STINT_LIMIT_CHUNK",
  "STINT_LIMIT_RESULT",
  "STINT_LIMIT_RUN",
  "STINT_LIMIT_RUNSYNC",
  "STINT_LOCAL_CPUS",
  "STINT_LOCAL_GPUS",
  "STINT_LOCAL_LABELS",
  "STINT_LOCAL_MEMORY",
  "STINT_LOCAL_WORKERS",
  "STINT_LOGS_LINES",
  "STINT_LOGS_SIZE",
  "STINT_LOGS_TOTAL",
  "STINT_MODELS_DIR",
  "STINT_MODELS_HUB",
  "STINT_MODELS_SIZE",
  "STINT_PAYLOADS",
  "STINT_PAYLOADS_ACCESS_KEY_ID",
  "STINT_PAYLOADS_ENDPOINT",
  "STINT_PAYLOADS_MEMORY",
  "STINT_PAYLOADS_REGION",
  "STINT_PAYLOADS_SECRET_ACCESS_KEY",
  "STINT_PAYLOADS_THRESHOLD",
  "STINT_PRICES",
  "STINT_PUBLIC_URL",
  "STINT_REGISTRY",
  "STINT_SEARCH",
  "STINT_SEARCH_SIZE",
  "STINT_SECRETS_KEY",
  "STINT_SECRETS_KEY_FILE",
  "STINT_SHUTDOWN_DELAY",
  "STINT_SHUTDOWN_GRACE",
  "STINT_SPARE_WORKERS",
  "STINT_TRACE_URL",
  "STINT_URL",
  "STINT_USAGE_KEEP",
  "STINT_VOLUMES",
  "STINT_WEBHOOKS_ALLOW",
  "STINT_WEBHOOKS_ALLOW_PRIVATE",
  "STINT_WEBHOOKS_KEEP",
  "STINT_WEBHOOKS_TIMEOUT",
  "STINT_WORKER_ENV",
  "STINT_WORKER_USER"
] as const

/** The settings whose values never appear in messages or backups. An address may contain a password or a token. */
export const SECRET_SETTING_NAMES = [
  "STINT_AGENT_TOKEN",
  "STINT_ALERT_SECRET",
  "STINT_ALERT_URL",
  "STINT_API_KEY",
  "STINT_DATABASE",
  "STINT_PAYLOADS_SECRET_ACCESS_KEY",
  "STINT_SECRETS_KEY"
] as const satisfies ReadonlyArray<(typeof SETTING_NAMES)[number]>

/** The name of a setting whose value is never shown. */
export type SecretSettingName = (typeof SECRET_SETTING_NAMES)[number]

/** The name of a setting. */
export type SettingName = (typeof SETTING_NAMES)[number]

/** Variables that are not settings: the platform sets them for its workers, whose handlers may run this command. */
const FOR_WORKERS: ReadonlySet<string> = new Set(["STINT_DEV_REVISION"])

/**
 * The variables that Kubernetes sets in every container of a namespace with a service called `stint`. `STINT_PORT` is one of them only if its value
 * is an address; a number is a mistake for `PORT`.
 */
const isFromKubernetes = (name: string, value: string): boolean =>
  /^STINT_(SERVICE_(HOST|PORT\w*)|PORT_\d+_(TCP|UDP|SCTP)\w*)$/.test(name) ||
  (name === "STINT_PORT" && /^(tcp|udp|sctp):/.test(value))

const KNOWN: ReadonlySet<string> = new Set(SETTING_NAMES)

/** Names that {@link didYouMean} would not find, because the prefix differs. */
const MISTAKES: Readonly<Record<string, string>> = { STINT_PORT: "PORT" }

/** The variables of this process. */
export const Environment = Context.Reference<Readonly<Record<string, string | undefined>>>("@stint/cli/Environment", {
  defaultValue: () => process.env
})

/** Fails when the environment contains a variable with Stint's prefix that Stint does not know. Names the closest known one. */
export const rejectUnknown: Effect.Effect<void, CliFailure> = Effect.flatMap(Environment, (env) => {
  const unknown = Object.entries(env).flatMap(([name, value = ""]) =>
    name.startsWith("STINT_") && !KNOWN.has(name) && !FOR_WORKERS.has(name) && !isFromKubernetes(name, value) ? [name] : []
  )
  if (unknown.length === 0) return Effect.void
  const suggestionFor = (name: string) =>
    name in MISTAKES ? ` Did you mean "${MISTAKES[name]}"?` : didYouMean(name, SETTING_NAMES)
  return Effect.fail(
    new CliFailure({
      message: unknown.map((name) => `There is no setting ${name}.${suggestionFor(name)}`).join("\n"),
      hint: "Correct or unset it: unset " + unknown.join(" ") +
        "\nAll settings: docs/reference/README.md#settings-of-the-platform",
      code: "unknown-setting"
    })
  )
})
