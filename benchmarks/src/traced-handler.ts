/** The worker that `tracing.ts` measures. Traced if the environment enables it. */
import { Handler, Worker } from "@stint/worker"
import { Telemetry } from "@stint/worker-telemetry"
import * as Layer from "effect/Layer"
import { setTimeout } from "node:timers/promises"

const wait = Number(process.env["WAIT"])
const result = { text: "y".repeat(50) }
const handler = Handler.fromFunction(() => wait === 0 ? result : setTimeout(wait, result), { name: "bench" })
const concurrency = Number(process.env["CONCURRENCY"])

Worker.launch(Worker.layer(handler, { concurrencyModifier: () => concurrency }).pipe(Layer.provide(Telemetry.layer)))
