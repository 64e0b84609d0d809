/**
 * Finds the socket of the container engine.
 *
 * The default is the first of the usual sockets on which an engine responds: the system-wide ones of
 * Docker and Podman, then those of the platform's user. The search starts when an engine is first needed,
 * and repeats until one responds.
 */
import { PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import * as Engine from "./Engine.ts"
import type { EngineUnreachable } from "./EngineError.ts"

/** The usual sockets, in the order of the search. */
const usualSockets = (): ReadonlyArray<string> => {
  const runtime = process.env["XDG_RUNTIME_DIR"]
  return [
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    ...(runtime === undefined ? [] : [join(runtime, "docker.sock"), join(runtime, "podman/podman.sock")]),
    join(homedir(), ".docker/run/docker.sock")
  ]
}

/** Whether this machine probably has an engine: one of the usual sockets exists. */
export const exists = (): boolean => usualSockets().some((path) => existsSync(path))

const HINT = "Start Docker or Podman (systemctl enable --now podman.socket), or set STINT_ENGINE to the path of its socket."

/** The error of a worker's start while the engine does not answer. */
export const unavailable = ({ problem }: EngineUnreachable): PoolError =>
  new PoolError({ reason: new PoolUnavailable({ problem: `the container engine does not answer: ${problem}`, hint: HINT }) })

/** Returns the engine. The first engine that responds is kept; if it stops responding, its requests fail. */
export const locate = (socket: string | undefined): Effect.Effect<Engine.Engine, PoolError> => {
  if (socket !== undefined) return Effect.succeed(Engine.make(socket))
  let found: Engine.Engine | undefined
  return Effect.gen(function*() {
    if (found !== undefined) return found
    const problems: Array<string> = []
    for (const path of usualSockets().filter((path) => existsSync(path))) {
      const engine = Engine.make(path)
      const version = yield* Effect.result(engine.version)
      if (version._tag === "Success") return found = engine
      problems.push(version.failure.problem)
    }
    return yield* new PoolError({
      reason: new PoolUnavailable({
        problem: problems.length === 0
          ? `this machine has no container engine: none of the sockets ${usualSockets().join(", ")} exists`
          : `no container engine answers: ${problems.join("; ")}`,
        hint: HINT
      })
    })
  })
}
