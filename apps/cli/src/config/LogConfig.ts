/**
 * Settings for job logs: how many lines and bytes are stored. If a value is invalid, the platform does not start, and the error names the
 * variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_LOGS_LINES` | 10000 | newest log lines stored per job; more lines help with jobs that log a lot but take disk space |
 * | `STINT_LOGS_SIZE` | 1 MiB | bytes of the newest log lines stored per job |
 * | `STINT_LOGS_TOTAL` | 256 MiB | bytes of all stored log lines; above it, the oldest lines are deleted. Bounds the logs' disk space |
 */
import { defaultLogQuotas, type LogQuotas } from "@stint/store/JobLogStore"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import { size } from "./PayloadConfig.ts"
import { setting } from "./Setting.ts"

const KIBIBYTE = 1024

/** The bounds of the settings. Fewer lines would be useless, and more would be slow to read. */
const Lines = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 100, maximum: 10_000_000 }))

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<LogQuotas, CliFailure> = Effect.all({
  lines: setting(
    "STINT_LOGS_LINES",
    "a number from 100 to 10000000, for example 10000",
    Config.schema(Lines, "STINT_LOGS_LINES").pipe(Config.withDefault(defaultLogQuotas.lines))
  ),
  bytes: size("STINT_LOGS_SIZE", defaultLogQuotas.bytes, { minimum: 64 * KIBIBYTE, maximum: Infinity }),
  totalBytes: size("STINT_LOGS_TOTAL", defaultLogQuotas.totalBytes, { minimum: KIBIBYTE * KIBIBYTE, maximum: Infinity })
})
