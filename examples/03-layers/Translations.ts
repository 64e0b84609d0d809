/**
 * A service of the handler: greetings by language. The real layer reads them from a file, once, when the worker starts; a test puts another
 * layer in its place.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { readFile } from "node:fs/promises"

/** There is no greeting in that language. A caller sees it as the job's error. */
export class UnknownLanguage extends Schema.TaggedError<UnknownLanguage>()("UnknownLanguage", {
  language: Schema.String,
  known: Schema.Array(Schema.String)
}) {}

export class Translations extends Context.Service<Translations, {
  /** A greeting with `{name}` where the name belongs. */
  readonly greeting: (language: string) => Effect.Effect<string, UnknownLanguage>
}>()("example-layers/Translations") {}

/** Translations from a table: all that a test needs. */
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

/** Translations from the file beside this one. */
export const layer: Layer.Layer<Translations> = Layer.unwrap(Effect.gen(function*() {
  const text = yield* Effect.promise(() => readFile(new URL("translations.json", import.meta.url), "utf8"))
  return layerFrom(yield* Effect.orDie(Schema.decodeUnknownEffect(Table)(text)))
}))
