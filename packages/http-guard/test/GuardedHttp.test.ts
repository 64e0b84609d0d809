import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as fc from "fast-check"
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib"
import { GuardedHttp, Resolver } from "../src/index.ts"
import { certificate } from "./Certificate.ts"
import { FORBIDDEN, UNREADABLE } from "./ForbiddenUrls.ts"
import { attempts, client, fetched, http, https, reason, tcp, trusted } from "./Loopback.ts"

const strict = GuardedHttp.layerWith({}).pipe(Layer.provide(Resolver.layerTable({})))

describe("forbidden addresses", () => {
  it("has a corpus of at least 60 spellings, each once", () => {
    expect(new Set(FORBIDDEN).size).toBe(FORBIDDEN.length)
    expect(FORBIDDEN.length).toBeGreaterThanOrEqual(60)
  })

  it.effect.each(FORBIDDEN)("forbids %j without a connection", (spelling) =>
    Effect.gen(function*() {
      const { seen } = yield* attempts
      const inside = yield* http((_, response) => response.end("inside"), "127.0.0.1")
      const found = yield* reason(spelling.replaceAll("%P", String(inside.port)))
      expect(found._tag).toBe("Forbidden")
      expect(seen).toEqual([])
      expect(inside.connections).toBe(0)
    }).pipe(Effect.provide(strict)))

  it.effect.each(UNREADABLE)("rejects %j, which is not a URL, without resolving a name", (spelling) =>
    Effect.gen(function*() {
      const found = yield* reason(spelling.replaceAll("%P", "80"))
      expect(found._tag).toBe("InvalidUrl")
    }).pipe(Effect.provide(strict)))

  const dotted = (value: number) => [24, 16, 8, 0].map((shift) => value >>> shift & 255)
  const radix = (value: number, base: number) =>
    base === 10 ? String(value) : base === 16 ? `0x${value.toString(16)}` : `0${value.toString(8)}`
  const radixes = fc.array(fc.constantFrom(8, 10, 16), { minLength: 4, maxLength: 4 })
  /** An internal address in any spelling: the number of parts, the base of each part, and the disguise vary. */
  const spelled = fc.record({
    value: fc.oneof(
      fc.integer({ min: 0x7f000000, max: 0x7fffffff }),
      fc.integer({ min: 0x0a000000, max: 0x0affffff }),
      fc.integer({ min: 0xa9fe0000, max: 0xa9feffff }),
      fc.integer({ min: 0xac100000, max: 0xac1fffff }),
      fc.integer({ min: 0xc0a80000, max: 0xc0a8ffff }),
      fc.integer({ min: 0x64400000, max: 0x647fffff }),
      fc.integer({ min: 0xe0000000, max: 0xffffffff }),
      fc.integer({ min: 0, max: 0x00ffffff })
    ),
    parts: fc.integer({ min: 1, max: 4 }),
    radixes,
    disguise: fc.constantFrom(
      (host: string) => host,
      (host: string) => `${host}.`,
      (host: string) => `example.com@${host}`,
      (host: string) => host.toUpperCase(),
      (host: string) => host.replaceAll(".", "。"),
      (host: string) => host.replaceAll(/./g, (one) => `%${one.charCodeAt(0).toString(16)}`),
      (host: string) => host.replaceAll(/\d/g, (digit) => String.fromCharCode(digit.charCodeAt(0) + 0xfee0))
    )
  }).map(({ disguise, parts, radixes, value }) => {
    const bytes = dotted(value)
    const last = bytes.slice(parts - 1).reduce((all, byte) => all * 256 + byte, 0)
    return disguise([...bytes.slice(0, parts - 1), last].map((part, index) => radix(part, radixes[index]!)).join("."))
  })

  it.effect("forbids every address in a forbidden range, in any spelling", () =>
    Effect.gen(function*() {
      const http = yield* GuardedHttp.GuardedHttp
      const { seen } = yield* attempts
      for (const host of fc.sample(spelled, 500)) {
        const error = yield* Effect.flip(Effect.scoped(http.request(`http://${host}/`)))
        expect([host, error.reason._tag]).toEqual([host, "Forbidden"])
      }
      expect(seen).toEqual([])
    }).pipe(Effect.provide(strict)))

  it.effect("forbids a name that resolves to a private address, and names the address", () =>
    Effect.gen(function*() {
      const { seen } = yield* attempts
      const error = yield* Effect.flip(fetched("http://inside.example/?token=secret"))
      expect(error.message).toBe(
        "http://inside.example/?...: inside.example is 10.0.0.5, which must not be reached: private (10.0.0.0/8). " +
          "The operator of this machine can allow the address."
      )
      expect(seen).toEqual([])
    }).pipe(Effect.provide(client({ "inside.example": ["10.0.0.5"] }))))

  it.effect("forbids a name when any of its addresses is forbidden", () =>
    Effect.gen(function*() {
      const outside = yield* http((_, response) => response.end())
      expect(yield* reason(`http://both.example:${outside.port}/`)).toMatchObject({ _tag: "Forbidden", address: "127.0.0.1" })
      expect(outside.connections).toBe(0)
    }).pipe(Effect.provide(client({ "both.example": ["127.0.0.2", "127.0.0.1"] }))))

  it.effect("rejects a resolver's answer that is not an address", () =>
    Effect.gen(function*() {
      expect(yield* reason("http://odd.example/")).toMatchObject({ _tag: "Forbidden", range: "not an address" })
    }).pipe(Effect.provide(client({ "odd.example": ["0177.0.0.1"] }))))

  it.effect("fails for a name that does not exist", () =>
    Effect.gen(function*() {
      expect(yield* reason("http://nowhere.example/")).toMatchObject({ _tag: "NotResolved", host: "nowhere.example" })
    }).pipe(Effect.provide(client())))

  it.effect("fails for a name without an address", () =>
    Effect.gen(function*() {
      expect(yield* reason("http://empty.example/")).toMatchObject({ _tag: "NotResolved", detail: "no address" })
    }).pipe(Effect.provide(client({ "empty.example": [] }))))

  it.effect("resolves `localhost` when loopback is allowed", () =>
    Effect.gen(function*() {
      const inside = yield* http((_, response) => response.end("hello"), "127.0.0.1")
      const { bytes } = yield* fetched(`http://localhost:${inside.port}/`)
      expect(bytes.toString()).toBe("hello")
    }).pipe(Effect.provide(client({ localhost: ["127.0.0.1"] }, { allowPrivate: true }))))
})

