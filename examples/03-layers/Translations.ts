/**
 * A service that the handler uses: greetings by language. The real layer reads them from a file when the worker starts; tests provide
 * another layer.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { readFile } from "node:fs/promises"

/** The language has no greeting. Callers receive this failure as the job's error. */
export class UnknownLanguage extends Schema.TaggedError<UnknownLanguage>()("UnknownLanguage", {
  language: Schema.String,
  known: Schema.Array(Schema.String)
}) {}

/** Greetings by language. */
export class Translations extends Context.Service<Translations, {
  /** A greeting with the placeholder `{name}`. */
  readonly greeting: (language: string) => Effect.Effect<string, UnknownLanguage>
}>()("example-layers/Translations") {}

/** Translations from a table, for tests. */
export const layerFrom = (table: Readonly<Record<string, string>>): Layer.Layer<Translations> =>
  Layer.succeed(Translations, {
    greeting: (language) => {
      const greeting = table[language]
      return greeting === undefined
        ? Effect.fail(new UnknownLanguage({ language, known: Object.keys(table) }))
        : Effect.succeed(greeting)
    }
  })

const Table = Schema.fromJsonString(Schema.Record(Schema.String, Schema.String))

/** Translations from the file `translations.json`. */
export const layer: Layer.Layer<Translations> = Layer.unwrap(Effect.gen(function*() {
  const text = yield* Effect.promise(() => readFile(new URL("translations.json", import.meta.url), "utf8"))
  return layerFrom(yield* Effect.orDie(Schema.decodeUnknownEffect(Table)(text)))
}))
