/** The worker that `tracing.ts` measures. Traced where the environment asks for it. */
import { Telemetry } from "@stint/telemetry"
import { Handler, Worker } from "@stint/worker"
import * as Layer from "effect/Layer"

const handler = Handler.fromFunction(() => ({ text: "y".repeat(50) }), { name: "bench" })
const concurrency = Number(process.env["CONCURRENCY"])

Worker.launch(Worker.layer(handler, { concurrencyModifier: () => concurrency }).pipe(Layer.provide(Telemetry.layer)))
