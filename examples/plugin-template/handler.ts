/**
 * The handler with the plugin: `npx -y pnpm@12 stint dev examples/plugin-template/handler.ts`, and look into usage.jsonl after a job.
 */
import { Worker } from "@stint/worker"
import * as Layer from "effect/Layer"
import { Ledger, Usage } from "./src/index.ts"
import { Summary } from "./Summary.ts"

Worker.layer(Summary).pipe(
  Layer.provide(Usage.layerWith({ limits: { tokens: 1_000 } })),
  Layer.provide(Ledger.layerFile),
  Worker.launch
)
