/**
 * A minimal HTTP client with keep-alive connections.
 *
 * It uses `node:http` and not undici, because undici adds about 55 ms to the start of a worker and `node:http` about 10 ms. A loop of takes
 * and results reaches about 0.85 times the throughput of undici over one connection and 0.65 times over fifty; with fifty, batch takes save more
 * calls than this loses. `getBuiltinModule` loads the module, because `import "node:http"` reads all its exports, including `WebSocket`, which
 * loads Node's own undici and takes another 20 ms.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ClientRequest } from "node:http"
import { urlToHttpOptions } from "node:url"
import { JobSourceError, Unreachable } from "./JobSource.ts"

/** A response with its body. */
export interface HttpResponse {
  readonly status: number
  /** In lower case, without parameters: `application/json`. */
  readonly contentType: string
  readonly text: string
}

/** One request. */
export interface HttpRequest {
  readonly method: "GET" | "POST"
  readonly url: string
  readonly body?: string
  readonly contentType?: string
  /** How long the connection may be idle before the call fails. Milliseconds. */
  readonly idleTimeout: number
}

/** Sends one request. Fails with `Unreachable` when there is no response; a response of any status is a success. */
export type NodeHttpClient = (call: HttpRequest) => Effect.Effect<HttpResponse, JobSourceError>

const ORIGIN = /^https?:\/\/[^/?#]+/i

/** Searches the flat list, because Node builds an object of all headers on access to `headers`. */
const contentTypeOf = (rawHeaders: ReadonlyArray<string>): string => {
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === "content-type") {
      return rawHeaders[index + 1]?.split(";", 1)[0]?.trim().toLowerCase() ?? ""
    }
  }
  return ""
}

const errorCodeOf = (error: NodeJS.ErrnoException): string => error.code ?? error.message

/**
 * A client that sends these headers, over a connection pool that closes with the scope.
 *
 * The platform may close a keep-alive connection at the moment it is reused; the client then repeats the call once on a new
 * connection. Every call that a worker makes may be repeated: a take without a response assigned no job, and results are fenced by their
 * attempt.
 */
export const make = (headers: { readonly [name: string]: string }): Effect.Effect<NodeHttpClient, never, Scope.Scope> =>
  Effect.gen(function*() {
    /**
     * One pool per origin and idle timeout: the pool's timeout replaces a timer for each call. Headers are a flat list, which Node writes
     * without conversion.
     */
    const open = (origin: string, idleTimeout: number) => {
      const { hostname, port, protocol } = urlToHttpOptions(new URL(origin))
      const { Agent, request } = protocol === "https:"
        ? process.getBuiltinModule("node:https")
        : process.getBuiltinModule("node:http")
      const agent = new Agent({
        keepAlive: true,
        maxSockets: Infinity,
        maxFreeSockets: 256,
        scheduling: "lifo",
        timeout: idleTimeout
      })
      const common = ["host", new URL(origin).host, ...Object.entries(headers).flat()]
      return { agent, request, options: { hostname, port, protocol }, common }
    }
    const pools = new Map<string, ReturnType<typeof open>>()
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        for (const { agent } of pools.values()) agent.destroy()
      })
    )
    const poolOf = (origin: string, idleTimeout: number) => {
      const key = `${idleTimeout} ${origin}`
      const known = pools.get(key)
      if (known !== undefined) return known
      const opened = open(origin, idleTimeout)
      pools.set(key, opened)
      return opened
    }

    return ({ body, contentType, method, idleTimeout, url }) =>
      Effect.callback<HttpResponse, JobSourceError>((resume) => {
        const origin = ORIGIN.exec(url)?.[0] ?? url
        const path = url.slice(origin.length)
        const { agent, common, options, request } = poolOf(origin, idleTimeout)
        const head = [...common]
        if (contentType !== undefined) head.push("content-type", contentType)
        if (body !== undefined) head.push("content-length", String(Buffer.byteLength(body)))

        let current: ClientRequest
        let timedOut = false
        let abandoned = false
        const fail = (error: NodeJS.ErrnoException) =>
          resume(Effect.fail(
            new JobSourceError({
              reason: new Unreachable({ detail: `${origin} does not answer (${errorCodeOf(error)})`, timedOut })
            })
          ))
        const send = (again: boolean) => {
          current = request({ ...options, method, path: path === "" ? "/" : path, agent, headers: head })
          // While the connection was idle, its limit was the shorter one that the platform had announced with `Keep-Alive`.
          current.on("socket", (socket) => {
            if (socket.timeout !== idleTimeout) socket.setTimeout(idleTimeout)
          })
          current.on("timeout", () => {
            timedOut = true
            current.destroy(new Error(`silent for ${idleTimeout} ms`))
          })
          current.on("error", (error: NodeJS.ErrnoException) => {
            // Destroying the request also emits an error, which looks like a lost connection.
            if (abandoned) return
            if (again && current.reusedSocket && error.code === "ECONNRESET") send(false)
            else fail(error)
          })
          current.on("response", (response) => {
            const chunks: Array<Buffer> = []
            response.on("data", (chunk: Buffer) => chunks.push(chunk))
            response.on("error", fail)
            response.on("end", () => {
              const answer: HttpResponse = {
                status: response.statusCode ?? 0,
                contentType: contentTypeOf(response.rawHeaders),
                text: chunks.length === 1 ? String(chunks[0]) : Buffer.concat(chunks).toString()
              }
              // The connection returns to the agent in the next tick. Resuming later lets the next call reuse it.
              process.nextTick(() => resume(Effect.succeed(answer)))
            })
          })
          current.end(body)
        }
        send(true)
        return Effect.sync(() => {
          abandoned = true
          current.destroy()
        })
      })
  })
