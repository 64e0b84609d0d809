/**
 * The settings of what jobs log: how much of it is kept. A wrong value stops the boot and names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_LOGS_LINES` | 10000 | log lines of one job that are kept, the newest; more show more of a chatty job |
 * | `STINT_LOGS_SIZE` | 1 MiB | the same in bytes |
 * | `STINT_LOGS_TOTAL` | 256 MiB | bytes of all log lines; beyond it the oldest go, whosever they are. What logs may take of the disk |
 */
import { defaultLogQuotas, type LogQuotas } from "@stint/store/JobLogStore"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import { size } from "./PayloadConfig.ts"
import { setting } from "./Setting.ts"

const KIBIBYTE = 1024

/** A job that may keep hardly a line would tell nothing but that; one with more would be slow to read. */
const Lines = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 100, maximum: 10_000_000 }))

/** Reads the settings; fails with the first one that is wrong. */
export const load: Effect.Effect<LogQuotas, CliFailure> = Effect.all({
  lines: setting(
    "STINT_LOGS_LINES",
    "a number from 100 to 10000000, for example 10000",
    Config.schema(Lines, "STINT_LOGS_LINES").pipe(Config.withDefault(defaultLogQuotas.lines))
  ),
  bytes: size("STINT_LOGS_SIZE", defaultLogQuotas.bytes, { minimum: 64 * KIBIBYTE, maximum: Infinity }),
  totalBytes: size("STINT_LOGS_TOTAL", defaultLogQuotas.totalBytes, { minimum: KIBIBYTE * KIBIBYTE, maximum: Infinity })
})
