/**
 * Records the bytes of real requests to every route, and damages them.
 *
 * ```
 *   clients --> proxy --> server
 *                 \--> recorded bytes --> mutate --> nearly valid requests
 * ```
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { connect, createServer, type Socket } from "node:net"

/** A proxy that records the bytes that its clients send, one buffer for each connection. */
export const recorder = (baseUrl: string): Effect.Effect<
  { readonly baseUrl: string; readonly requests: () => ReadonlyArray<Buffer> },
  never,
  Scope.Scope
> =>
  Effect.gen(function*() {
    const { hostname, port } = new URL(baseUrl)
    const recorded: Array<Array<Buffer>> = []
    const sockets = new Set<Socket>()
    const server = createServer((client) => {
      const chunks: Array<Buffer> = []
      recorded.push(chunks)
      const target = connect({ host: hostname, port: Number(port) })
      for (const socket of [client, target]) {
        sockets.add(socket)
        socket.on("error", () => socket.destroy())
        socket.on("close", () => sockets.delete(socket))
      }
      client.on("data", (chunk) => chunks.push(Buffer.from(chunk)))
      client.pipe(target).pipe(client)
    })
    const address = yield* Effect.acquireRelease(
      Effect.callback<number>((resume) => {
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
        })
      }),
      () =>
        Effect.callback<void>((resume) => {
          for (const socket of sockets) socket.destroy()
          server.close(() => resume(Effect.void))
        })
    )
    return {
      baseUrl: `http://127.0.0.1:${address}`,
      requests: () => recorded.map((chunks) => Buffer.concat(chunks)).filter(({ length }) => length > 0)
    }
  })

/** Texts that parsers treat specially. */
const TOKENS = [
  "\r\n",
  "\r\n\r\n",
  "\n",
  "\u0000",
  "{",
  "}",
  "[".repeat(600),
  "]",
  "\"",
  "\\",
  "\\ud800",
  ":",
  ",",
  "null",
  "1e400",
  "-0",
  "9".repeat(400),
  "%00",
  "%2e%2e/",
  "%ff",
  "//",
  "?",
  "&",
  "?wait=1e9",
  "é",
  "\u00ff\u00fe",
  "Content-Length: 5\r\n",
  "Content-Length: 99999999999999999999\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Content-Encoding: gzip\r\n",
  "Expect: 100-continue\r\n",
  "Idempotency-Key: fuzz\r\n",
  "Last-Event-ID: 1\r\n",
  "Connection: upgrade\r\nUpgrade: websocket\r\n",
  "HTTP/1.0\r\n",
  "GET / HTTP/1.1\r\nhost: x\r\n\r\n"
].map((text) => Buffer.from(text, "latin1"))

/** Applies one to four random mutations to the bytes of a request. */
export const mutate = (request: Buffer, others: ReadonlyArray<Buffer>, random: () => number): Buffer => {
  const upTo = (limit: number) => Math.floor(random() * limit)
  const pick = <A>(list: ReadonlyArray<A>): A | undefined => list[upTo(list.length)]
  let bytes = request
  for (let rounds = 1 + upTo(4); rounds > 0; rounds--) {
    const at = upTo(bytes.length + 1)
    const to = Math.min(bytes.length, at + 1 + upTo(random() < 0.5 ? 4 : 64))
    const [before, inside, after] = [bytes.subarray(0, at), bytes.subarray(at, to), bytes.subarray(to)]
    switch (upTo(7)) {
      case 0:
        bytes = Buffer.concat([before, after])
        break
      case 1:
        bytes = Buffer.concat([before, inside, inside, after])
        break
      case 2:
        bytes = Buffer.concat([before, Buffer.from(inside.map((byte) => byte ^ (1 << upTo(8)))), after])
        break
      case 3:
        bytes = Buffer.concat([before, Buffer.from(Array.from({ length: 1 + upTo(8) }, () => upTo(256))), inside, after])
        break
      case 4:
        bytes = Buffer.concat([before, pick(TOKENS) ?? before, inside, after])
        break
      case 5:
        bytes = Buffer.concat([before, pick(others)?.subarray(upTo(200)) ?? after])
        break
      case 6:
        bytes = random() < 0.2 ? before : bytes
    }
  }
  // A body is read only as far as its length says, so most mutants get the right length.
  const end = bytes.indexOf("\r\n\r\n")
  if (end === -1 || random() < 0.2) return bytes
  const length = Buffer.from(`content-length: ${bytes.length - end - 4}`)
  const headers = bytes.subarray(0, end).toString("latin1").replace(/content-length: *\d+/i, length.toString("latin1"))
  return Buffer.concat([Buffer.from(headers, "latin1"), bytes.subarray(end)])
}