describe("the connection", () => {
  it.effect("goes to the checked address, even if the name now resolves to another one", () => {
    const answers = ["127.0.0.2", "127.0.0.1"]
    let asked = 0
    const rebinding = Layer.succeed(Resolver.Resolver, {
      resolve: () => Effect.sync(() => [answers[Math.min(asked++, 1)]!])
    })
    return Effect.gen(function*() {
      const outside = yield* http((_, response) => response.end("outside"))
      const inside = yield* http((_, response) => response.end("inside"), "127.0.0.1", outside.port)
      const url = `http://rebind.example:${outside.port}/a?b=c`
      const { bytes } = yield* fetched(url)
      expect(bytes.toString()).toBe("outside")
      expect(asked).toBe(1)
      expect(outside.requests[0]).toMatchObject({ url: "/a?b=c", headers: { host: `rebind.example:${outside.port}` } })
      // The second request does not reuse the first connection, because its name now resolves to an internal address.
      expect(yield* reason(url)).toMatchObject({ _tag: "Forbidden", address: "127.0.0.1" })
      expect([outside.requests.length, inside.connections]).toEqual([1, 0])
    }).pipe(Effect.provide(GuardedHttp.layerWith({ allow: ["127.0.0.2"] }).pipe(Layer.provide(rebinding))))
  })

  it.effect("is reused for the same name at the same address", () =>
    Effect.gen(function*() {
      const outside = yield* http((_, response) => response.end("x"))
      for (let count = 0; count < 20; count++) yield* fetched(`http://same.example:${outside.port}/`)
      expect(outside.requests.length).toBe(20)
      // A connection becomes reusable one turn of the event loop after a request, so two may alternate.
      expect(outside.connections).toBeLessThanOrEqual(3)
    }).pipe(Effect.provide(client({ "same.example": ["127.0.0.2"] }))))

  it.effect("sends the name, not the address, in TLS", () =>
    Effect.gen(function*() {
      const hello = yield* Deferred.make<string | Buffer>()
      const server = yield* tcp((socket) =>
        socket.once("data", (data) => {
          Deferred.doneUnsafe(hello, Exit.succeed(data))
          socket.destroy()
        })
      )
      expect((yield* reason(`https://secure.example:${server.port}/`))._tag).toBe("Unreachable")
      expect((yield* Deferred.await(hello)).toString("latin1").includes("secure.example")).toBe(true)
    }).pipe(Effect.provide(client({ "secure.example": ["127.0.0.2"] }))))

  it.effect("checks the host name against the server's certificate, whichever address it connects to", () =>
    Effect.gen(function*() {
      const server = yield* https((_, response) => response.end("secure"))
      const url = `https://secure.example:${server.port}/`
      expect(yield* reason(url)).toMatchObject({ _tag: "InvalidCertificate", detail: "DEPTH_ZERO_SELF_SIGNED_CERT" })
      expect(server.requests).toEqual([])
      yield* trusted(certificate)
      expect((yield* fetched(url)).bytes.toString()).toBe("secure")
      const other = yield* reason(`https://other.example:${server.port}/`)
      expect(other).toMatchObject({ _tag: "InvalidCertificate", detail: "ERR_TLS_CERT_ALTNAME_INVALID" })
      expect(server.requests.length).toBe(1)
    }).pipe(Effect.provide(client({ "secure.example": ["127.0.0.2"], "other.example": ["127.0.0.2"] }))))

  it.effect("fails when the server does not support TLS", () =>
    Effect.gen(function*() {
      const server = yield* http((_, response) => response.end())
      expect(yield* reason(`https://127.0.0.2:${server.port}/`)).toMatchObject({ _tag: "Malformed" })
    }).pipe(Effect.provide(client())))

  it.effect("ignores the proxies in the environment", () =>
    Effect.gen(function*() {
      const proxy = yield* http((_, response) => response.end("proxy"), "127.0.0.1")
      const outside = yield* http((_, response) => response.end("direct"))
      const names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "NODE_USE_ENV_PROXY"]
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          const before = names.map((name) => [name, process.env[name]] as const)
          for (const name of names) process.env[name] = name === "NODE_USE_ENV_PROXY" ? "1" : `http://127.0.0.1:${proxy.port}`
          return before
        }),
        (before) =>
          Effect.sync(() => {
            for (const [name, value] of before) {
              if (value === undefined) delete process.env[name]
              else process.env[name] = value
            }
          })
      )
      const { bytes } = yield* fetched(`http://127.0.0.2:${outside.port}/`)
      expect(bytes.toString()).toBe("direct")
      expect(proxy.connections).toBe(0)
    }).pipe(Effect.provide(client())))

  it.effect("does not let a caller change the host or break the framing", () =>
    Effect.gen(function*() {
      const outside = yield* http((request, response) => request.pipe(response))
      const { bytes } = yield* fetched(`http://127.0.0.2:${outside.port}/`, {
        method: "POST",
        body: "body",
        headers: {
          Host: "inside.example",
          "Content-Length": "3",
          "Transfer-Encoding": "chunked",
          Connection: "close",
          "X-Own": "1"
        }
      })
      expect(bytes.toString()).toBe("body")
      const { headers } = outside.requests[0]!
      expect(headers).toMatchObject({ host: `127.0.0.2:${outside.port}`, "content-length": "4", "x-own": "1" })
      expect(headers["transfer-encoding"]).toBeUndefined()
    }).pipe(Effect.provide(client())))

  it.effect("rejects header values that would start another header", () =>
    Effect.gen(function*() {
      const outside = yield* http((_, response) => response.end())
      const found = yield* reason(`http://127.0.0.2:${outside.port}/`, { headers: { "x-a": "1\r\nx-b: 2" } })
      expect(found._tag).toBe("Malformed")
      expect(outside.requests).toEqual([])
    }).pipe(Effect.provide(client())))

  it.effect("sends the user and password of the URL as a header, and never logs them", () =>
    Effect.gen(function*() {
      const outside = yield* http((_, response) => response.writeHead(404).end())
      const url = `http://us%C3%A9r:p%40ss@127.0.0.2:${outside.port}/x?key=1`
      const error = yield* Effect.flip(Effect.scoped(Effect.flatMap(GuardedHttp.request(url), GuardedHttp.success)))
      expect(error.message).toBe(`http://127.0.0.2:${outside.port}/x?...: the server answered 404.`)
      expect(outside.requests[0]?.headers.authorization).toBe(`Basic ${Buffer.from("usér:p@ss").toString("base64")}`)
    }).pipe(Effect.provide(client())))

  it.effect("is Unreachable when it is refused", () =>
    Effect.gen(function*() {
      const gone = yield* Effect.scoped(http((_, response) => response.end()))
      expect(yield* reason(`http://127.0.0.2:${gone.port}/`)).toMatchObject({ _tag: "Unreachable", detail: "ECONNREFUSED" })
    }).pipe(Effect.provide(client())))

  it.effect("is closed when the caller's scope closes before the body is read", () =>
    Effect.gen(function*() {
      const closed = yield* Deferred.make<void>()
      const outside = yield* http((_, response) => {
        response.on("close", () => Deferred.doneUnsafe(closed, Exit.void))
        response.write("some")
      })
      yield* Effect.scoped(GuardedHttp.request(`http://127.0.0.2:${outside.port}/`))
      yield* Deferred.await(closed)
    }).pipe(Effect.provide(client())))
})

