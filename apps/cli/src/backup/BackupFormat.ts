/**
 * The files of a backup, in their order in the archive.
 *
 * ```
 *   stint-backup.json    the manifest: the time, the versions, the location of the payloads, the settings
 *   admin-key.json       the digest of the platform's API key      \
 *   worker-secret        the secret of the worker keys              > as in the data folder
 *   payloads.json        the location and owner of the payloads    /
 *   stint.db             the database
 *   releases/...         the code of releases
 *   payloads/...         the large payloads, if they are in a local folder
 *   SHA256SUMS           the digest of each file before it, for `sha256sum -c`; an archive without it is not complete
 * ```
 */
import { PayloadKey } from "@stint/payloads/PayloadStore"
import * as Schema from "effect/Schema"
import { SECRET_SETTING_NAMES } from "../config/SettingNames.ts"

/** The version of this format. A change that an older `stint restore` cannot read increases it. */
export const FORMAT = 2

/** The first file of an archive: {@link Manifest}. */
export const MANIFEST = "stint-backup.json"
/** The database, in the archive and in the data folder. */
export const DATABASE = "stint.db"
/** The prefix of payload names. The names do not contain their owner's name. */
export const PAYLOADS = "payloads/"
/** The code of releases: the prefix of its names, and its folder in the data folder. */
export const RELEASES = "releases/"
/** The last file of an archive. */
export const SUMS = "SHA256SUMS"

/** The small files in the data folder that belong to a backup. */
export const KEY_FILES = ["admin-key.json", "worker-secret", "payloads.json"] as const

/** The content of `payloads.json`, which PayloadStores.ts writes. The owner becomes the name of a folder, so it must not lead out of the payload folder. */
export const PayloadsFile = Schema.Struct({ owner: PayloadKey, location: Schema.NonEmptyString })

/** What the backup contains, and the settings of its platform. */
export const Manifest = Schema.Struct({
  /** Format 1 contains no releases. */
  format: Schema.Literals([1, FORMAT]),
  /** The version of Stint that wrote the backup. */
  stint: Schema.String,
  /** The version of the tables in the database. */
  tables: Schema.Int.check(Schema.isGreaterThan(0)),
  /** The backup contains everything that was confirmed before this time. */
  moment: Schema.String,
  /** Where the platform's large payloads are; null when they are in the database. `included`: the archive contains them. */
  payloads: Schema.NullOr(Schema.Struct({ ...PayloadsFile.fields, included: Schema.Boolean })),
  /** The platform's variables, without secrets. Empty for a backup of a stopped platform. */
  settings: Schema.Record(Schema.String, Schema.String),
  /** The names of the variables that were omitted because they are secret. */
  secrets: Schema.Array(Schema.String)
})
export type Manifest = typeof Manifest.Type

/** Only the format and the version, so that an error can name the version that a newer archive needs. */
export const AnyManifest = Schema.Struct({ format: Schema.Int, stint: Schema.String })

/** The folder in a location like `dir:/srv/payloads`; undefined for a bucket. */
export const folderOf = (location: string): string | undefined => /^dir:(.+)$/s.exec(location)?.[1]

const SECRET = /KEY|SECRET|TOKEN|PASSWORD/

const isSecret = (name: string): boolean => SECRET.test(name) || SECRET_SETTING_NAMES.some((one) => one === name)

/** The variables of a platform, and the names of the secret ones. */
export const settingsOf = (environment: Readonly<Record<string, string | undefined>>): Pick<Manifest, "settings" | "secrets"> => {
  const set = Object.entries(environment).filter(([name, value]) =>
    (name.startsWith("STINT_") || name === "PORT") && value !== ""
  )
  return {
    settings: Object.fromEntries(set.flatMap(([name, value]) => isSecret(name) || value === undefined ? [] : [[name, value]])),
    secrets: set.map(([name]) => name).filter(isSecret).sort()
  }
}
