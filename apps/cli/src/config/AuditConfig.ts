/**
 * Settings for the audit log. If a value is invalid, the platform does not start, and the error names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_AUDIT_ENTRIES` | 20000 | stored entries of each of the three kinds; the oldest are removed. An entry takes about 200 bytes |
 * | `STINT_AUDIT_KEEP` | 400 days | how long entries are stored |
 */
import { type AuditSettings, defaults } from "@stint/server/AuditLog"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import { setting } from "./Setting.ts"

/** The bounds of the settings. A list of more entries would be slow to filter. */
const Entries = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 100, maximum: 1_000_000 }))

const Keep = Schema.DurationFromString.check(
  Schema.makeFilter((duration) => Duration.isGreaterThanOrEqualTo(duration, Duration.days(1)) || "1 day or longer")
)

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<AuditSettings, CliFailure> = Effect.all({
  entries: setting(
    "STINT_AUDIT_ENTRIES",
    "a number from 100 to 1000000, for example 20000",
    Config.schema(Entries, "STINT_AUDIT_ENTRIES").pipe(Config.withDefault(defaults.entries))
  ),
  keep: setting(
    "STINT_AUDIT_KEEP",
    "a duration of 1 day or longer, for example \"400 days\"",
    Config.schema(Keep, "STINT_AUDIT_KEEP").pipe(Config.withDefault(defaults.keep))
  )
})
