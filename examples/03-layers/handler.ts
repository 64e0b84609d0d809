/**
 * The worker: the handler and its layers. It does not compile if a layer is missing.
 *
 *   stint run layers --input '{"name":"Ada","language":"fr"}' --sync
 */
import { Worker } from "@stint/worker"
import * as Layer from "effect/Layer"
import { Greeting } from "./Greeting.ts"
import * as Translations from "./Translations.ts"

Worker.layer(Greeting).pipe(
  Layer.provide(Translations.layer),
  Worker.launch
)
