import { PoolError } from "@stint/pool"
import * as MemoryWorkerPool from "@stint/pool/MemoryWorkerPool"
import { runScripted, suite } from "@stint/pool/testing"
import { WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** The pool that fails to start commands. */
const failing = Layer.effect(
  WorkerPool,
  Effect.gen(function*() {
    const pool = yield* WorkerPool
    return WorkerPool.of({
      ...pool,
      start: (request) =>
        request.endpoint.source.type === "command"
          ? Effect.fail(
            new PoolError.PoolError({
              reason: new PoolError.SpawnFailed({ path: "missing", problem: "there is no such file", hint: "Create it." })
            })
          )
          : pool.start(request)
    })
  })
).pipe(Layer.provide(MemoryWorkerPool.layer(runScripted)))

suite("memory", {
  layer: failing,
  source: { type: "handler", file: "handler.ts" },
  broken: { type: "command", command: ["missing"] }
})
