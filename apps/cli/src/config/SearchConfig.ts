/**
 * Settings for the index of words (docs/operations/bulk.md#words). If a value is invalid, the platform does not start, and the error names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_SEARCH` | `on` | `off` keeps no index: searches for words read all jobs in their range, page by page. Saves about 0.1 ms of CPU time per job, and disk space of about half the payloads |
 * | `STINT_SEARCH_SIZE` | 1 GiB | characters of all indexed words; the index on disk takes about half. Beyond it, the oldest jobs leave the index |
 */
import { DEFAULT_INDEX_SIZE } from "@stint/store/TextIndex"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import type { CliFailure } from "../CliFailure.ts"
import { size } from "./PayloadConfig.ts"
import { setting } from "./Setting.ts"

/** Whether words are indexed, and the maximum size of the index. */
export interface SearchSettings {
  readonly isIndexed: boolean
  readonly maxSize: number
}

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<SearchSettings, CliFailure> = Effect.all({
  isIndexed: setting(
    "STINT_SEARCH",
    "on or off",
    Config.Literals(["on", "off"], "STINT_SEARCH").pipe(Config.withDefault("on"), Config.map((value) => value === "on"))
  ),
  maxSize: size("STINT_SEARCH_SIZE", DEFAULT_INDEX_SIZE, { minimum: 1024 * 1024, maximum: Infinity })
})
