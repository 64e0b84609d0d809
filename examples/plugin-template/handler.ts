/**
 * A worker with the plugin. Run `npx -y pnpm@12 stint dev examples/plugin-template/handler.ts`, send a job, then read usage.jsonl.
 */
import { Worker } from "@stint/worker"
import * as Layer from "effect/Layer"
import { Ledger, Usage } from "./src/index.ts"
import { Summary } from "./Summary.ts"

Worker.layer(Summary, { middleware: [Usage.middlewareWith({ limits: { tokens: 1_000 } })] }).pipe(
  Layer.provide(Ledger.layerFile),
  Worker.launch
)
