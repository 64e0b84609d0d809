/**
 * Checks whether the container engine of this machine can run the workers of endpoints, for `stint doctor`. Starts and pulls nothing.
 */
import * as Effect from "effect/Effect"
import * as EngineSocket from "./EngineSocket.ts"
import { gpuRequestOf } from "./GpuRequest.ts"

/** An endpoint whose workers are containers. */
export interface ContainerEndpoint {
  readonly id: string
  /** How many GPUs a worker gets. */
  readonly gpus: number | "all" | undefined
}

/** The result of the check. */
export interface EngineReport {
  /** Whether the engine can run the workers. */
  readonly usable: boolean
  /** The engine, or the problem. Without a full stop. */
  readonly found: string
  /** The remedy; empty when none is needed. */
  readonly advice: string
}

/**
 * Examines the engine at `socket`, or else at the usual sockets. Returns undefined when nothing needs an engine: there is no socket, and no endpoint runs
 * in containers.
 */
export const examine = Effect.fnUntraced(function*(
  socket: string | undefined,
  endpoints: ReadonlyArray<ContainerEndpoint>
): Effect.fn.Return<EngineReport | undefined> {
  if (socket === undefined && endpoints.length === 0 && !EngineSocket.exists()) return undefined
  const version = yield* EngineSocket.locate(socket).pipe(
    Effect.flatMap((engine) => Effect.map(engine.version, (version) => ({ ...version, socket: engine.socket }))),
    Effect.catchTag("EngineUnreachable", (error) => Effect.fail(EngineSocket.unavailable(error))),
    Effect.result
  )
  if (version._tag === "Failure") {
    const error = version.failure
    return error._tag === "PoolError" && error.reason._tag === "PoolUnavailable"
      ? { usable: false, found: error.reason.problem, advice: error.reason.hint }
      : { usable: false, found: error.message.replace(/\.$/, ""), advice: "" }
  }
  const engine = version.success
  const found = `${engine.isPodman ? "Podman" : "Docker"} ${engine.version} at ${engine.socket}`
  for (const { gpus, id } of endpoints) {
    const request = gpus === undefined ? undefined : gpuRequestOf(engine, gpus, undefined)
    if (request === undefined || !("problem" in request)) continue
    return { usable: false, found: `${found}; endpoint ${id} needs GPUs, but ${request.problem}`, advice: request.hint }
  }
  return { usable: true, found, advice: "" }
})
