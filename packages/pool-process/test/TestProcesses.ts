/** Helpers for tests with processes: folders, scripts and polling. */
import { afterAll, assert } from "@effect/vitest"
import type { Endpoint } from "@stint/contract/Endpoint"
import { WorkerId } from "@stint/contract/Ids"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import * as ProcessPool from "@stint/pool-process/ProcessPool"
import type { PoolError } from "@stint/pool/PoolError"
import { endpointOf, resolvedOf } from "@stint/pool/testing"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { type StartRequest, WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { identityOf } from "../src/ProcessTable.ts"

/** The temporary folder of the test file. */
export const folder = realpathSync(mkdtempSync(join(tmpdir(), "stint-pool-process-")))
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))

let count = 0

/** A unique name. */
export const fresh = (prefix: string): string => `${prefix}-${process.pid}-${++count}`

/** Writes a script and returns its path. */
export const script = (text: string, name = `${fresh("script")}.ts`): string => {
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}

/** All lines that workers of {@link withPool} printed, in order. */
export const printed: Array<string> = []

const log = Layer.succeed(WorkerLog, {
  write: ({ text }) =>
    Effect.sync(() => {
      printed.push(text)
    })
})

/** Runs a test with its own pool. */
export const withPool = <A, E>(
  body: Effect.Effect<A, E, WorkerPool | Scope.Scope>,
  options: Partial<ProcessPool.Options> = {}
): Effect.Effect<A, E | PoolError> =>
  Effect.scoped(body).pipe(
    Effect.provide(Layer.provide(ProcessPool.layer({ dataDir: join(folder, "data"), bundle: false, ...options }), log))
  )

/** Starts a worker of a source. */
export const start = Effect.fnUntraced(function*(
  source: Endpoint["source"],
  env: Record<string, string> = {},
  rest: Pick<StartRequest, "code" | "gpuIds"> = {}
) {
  const pool = yield* WorkerPool
  const endpoint = yield* endpointOf({ source, env })
  const worker = WorkerId.make(fresh("w"))
  const variables = workerEnvironment({
    baseUrl: "http://127.0.0.1:1",
    endpoint: "tested",
    worker,
    key: "key",
    pingIntervalMs: 10_000
  })
  return yield* pool.start({ endpoint: resolvedOf(endpoint), worker, variables, ...rest })
})

/** Polls until `look` returns a value, for about 25 seconds: a busy machine starts processes slowly. */
export const until = <A>(what: string, look: () => A | undefined): Effect.Effect<A> =>
  Effect.suspend(() => {
    const found = look()
    return found === undefined ? Effect.fail("not yet") : Effect.succeed(found)
  }).pipe(
    Effect.retry({ times: 1_250, schedule: Schedule.spaced("20 millis") }),
    Effect.catch(() => Effect.die(new Error(`timed out waiting for ${what}; printed: ${printed.slice(-10).join(" | ")}`)))
  )

/** Waits for a printed line with this prefix, and returns the rest of the line. */
export const line = (beginning: string): Effect.Effect<string> =>
  until(`a line "${beginning}..."`, () => printed.find((text) => text.startsWith(beginning))?.slice(beginning.length))

/** Whether a process is running. A zombie is not. */
export const isAlive = (pid: number): boolean => {
  assert.isAbove(pid, 1)
  return identityOf(pid) !== undefined
}

/** Waits until a process has ended. */
export const gone = (pid: number): Effect.Effect<true> =>
  until(`the end of process ${pid}`, () => isAlive(pid) ? undefined : true)