describe("redirects", () => {
  const to = (location: string, status = 302) =>
    http((request, response) =>
      request.url === "/end" ? response.end(request.method) : response.writeHead(status, { location }).end()
    )

  it.effect.each([
    "http://127.0.0.1:%P/",
    "http://0x7f.1:%P/",
    "//2130706433:%P/",
    "http://[::ffff:127.0.0.1]:%P/",
    "http://inside.example:%P/"
  ])(
    "refuses a redirect to %s",
    (location) =>
      Effect.gen(function*() {
        const inside = yield* http((_, response) => response.end("inside"), "127.0.0.1")
        const outside = yield* to(location.replace("%P", String(inside.port)))
        expect((yield* reason(`http://127.0.0.2:${outside.port}/`))._tag).toBe("Forbidden")
        expect([outside.requests.length, inside.connections]).toEqual([1, 0])
      }).pipe(Effect.provide(client({ "inside.example": ["127.0.0.1"] })))
  )

  it.effect.each(
    [
      [301, "POST", "GET"],
      [302, "POST", "GET"],
      [303, "POST", "GET"],
      [303, "PUT", "GET"],
      [307, "POST", "POST"],
      [308, "PUT", "PUT"],
      [301, "GET", "GET"]
    ] as const
  )("follows %i of a %s with a %s", ([status, method, then]) =>
    Effect.gen(function*() {
      const outside = yield* to("/end", status)
      const { bytes, url } = yield* fetched(`http://127.0.0.2:${outside.port}/`, {
        method,
        ...(method === "GET" ? {} : { body: "b" })
      })
      expect([bytes.toString(), url.pathname]).toEqual([then, "/end"])
      const carried = then === "GET" ? undefined : "1"
      expect(outside.requests[1]?.headers["content-length"]).toBe(carried)
    }).pipe(Effect.provide(client())))

  it.effect("fails a loop after 5 redirects, and at the first one with a limit of 0", () =>
    Effect.gen(function*() {
      const outside = yield* to("/again")
      const url = `http://127.0.0.2:${outside.port}/`
      expect(yield* reason(url)).toMatchObject({ _tag: "TooManyRedirects", limit: 5 })
      expect(outside.requests.length).toBe(6)
      expect(yield* reason(url, { maxRedirects: 0 })).toMatchObject({ _tag: "TooManyRedirects", limit: 0 })
      expect(outside.requests.length).toBe(7)
    }).pipe(Effect.provide(client())))

  it.effect.each(["file:///etc/passwd", "gopher://127.0.0.2/", "http://", "data:,x"])(
    "does not follow one to %s",
    (location) =>
      Effect.gen(function*() {
        const outside = yield* to(location)
        expect((yield* reason(`http://127.0.0.2:${outside.port}/`))._tag).toBe("BadRedirect")
      }).pipe(Effect.provide(client()))
  )

  it.effect("does not follow one from https to http, unless the caller allows it", () =>
    Effect.gen(function*() {
      const plain = yield* http((_, response) => response.end("plain"))
      const secure = yield* https((_, response) => response.writeHead(302, { location: `http://127.0.0.2:${plain.port}/` }).end())
      yield* trusted(certificate)
      const url = `https://secure.example:${secure.port}/`
      expect(yield* reason(url)).toMatchObject({ _tag: "BadRedirect", detail: expect.stringContaining("from https to http") })
      expect(plain.connections).toBe(0)
      expect((yield* fetched(url, { allowDowngrade: true })).bytes.toString()).toBe("plain")
    }).pipe(Effect.provide(client({ "secure.example": ["127.0.0.2"] }))))

  it.effect("sends no secret to another origin, and all headers to the same one", () =>
    Effect.gen(function*() {
      const other = yield* http((_, response) => response.end())
      const outside = yield* http((request, response) =>
        response.writeHead(307, { location: request.url === "/" ? "/same" : `http://127.0.0.2:${other.port}/` }).end()
      )
      yield* fetched(`http://user:pass@127.0.0.2:${outside.port}/`, {
        headers: { cookie: "a=b", "X-Api-Key": "secret", accept: "image/png" }
      })
      const same = outside.requests[1]!.headers
      expect(same).toMatchObject({ cookie: "a=b", "x-api-key": "secret", accept: "image/png" })
      expect(same.authorization).toBe(`Basic ${Buffer.from("user:pass").toString("base64")}`)
      const { headers } = other.requests[0]!
      expect(Object.keys(headers).toSorted()).toEqual(["accept", "accept-encoding", "connection", "host", "user-agent"])
      expect(headers.accept).toBe("image/png")
    }).pipe(Effect.provide(client())))
})

