/**
 * Settings for builds from Git repositories. If a value is invalid, the platform does not start, and the error names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_REGISTRY` | none: images stay in the engine | where built images are pushed, for example `registry.example.com/team`. Without it, images are lost with the engine's storage |
 * | `STINT_BUILD_OPTIONS` | none | options of the engine's `build`, separated by spaces, for example `--network=host --memory=4g` |
 * | `STINT_BUILD_FOLDERS` | none | folders whose Git repositories may be built by path, comma-separated. The holder of a key with the scope `deploy` can read every repository in them |
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import { commaSeparated, setting } from "./Setting.ts"

/** The settings. */
export interface BuildSettings {
  readonly registry: string | undefined
  readonly options: ReadonlyArray<string>
  readonly localFolders: ReadonlyArray<string>
}

/** A host, with a path if the registry needs one. Lower case, because all image names are. */
const Registry = Schema.String.check(
  Schema.isPattern(/^(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:))(?::\d+)?(?:\/[a-z0-9._-]+)*$/, {
    message: "Expected the host of a registry, with a path if it needs one, and without https://"
  })
)

const Options = Schema.String.check(
  Schema.makeFilter((text) =>
    text.split(/\s+/).filter(Boolean).every((word) => word.startsWith("-")) || "options that begin with -, as --name=value"
  )
)

const Folders = Schema.String.check(
  Schema.makeFilter((text) => commaSeparated(text).every((path) => path.startsWith("/")) || "comma-separated absolute paths")
)

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<BuildSettings, CliFailure> = Effect.all({
  registry: setting(
    "STINT_REGISTRY",
    "the host of a registry, for example registry.example.com/team",
    Config.option(Config.schema(Registry, "STINT_REGISTRY")).pipe(Config.map(Option.getOrUndefined))
  ),
  options: setting(
    "STINT_BUILD_OPTIONS",
    "options separated by spaces, for example --network=host --memory=4g",
    Config.schema(Options, "STINT_BUILD_OPTIONS").pipe(
      Config.withDefault(""),
      Config.map((text) => text.split(/\s+/).filter((word) => word !== ""))
    )
  ),
  localFolders: setting(
    "STINT_BUILD_FOLDERS",
    "comma-separated absolute paths of folders, for example /srv/git",
    Config.schema(Folders, "STINT_BUILD_FOLDERS").pipe(Config.withDefault(""), Config.map(commaSeparated))
  )
})
