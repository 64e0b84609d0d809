/**
 * Where a plugin writes its totals. It is an ordinary service: a file here, a database in your plugin, and a list in tests.
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { appendFile } from "node:fs/promises"

/** The ledger cannot be written. */
class LedgerUnwritable extends Schema.TaggedError<LedgerUnwritable>()("LedgerUnwritable", {
  path: Schema.String,
  cause: Schema.Defect()
}) {
  override get message(): string {
    return `Cannot write ${this.path}: ${String(this.cause)}. Set USAGE_LEDGER to a file that this process can write`
  }
}

/** The total usage of one job. */
export interface Entry {
  /** The job's id. */
  readonly job: string
  readonly used: { readonly [unit: string]: number }
}

/** Stores entries. Writing never fails a job: an entry that cannot be written is logged instead. */
export class Ledger extends Context.Service<Ledger, {
  readonly write: (entry: Entry) => Effect.Effect<void>
}>()("example-plugin-template/Ledger") {}

/** A file with one JSON object per line, at `USAGE_LEDGER`. Default: `usage.jsonl` in the working directory. */
export const layerFile: Layer.Layer<Ledger, Config.ConfigError> = Layer.effect(
  Ledger,
  Effect.gen(function*() {
    const path = yield* Config.withDefault(Config.String("USAGE_LEDGER"), "usage.jsonl")
    return {
      write: (entry) =>
        Effect.tryPromise({
          try: () => appendFile(path, `${JSON.stringify(entry)}\n`),
          catch: (cause) => new LedgerUnwritable({ path, cause })
        }).pipe(Effect.catch(({ message }) => Effect.logError(`${message}. Entry: ${JSON.stringify(entry)}`)))
    }
  })
)
