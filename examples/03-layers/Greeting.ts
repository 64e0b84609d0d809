/**
 * The handler as an Effect program. Schemas define its input, output and failures. Its type lists the services that it requires.
 */
import { Handler } from "@stint/worker"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Translations, UnknownLanguage } from "./Translations.ts"

export const Greeting = Handler.make("greeting", {
  input: Schema.Struct({
    name: Schema.NonEmptyString,
    language: Schema.String
  }),
  output: Schema.Struct({ greeting: Schema.String }),
  error: UnknownLanguage,
  run: Effect.fn("greeting")(function*({ language, name }) {
    const translations = yield* Translations
    const template = yield* translations.greeting(language)
    return { greeting: template.replace("{name}", name) }
  })
})
