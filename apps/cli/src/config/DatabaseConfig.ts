/**
 * The PostgreSQL database that several platforms share (docs/operations/many-nodes.md).
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_DATABASE` | none: SQLite in the data folder | `postgres://USER:PASSWORD@HOST/DATABASE?sslmode=verify-full` |
 *
 * `stint serve --database` overrides the variable. Other users of the machine can read the arguments of a command, so an address with a password
 * belongs in the variable. The driver also reads `PGPASSWORD`.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"
import { secretSetting } from "./Setting.ts"

const SHAPE = "the address of a PostgreSQL database, for example postgres://stint@db.internal/stint?sslmode=verify-full. " +
  "Percent-encode the characters / ? # @ : and % of a password"

/**
 * Rejects an address whose password contains an unescaped `/`, `?` or `#` after digits. Otherwise, the password would be parsed as the port and the
 * database, which appear in messages.
 */
const isAddress = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { hash, pathname, protocol, search } = new URL(text)
  return /^postgres(ql)?:$/.test(protocol) && /^\/[^/@]+$/.test(pathname) && hash === "" && !/^\?[^=]*@/.test(search)
}

const Address = Schema.Redacted(Schema.String.check(Schema.makeFilter((text) => isAddress(text) || "a PostgreSQL address")))

/** Reads the variable. */
export const load: Effect.Effect<Option.Option<Redacted.Redacted>, CliFailure> = secretSetting(
  "STINT_DATABASE",
  SHAPE,
  Config.option(Config.schema(Address, "STINT_DATABASE"))
)

/** The host, port and name of the database, without the user and the password. */
export const nameOf = (address: Redacted.Redacted): string => {
  const { host, pathname } = new URL(Redacted.value(address))
  return `${host}${pathname}`
}

/** The settings that cannot be combined with a database. */
interface Others {
  readonly database: Option.Option<Redacted.Redacted>
  readonly durability: "D1" | "D2"
  readonly payloads: { readonly location: Option.Option<{ readonly _tag: "Directory" | "Bucket" }> }
}

/** The database from `--database` or from the settings, if any. Fails if another setting would have no effect or would lose data. */
export const resolve = Effect.fnUntraced(function*(
  flag: Option.Option<string>,
  { database, durability, payloads }: Others
): Effect.fn.Return<Redacted.Redacted | undefined, CliFailure> {
  if (Option.isSome(flag) && !isAddress(flag.value)) {
    return yield* new CliFailure({
      message: "The value of --database is not a PostgreSQL address.",
      hint: `It must be ${SHAPE}.`
    })
  }
  const address = Option.getOrUndefined(Option.orElse(Option.map(flag, (text) => Redacted.make(text)), () => database))
  if (address === undefined) return undefined
  if (durability === "D1") {
    return yield* new CliFailure({
      message: "STINT_DURABILITY is D1, which has no effect with a PostgreSQL database.",
      hint: "Unset STINT_DURABILITY. The server's setting synchronous_commit decides what a commit survives."
    })
  }
  if (Option.isSome(payloads.location) && payloads.location.value._tag === "Directory") {
    return yield* new CliFailure({
      message: "STINT_PAYLOADS is a folder of this machine, which other nodes with the same database cannot read.",
      hint: "Set STINT_PAYLOADS to a bucket (s3://bucket/prefix), or unset it to store payloads in the database."
    })
  }
  return address
})
