/**
 * Settings for the model cache, for endpoints with a `model`. If a value is invalid, the platform does not start, and the error names the
 * variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_MODELS_DIR` | `models` in the data folder, or in `STINT_CACHE_DIR` if workers run as another user | folder whose `huggingface-cache/hub` contains the models. Platforms on one machine may share it |
 * | `STINT_MODELS_HUB` | `https://huggingface.co` | address of the model hub, or of a mirror |
 * | `STINT_MODELS_SIZE` | no limit | maximum size of the cache. The least recently used models are removed to stay below it.
 * Without it, they are removed when less than 1 GiB of disk space is free |
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { join, resolve } from "node:path"
import type { CliFailure } from "../CliFailure.ts"
import { optionalSize } from "./PayloadConfig.ts"
import { setting } from "./Setting.ts"

/** The settings. */
export interface ModelSettings {
  readonly folder: string | undefined
  readonly hubUrl: string
  /** Bytes. */
  readonly maxBytes: number | undefined
}

const HubAddress = Schema.String.check(
  Schema.makeFilter((text) => (/^https?:\/\/[^\s?#@]+$/.test(text) && URL.canParse(text)) || "an http or https address")
)

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<ModelSettings, CliFailure> = Effect.all({
  folder: setting(
    "STINT_MODELS_DIR",
    "a folder, for example /srv/models",
    Config.option(Config.NonEmptyString("STINT_MODELS_DIR")).pipe(
      Config.map((folder) => Option.getOrUndefined(Option.map(folder, (path) => resolve(path))))
    )
  ),
  hubUrl: setting(
    "STINT_MODELS_HUB",
    "an http or https address, for example https://huggingface.co",
    Config.schema(HubAddress, "STINT_MODELS_HUB").pipe(Config.withDefault("https://huggingface.co"))
  ),
  maxBytes: optionalSize("STINT_MODELS_SIZE", "200 GB")
})

/** The cache's folder, for `HF_HOME`. */
export const homeOf = ({ folder }: Pick<ModelSettings, "folder">, cacheDir: string): string =>
  join(folder ?? join(cacheDir, "models"), "huggingface-cache")
