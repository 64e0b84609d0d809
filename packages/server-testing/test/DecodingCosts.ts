/** Measures what hostile bodies (`HostileBodies.ts`) cost a server. */
import { NewKey } from "@stint/contract/AccessKey"
import * as Effect from "effect/Effect"
import { getHeapStatistics } from "node:v8"
import { head, isWhole, statusOf } from "../src/RawSocket.ts"
import { ADMIN_KEY, layer, ServerTest } from "../src/ServerTest.ts"
import { expectJson } from "../src/WireClient.ts"
import { BODY_OPERATIONS, type BodyOperation, BOMBS, type Path } from "./HostileBodies.ts"
import { isWorkerPath } from "./WorkerPaths.ts"

/**
 * Nanoseconds per byte. A scan takes 5 to 20. Collecting all errors took 900, and `JSON.parse` takes up to 150 for nested arrays. A body of
 * 10 MB therefore costs at most a second.
 */
const TIME_PER_BYTE = 100

/**
 * Bytes of heap per byte of body. The text and its pieces take 2 to 4. The values from `JSON.parse` took up to 30, and collecting all errors
 * took 300.
 */
const MEMORY_PER_BYTE = 10

/**
 * The fixed cost: parsing and checking the 10,000 values that a schema may receive, and the request itself. A map of 8,000 names, which are
 * checked too, takes 15 MB.
 */
const FIXED_NANOS = 25_000_000
const FIXED_BYTES = 18_000_000

const cpuNanos = (): number => {
  const { system, user } = process.threadCpuUsage()
  return (user + system) * 1_000
}

const allocated = (): number => {
  const { external_memory: external, total_allocated_bytes: heap } = getHeapStatistics()
  return heap + external
}

/** The cost of one body. */
export interface Cost {
  readonly length: number
  readonly nanos: number
  readonly bytes: number
}

/** A place in a body. */
interface Place {
  readonly operation: BodyOperation
  readonly path: Path
}

/** Every value in the body of every operation. */
export const PLACES: ReadonlyArray<Place> = BODY_OPERATIONS.flatMap((operation) =>
  operation.paths.map((path) => ({ operation, path }))
)

export const BOMB_NAMES: ReadonlyArray<string> = Object.keys(BOMBS)

/** A server whose waits end at once. */
export const layerServer = layer({ limits: { minWaitMs: 1, maxWaitMs: 1, syncWaitMs: 1, openAiHeadWaitMs: 1, heartbeatMs: 1 } })

/** Measures what bodies cost a new endpoint, and returns the lowest cost seen: one that is too high is measured up to three more times. */
export const meter = Effect.gen(function*() {
  const server = yield* ServerTest
  const endpoint = yield* server.endpoint()
  const worker = yield* endpoint.worker()
  const { secret: agentKey } = yield* Effect.flatMap(
    server.call("/api/v1/keys", { json: { name: "rack", scopes: ["agent"], endpoints: "all" } }),
    expectJson(201, NewKey)
  )
  const keyFor = (template: string) => isWorkerPath(template) ? worker.key : template.endsWith("/report") ? agentKey : ADMIN_KEY
  const texts = new Map<string, string>()

  const textOf = (bomb: string, size: number): string => {
    const key = `${bomb} ${size}`
    const text = texts.get(key) ?? BOMBS[bomb]?.(size) ?? ""
    texts.set(key, text)
    return text
  }

  const send = (method: string, path: string, authorization: string, body: string) =>
    Effect.gen(function*() {
      const socket = yield* server.connect
      const start = head(`${method} ${path}`, { authorization, "content-length": String(Buffer.byteLength(body)) })
      const before = { nanos: cpuNanos(), bytes: allocated() }
      yield* socket.write(start + body)
      const answer = yield* socket.until(isWhole)
      return { nanos: cpuNanos() - before.nanos, bytes: allocated() - before.bytes, status: statusOf(answer) ?? 0, answer }
    }).pipe(Effect.scoped)

  /** The cost of a body with a bomb of this size. Dies when the response is neither a success nor a client error. */
  return (bomb: string, size: number, { operation, path }: Place, isTooMuch: (cost: Cost) => boolean) =>
    Effect.gen(function*() {
      const url = operation.template
        .replace("{endpoint}", operation.template.startsWith("/api/v1/endpoints/{endpoint}") ? "new" : endpoint.id)
        .replace("{worker}", "w-1")
        .replaceAll(/\{\w+\}/g, "none")
      const key = keyFor(operation.template)
      const body = operation.body(path, textOf(bomb, size))
      let cost: Cost = { length: body.length, nanos: Infinity, bytes: Infinity }
      // Garbage collection and compilation take time and memory of their own.
      for (let tries = 0; tries < 4 && isTooMuch(cost); tries++) {
        const { answer, bytes, nanos, status } = yield* send(operation.method, url, key, body)
        // A request whose key is rejected costs nothing. The webhook of a Git host has a signature instead of a key.
        const isRejected = status === 401 || (status === 403 && !operation.template.endsWith("/build-hook"))
        if (status < 200 || status >= 500 || isRejected) {
          return yield* Effect.die(new Error(`${placeText(bomb, { operation, path })}: ${answer}`))
        }
        cost = { length: body.length, nanos: Math.min(nanos, cost.nanos), bytes: Math.min(bytes, cost.bytes) }
      }
      return cost
    })
})

/** `numbers at input.tags of POST /v2/{endpoint}/run`. */
export const placeText = (bomb: string, { operation, path }: Place): string => `${bomb} at ${path.join(".")} of ${operation.name}`

/** Whether a body cost more than its size allows. */
export const isExpensive = ({ bytes, length, nanos }: Cost): boolean =>
  nanos > FIXED_NANOS + TIME_PER_BYTE * length || bytes > FIXED_BYTES + MEMORY_PER_BYTE * length

/** `31 ms, 14 MB`. */
export const costText = ({ bytes, nanos }: Cost): string => `${Math.round(nanos / 1e6)} ms, ${Math.round(bytes / 1e6)} MB`
