/**
 * One HTTP request over a kept-alive connection.
 *
 * Why `node:http` and not undici: a take and a result in a loop reach about 0.85 of a bare undici loop over one connection and 0.65
 * over fifty (where batch takes save more calls than that costs), while undici adds about 55 ms to the start of a worker and
 * `node:http` about 10. It is fetched with `getBuiltinModule`, because `import "node:http"` reads every export of it, `WebSocket`
 * included, and that loads Node's own undici: 20 ms more.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ClientRequest } from "node:http"
import { urlToHttpOptions } from "node:url"
import { JobSourceError, Unreachable } from "./JobSource.ts"

/** An answer with its body. */
export interface HttpResponse {
  readonly status: number
  /** In lower case, without parameters: `application/json`. */
  readonly contentType: string
  readonly text: string
}

/** What to ask for. */
export interface HttpRequest {
  readonly method: "GET" | "POST"
  readonly url: string
  readonly body?: string
  readonly contentType?: string
  /** How long the connection may be silent before the call is given up. Milliseconds. */
  readonly idleTimeout: number
}

/** Makes one call. Fails with `Unreachable` when no answer came; an answer of any status is a success. */
export type NodeHttpClient = (call: HttpRequest) => Effect.Effect<HttpResponse, JobSourceError>

const ORIGIN = /^https?:\/\/[^/?#]+/i

/** Looks into the flat list itself, because Node makes an object of all headers when it is asked for one. */
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
 * Calls with these headers over a pool of connections that closes with the scope.
 *
 * A kept-alive connection may be closed by the other end in the instant it is used again; such a call is repeated once on a new
 * one. All calls of a worker may be repeated: takes that got no answer held nothing, and results are fenced by their attempt.
 */
export const make = (headers: { readonly [name: string]: string }): Effect.Effect<NodeHttpClient, never, Scope.Scope> =>
  Effect.gen(function*() {
    /**
     * Connections are pooled by origin and by how long they may be silent: a pool that has the limit of its calls sets no timer
     * for each of them. Headers are a flat list, which Node writes as it is.
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
          current.on("timeout", () => {
            timedOut = true
            current.destroy(new Error(`silent for ${idleTimeout} ms`))
          })
          current.on("error", (error: NodeJS.ErrnoException) => {
            // Hanging up is an error for Node, too, and looks like a lost connection.
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
              // The connection is given back in the next tick. Whoever calls again at once is to find it.
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
