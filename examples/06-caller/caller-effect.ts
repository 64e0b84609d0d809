/**
 * Calls the examples with Effect, with types from a handler. The client validates the input before sending it, and fails with the failures
 * that the handler declares.
 *
 *   STINT_API_KEY=$(npx -y pnpm@12 -s stint keys print) node caller-effect.ts
 */
import * as Client from "@stint/client-effect/Client"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Greeting } from "../03-layers/Greeting.ts"

const program = Effect.gen(function*() {
  const greeting = yield* Client.endpoint(Greeting, "layers")

  const greet = (language: string) =>
    greeting.runSync({ name: "Ada", language }).pipe(
      Effect.map((output) => output.greeting),
      Effect.catchTag("UnknownLanguage", ({ known }) => Effect.succeed(`We greet in ${known.join(", ")}.`))
    )
  yield* Console.log(yield* greet("fr"))
  yield* Console.log(yield* greet("tlh"))

  const countdown = yield* Client.endpoint("countdown")
  yield* Stream.runForEach(countdown.stream({ from: 3 }), Console.log)
})

await Effect.runPromise(Effect.provide(program, Client.layerConfig))
