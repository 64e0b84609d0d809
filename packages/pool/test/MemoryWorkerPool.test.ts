import { PoolError } from "@stint/pool"
import * as MemoryWorkerPool from "@stint/pool/MemoryWorkerPool"
import { BEHAVIOUR, behaviourOf, suite } from "@stint/pool/testing"
import { WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Workers that execute the behaviour in their variables. */
const scripted = MemoryWorkerPool.layer(Effect.fnUntraced(function*(worker) {
  const variables: Readonly<Record<string, string>> = { ...worker.endpoint.env, ...worker.variables }
  const { print, printEnv, then } = yield* Effect.orDie(behaviourOf(variables[BEHAVIOUR]))
  yield* Effect.forEach([...print, ...printEnv.map((name) => `${name}=${variables[name]}`)], worker.print, { discard: true })
  switch (then._tag) {
    case "Exit":
      return then.code
    case "Signal":
      return yield* worker.signal(then.signal)
    case "Stay":
      return yield* Effect.never
    case "Wait":
      return yield* Effect.as(worker.exitRequested, 0)
  }
}))

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
).pipe(Layer.provide(scripted))

suite("memory", {
  layer: failing,
  source: { type: "handler", file: "handler.ts" },
  broken: { type: "command", command: ["missing"] }
})
