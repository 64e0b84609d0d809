/**
 * Named volumes (docs/operations/volumes.md). If a value is invalid, the platform does not start, and the error names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_VOLUMES` | none | folders that endpoints may use by name, as `name=/folder`, comma-separated. The holder of a key with the scope `deploy` can read and change everything in them |
 */
import type { NamedVolumes } from "@stint/pool/NamedVolumes"
import * as Config from "effect/Config"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import { commaSeparated, setting } from "./Setting.ts"

const VOLUME = /^([A-Za-z0-9][\w.-]*)=(\/.*)$/

const namesIn = (text: string) => commaSeparated(text).flatMap((one) => VOLUME.exec(one)?.[1] ?? [])

const Volumes = Schema.String.check(
  Schema.makeFilter((text) => {
    const names = namesIn(text)
    if (names.length !== commaSeparated(text).length) return "NAME=/FOLDER, comma-separated"
    return new Set(names).size === names.length || "each name once"
  })
)

/** Reads the setting: folders by volume name. */
export const load: Effect.Effect<NamedVolumes, CliFailure> = setting(
  "STINT_VOLUMES",
  "names with absolute paths of folders, each name once, for example shared=/srv/shared, nfs=/mnt/nfs/stint",
  Config.schema(Volumes, "STINT_VOLUMES").pipe(
    Config.withDefault(""),
    Config.map((text): NamedVolumes =>
      Object.fromEntries(
        commaSeparated(text).map((one) => {
          const at = one.indexOf("=")
          return [one.slice(0, at), one.slice(at + 1)]
        })
      )
    )
  )
)
