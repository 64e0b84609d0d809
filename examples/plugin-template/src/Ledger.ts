/**
 * Where sums are written. The seam of this plugin: one file here, a database in yours, a list in tests.
 */
import { FitnessChecks } from "@stint/worker"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { access, appendFile, constants, mkdir } from "node:fs/promises"
import { dirname } from "node:path"

/** The ledger cannot be written. */
export class LedgerUnwritable extends Schema.TaggedError<LedgerUnwritable>()("LedgerUnwritable", {
  path: Schema.String,
  cause: Schema.Defect()
}) {
  override get message(): string {
    return `${this.path} cannot be written (USAGE_LEDGER names it): ${String(this.cause)}`
  }
}

/** What one job used in all. */
export interface Entry {
  /** The job's id. */
  readonly job: string
  readonly used: { readonly [unit: string]: number }
}

/** Keeps entries. Writing never fails a job: what cannot be written is in the log, where it can be copied from. */
export class Ledger extends Context.Service<Ledger, {
  readonly write: (entry: Entry) => Effect.Effect<void>
}>()("example-plugin-template/Ledger") {}

/**
 * A file with one JSON object a line, at `USAGE_LEDGER`; default `usage.jsonl` in the working directory.
 *
 * Contributes a fitness check: a worker that cannot write there takes no jobs on a platform.
 */
export const layerFile: Layer.Layer<Ledger, Config.ConfigError, FitnessChecks.FitnessChecks> = Layer.effect(
  Ledger,
  Effect.gen(function*() {
    const path = yield* Config.withDefault(Config.String("USAGE_LEDGER"), "usage.jsonl")
    const { add } = yield* FitnessChecks.FitnessChecks
    yield* add({
      name: "usage ledger",
      run: Effect.tryPromise({
        try: async () => {
          await mkdir(dirname(path), { recursive: true })
          await appendFile(path, "")
          await access(path, constants.W_OK)
        },
        catch: (cause) => new LedgerUnwritable({ path, cause })
      })
    })
    return {
      write: (entry) =>
        Effect.tryPromise({
          try: () => appendFile(path, `${JSON.stringify(entry)}\n`),
          catch: (cause) => new LedgerUnwritable({ path, cause })
        }).pipe(Effect.catch(({ message }) => Effect.logError(`${message}. Not written: ${JSON.stringify(entry)}`)))
    }
  })
)
