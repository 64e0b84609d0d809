/**
 * Effect's workflow engine over SQLite (D2) in one process, behind node:http: `POST /pipeline` runs a workflow of three activities that do nothing, and
 * responds with its result. The engine stores each activity's result, so a completed activity does not run again.
 */
import * as ClusterWorkflowEngine from "effect/cluster/ClusterWorkflowEngine"
import * as SingleRunner from "effect/cluster/SingleRunner"
import * as Digest from "effect/crypto/Digest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import * as Activity from "effect/workflow/Activity"
import * as Workflow from "effect/workflow/Workflow"
import { randomUUID } from "node:crypto"
import process from "node:process"
import { OUTPUT } from "../SubjectProcess.ts"
import { serveOperation } from "./OperationServer.ts"
import { openSqlite } from "./SqliteClient.ts"

const { client, end } = openSqlite("effect-workflow", "D2")

const Text = Schema.Struct({ text: Schema.String })
const Count = Schema.Struct({ n: Schema.Int })

const Bench = Workflow.make("bench", {
  payload: { id: Schema.String, text: Schema.String },
  success: Text,
  idempotencyKey: ({ id }) => id
})

const bench = Bench.toLayer(Effect.fnUntraced(function*() {
  const { n } = yield* Activity.make({ name: "first", success: Count, execute: Effect.succeed({ n: 1 }) })
  yield* Activity.make({ name: "second", success: Count, execute: Effect.succeed({ n: n + 1 }) })
  return yield* Activity.make({ name: "third", success: Text, execute: Effect.succeed(OUTPUT) })
}))

const runtime = ManagedRuntime.make(
  bench.pipe(
    Layer.provideMerge(ClusterWorkflowEngine.layer),
    Layer.provide(SingleRunner.layer()),
    Layer.provide(Layer.merge(client, Digest.layerWebCrypto))
  )
)
const decode = Schema.decodeUnknownSync(Schema.Struct({ input: Text }))

await serveOperation((body) => runtime.runPromise(Bench.execute({ id: randomUUID(), text: decode(body).input.text })))
process.once("disconnect", () => {
  void runtime.dispose().then(end).then(() => process.exit())
})