describe("limits", () => {
  const MIB = 1024 * 1024

  it.effect("reject a body that announces too much, without reading it", () =>
    Effect.gen(function*() {
      const outside = yield* http((_, response) => response.writeHead(200, { "content-length": 101 }).end(Buffer.alloc(101)))
      expect(yield* reason(`http://127.0.0.2:${outside.port}/`, { maxBytes: 100 })).toMatchObject({
        _tag: "TooLarge",
        limit: 100,
        announced: 101
      })
    }).pipe(Effect.provide(client())))

  it.effect("accept a body of exactly the limit, and stop an endless one there", () =>
    Effect.gen(function*() {
      const closed = yield* Deferred.make<void>()
      const outside = yield* http((request, response) => {
        response.on("close", () => request.url === "/endless" && Deferred.doneUnsafe(closed, Exit.void))
        response.write(Buffer.alloc(MIB))
        if (request.url !== "/endless") return response.end()
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(64 * 1024))) { /* until the buffer is full */ }
        }
        response.on("drain", more)
        more()
      })
      const url = `http://127.0.0.2:${outside.port}`
      expect((yield* fetched(`${url}/`, { maxBytes: MIB })).bytes.length).toBe(MIB)
      expect(yield* reason(`${url}/endless`, { maxBytes: MIB })).toMatchObject({ _tag: "TooLarge", announced: undefined })
      yield* Deferred.await(closed)
    }).pipe(Effect.provide(client())))

  it.effect("read no faster than the consumer", () =>
    Effect.gen(function*() {
      const total = 256
      let sent = 0
      const outside = yield* http((_, response) => {
        const more = () => {
          while (sent < total && !response.destroyed) {
            sent++
            if (!response.write(Buffer.alloc(MIB))) return
          }
          response.end()
        }
        response.on("drain", more)
        more()
      })
      const response = yield* GuardedHttp.request(`http://127.0.0.2:${outside.port}/`, { maxBytes: total * MIB })
      const turns = Effect.promise(async () => {
        for (let turn = 0; turn < 1000; turn++) await new Promise((resolve) => setImmediate(resolve))
      })
      // Without backpressure, a thousand turns of the loop move hundreds of megabytes; with it, the socket buffers fill up.
      const first = yield* Stream.runHead(Stream.mapEffect(response.body, () => Effect.as(turns, sent)))
      expect(Option.getOrThrow(first)).toBeLessThan(total / 4)
    }).pipe(Effect.provide(client())))

  const encodings = [
    ["gzip", gzipSync],
    ["x-gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync]
  ] as const

  it.effect.each(encodings)(
    "ask for identity, decode %s anyway, and count the decoded bytes",
    ([encoding, compress]) =>
      Effect.gen(function*() {
        const outside = yield* http((_, response) =>
          response.writeHead(200, { "content-encoding": encoding }).end(compress(Buffer.alloc(8 * MIB)))
        )
        const url = `http://127.0.0.2:${outside.port}/`
        expect((yield* fetched(url)).bytes.equals(Buffer.alloc(8 * MIB))).toBe(true)
        expect(outside.requests[0]?.headers["accept-encoding"]).toBe("identity")
        expect(yield* reason(url, { maxBytes: MIB })).toMatchObject({ _tag: "TooLarge", limit: MIB })
      }).pipe(Effect.provide(client()))
  )

  it.effect("stop an endless encoded body that decodes to nothing", () =>
    Effect.gen(function*() {
      const nothing = Buffer.concat(Array.from({ length: 20_000 }, () => gzipSync("")))
      const outside = yield* http((_, response) => response.writeHead(200, { "content-encoding": "gzip" }).end(nothing))
      expect((yield* reason(`http://127.0.0.2:${outside.port}/`, { maxBytes: 1000 }))._tag).toBe("TooLarge")
    }).pipe(Effect.provide(client())))

  it.effect.each(
    [
      ["gzip, gzip", gzipSync(gzipSync("x"))],
      ["sdch", Buffer.from("x")],
      ["gzip", Buffer.from("this is no gzip")],
      ["br", Buffer.alloc(64, 0xff)],
      ["zstd", Buffer.from("this is no zstd")],
      ["gzip", gzipSync(Buffer.alloc(1000)).subarray(0, 12)]
    ] as const
  )("refuses a body that cannot be decoded: %s", ([encoding, body]) =>
    Effect.gen(function*() {
      const outside = yield* http((_, response) => response.writeHead(200, { "content-encoding": encoding }).end(body))
      expect((yield* reason(`http://127.0.0.2:${outside.port}/`))._tag).toBe("Malformed")
    }).pipe(Effect.provide(client())))

  it.effect("reject huge headers", () =>
    Effect.gen(function*() {
      const outside = yield* tcp((socket) => {
        socket.write(`HTTP/1.1 200 OK\r\n${`x-filler: ${"x".repeat(1000)}\r\n`.repeat(100)}\r\n`)
      })
      expect(yield* reason(`http://127.0.0.2:${outside.port}/`)).toMatchObject({
        _tag: "Malformed",
        detail: "its headers are too large"
      })
    }).pipe(Effect.provide(client())))

  it.effect("reject a response that is not HTTP", () =>
    Effect.gen(function*() {
      const outside = yield* tcp((socket) => void socket.once("data", () => socket.write("SSH-2.0-OpenSSH_9.9\r\n")))
      expect((yield* reason(`http://127.0.0.2:${outside.port}/`))._tag).toBe("Malformed")
    }).pipe(Effect.provide(client())))

  it.effect.each(["content-length: 100\r\n\r\n0123456789", "transfer-encoding: chunked\r\n\r\na\r\n0123456789\r\n"])(
    "report a truncated body: %j",
    (rest) =>
      Effect.gen(function*() {
        const outside = yield* tcp((socket) => socket.once("data", () => socket.end(`HTTP/1.1 200 OK\r\n${rest}`)))
        expect(yield* reason(`http://127.0.0.2:${outside.port}/`)).toMatchObject({ _tag: "ConnectionLost", received: 10 })
      }).pipe(Effect.provide(client()))
  )

  it.effect("read no more than Content-Length", () =>
    Effect.gen(function*() {
      const outside = yield* tcp((socket) =>
        socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n0123456789"))
      )
      expect((yield* fetched(`http://127.0.0.2:${outside.port}/`)).bytes.toString()).toBe("01234")
    }).pipe(Effect.provide(client())))

  it.live("time out when a server does not respond", () =>
    Effect.gen(function*() {
      const outside = yield* http(() => {})
      expect(yield* reason(`http://127.0.0.2:${outside.port}/`, { headersTimeout: 20 })).toMatchObject({
        _tag: "TimedOut",
        phase: "headers"
      })
    }).pipe(Effect.scoped, Effect.provide(client())))

  it.live("time out when a body stalls", () =>
    Effect.gen(function*() {
      const outside = yield* http((_, response) => void response.write("a"))
      expect(yield* reason(`http://127.0.0.2:${outside.port}/`, { idleTimeout: 20 })).toMatchObject({
        _tag: "TimedOut",
        phase: "body"
      })
    }).pipe(Effect.scoped, Effect.provide(client())))

  it.live("time out when no connection is made", () =>
    Effect.gen(function*() {
      const outside = yield* tcp(() => {})
      expect(yield* reason(`https://127.0.0.2:${outside.port}/`)).toMatchObject({ _tag: "TimedOut", phase: "connect", limit: 20 })
    }).pipe(Effect.scoped, Effect.provide(client({}, { allow: ["127.0.0.2"], connectTimeout: 20 }))))

  it.effect("time out when a name server does not respond", () =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(reason("http://slow.example/"))
      yield* TestClock.adjust("10 seconds")
      expect(yield* Fiber.join(fiber)).toMatchObject({ _tag: "TimedOut", phase: "resolve" })
    }).pipe(Effect.provide(
      GuardedHttp.layerWith({}).pipe(Layer.provide(Layer.succeed(Resolver.Resolver, { resolve: () => Effect.never })))
    )))

  it.effect("end a response that is sent slowly forever at the total time limit", () =>
    Effect.gen(function*() {
      const arrived = yield* Deferred.make<void>()
      const outside = yield* http((_, response) => void response.write("a"))
      const fiber = yield* Effect.forkChild(Effect.scoped(Effect.gen(function*() {
        const response = yield* GuardedHttp.request(`http://127.0.0.2:${outside.port}/`)
        return yield* Effect.flip(Stream.runForEach(response.body, () => Deferred.succeed(arrived, undefined)))
      })))
      yield* Deferred.await(arrived)
      yield* TestClock.adjust("15 minutes")
      expect((yield* Fiber.join(fiber)).reason).toMatchObject({ _tag: "TimedOut", phase: "total" })
    }).pipe(Effect.provide(client())))

  it.effect("end a request without a response at the total time limit", () =>
    Effect.gen(function*() {
      const arrived = yield* Deferred.make<void>()
      const outside = yield* http(() => Deferred.doneUnsafe(arrived, Exit.void))
      const fiber = yield* Effect.forkChild(reason(`http://127.0.0.2:${outside.port}/`, { headersTimeout: 0 }))
      yield* Deferred.await(arrived)
      yield* TestClock.adjust("15 minutes")
      expect(yield* Fiber.join(fiber)).toMatchObject({ _tag: "TimedOut", phase: "total" })
    }).pipe(Effect.provide(client())))
})

describe("success", () => {
  it.effect("passes a 2xx on and fails otherwise, with the delay that the server asks for", () =>
    Effect.gen(function*() {
      const outside = yield* http((request, response) =>
        response.writeHead(Number(request.url?.slice(1)), { "retry-after": "7" }).end()
      )
      const ask = (status: number) =>
        Effect.scoped(Effect.flatMap(GuardedHttp.request(`http://127.0.0.2:${outside.port}/${status}`), GuardedHttp.success))
      expect((yield* ask(204)).status).toBe(204)
      const transient = []
      for (const status of [304, 400, 401, 403, 404, 408, 410, 425, 429, 500, 501, 502, 503, 504, 505]) {
        const error = yield* Effect.flip(ask(status))
        expect(error.reason).toMatchObject({ _tag: "UnexpectedStatus", status, retryAfter: 7000 })
        if (error.transient) transient.push(status)
      }
      expect(transient).toEqual([408, 425, 429, 500, 502, 503, 504])
    }).pipe(Effect.provide(client())))
})
