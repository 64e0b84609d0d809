import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { LogMemory, WorkerTest } from "@stint/worker/testing"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import * as Tracer from "effect/Tracer"
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { gzipSync } from "node:zlib"
import { DownloadError, Downloads } from "../src/index.ts"
import { folder, http, layer, listed, raw, signal } from "./DownloadsHarness.ts"

/** Runs the download with the service's layer over a folder, and lists the folder at the end. */
const using = <A, E>(
  settings: Downloads.Settings,
  use: (directory: string) => Effect.Effect<A, E, Downloads.Downloads | Scope.Scope>
) => Effect.flatMap(folder, (directory) => Effect.provide(use(directory), layer(directory, settings)))

const reasonOf = <A, R>(download: Effect.Effect<A, DownloadError, R>) =>
  Effect.map(Effect.flip(Effect.scoped(download)), ({ reason }) => reason)

describe("a download", () => {
  it.effect("is a file in the scope's own folder, and removed when the scope closes", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.setHeader("content-type", "Image/PNG; x=y").end("pixels"))
        const scope = yield* Scope.make()
        const one = yield* Scope.provide(Downloads.file(`${server.url}/a/photo.png?token=x`), scope)
        const two = yield* Scope.provide(Downloads.file(new URL(`${server.url}/photo.png`)), scope)
        expect(one).toEqual({ path: one.path, name: "photo.png", size: 6, contentType: "image/png" })
        expect(readFileSync(one.path, "utf8")).toBe("pixels")
        expect([statSync(one.path).mode & 0o777, statSync(dirname(one.path)).mode & 0o777]).toEqual([0o600, 0o700])
        expect(two.path).toBe(join(dirname(one.path), "photo-1.png"))
        expect(dirname(dirname(one.path))).toBe(directory)
        yield* Scope.close(scope, Exit.void)
        expect(existsSync(dirname(one.path))).toBe(false)
      })))

  it.effect("is not visible to another scope", () =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.end("x"))
        const [one, two] = yield* Effect.forEach([1, 2], () => Effect.scoped(Downloads.file(`${server.url}/x`)))
        expect(one?.name).toBe(two?.name)
        expect(dirname(one?.path ?? "")).not.toBe(dirname(two?.path ?? ""))
      })))

  it.effect("of several URLs keeps their order, and gives each file its own name", () =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response, _, request) =>
          response.setHeader("content-disposition", "attachment; filename=same.txt").end(request.url)
        )
        const urls = Array.from({ length: 30 }, (_, index) => `${server.url}/${index}`)
        const files = yield* Downloads.files(urls)
        expect(files.map(({ path }) => readFileSync(path, "utf8"))).toEqual(urls.map((url) => new URL(url).pathname))
        expect(new Set(files.map(({ name }) => name)).size).toBe(30)
        expect(yield* Downloads.files([])).toEqual([])
      })))

  it.effect("writes the whole body even if it is larger than every buffer", () =>
    using({}, () =>
      Effect.gen(function*() {
        const chunk = Buffer.alloc(1024 * 1024, "x")
        const total = 128
        const server = yield* http((response) => {
          let sent = 0
          const more = () => {
            while (sent < total && !response.destroyed) {
              sent++
              if (!response.write(chunk)) return
            }
            response.end()
          }
          response.on("drain", more)
          more()
        })
        const { path, size } = yield* Downloads.file(`${server.url}/large`)
        expect([size, statSync(path).size]).toEqual([total * chunk.length, total * chunk.length])
      })))

  it.effect("has the requested name, made safe", () =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.setHeader("content-disposition", "attachment; filename=b").end("x"))
        expect((yield* Downloads.file(`${server.url}/a`, { name: "../c.txt" })).name).toBe("c.txt")
      })))

  it.effect.each([
    ["attachment; filename=\"../../etc/passwd\"", "passwd"],
    ["attachment; filename*=UTF-8''%2e%2e%2f%2e%2e%2froot%2f.ssh%2fauthorized_keys", "authorized_keys"],
    ["attachment; filename=\"C:\\\\windows\\\\system32\\\\cmd.exe\"", "cmd.exe"],
    ["attachment; filename*=UTF-8''a%00b%0d%0ac.png", "abc.png"],
    ["attachment; filename=\".bashrc\"", "bashrc"],
    ["attachment; filename=\"\"", "download"],
    ["attachment; filename=NUL", "_NUL"],
    [`attachment; filename="${"x".repeat(5000)}.bin"`, `${"x".repeat(196)}.bin`]
  ])(
    "stays in its folder under a safe name, whatever the server proposes: %j",
    ([header, name]) =>
      using({}, (directory) =>
        Effect.gen(function*() {
          const server = yield* http((response) => response.setHeader("content-disposition", String(header)).end("x"))
          const file = yield* Downloads.file(server.url)
          expect(file.name).toBe(name)
          expect(dirname(dirname(file.path))).toBe(directory)
          expect(yield* listed(directory)).toEqual([name])
        }))
  )

  it.effect("sends the requested headers", () =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response, _, request) => response.end(request.headers.authorization))
        const { path } = yield* Downloads.file(server.url, { headers: { authorization: "Bearer x" } })
        expect(readFileSync(path, "utf8")).toBe("Bearer x")
      })))

  it.effect("reads data: URLs, within the limit", () =>
    using({ maxBytes: 10 }, () =>
      Effect.gen(function*() {
        const read = (url: string) =>
          Effect.map(Downloads.file(url), (file) => [file.name, readFileSync(file.path, "utf8"), file.contentType])
        expect(yield* read("data:image/png;base64,aGVsbG8=")).toEqual(["download.png", "hello", "image/png"])
        expect(yield* read("data:,a%20b%C3%A9")).toEqual(["download", "a bé", undefined])
        expect(yield* read(" DATA:text/plain;charset=utf-8,x#y")).toEqual(["download-1", "x", "text/plain"])
        expect((yield* reasonOf(Downloads.file(`data:,${"x".repeat(11)}`)))._tag).toBe("TooLarge")
        expect((yield* reasonOf(Downloads.file("data:;base64,a*b")))._tag).toBe("InvalidUrl")
        const broken = yield* Effect.flip(Downloads.file("data:secret"))
        expect(broken.message).not.toContain("secret")
      })))
})

describe("a hostile server", () => {
  // docs/spec/downloads.md#address-guard
  it.effect("is not reached inside the network", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        const inside = yield* http((response) => response.end("inside"), "127.0.0.1")
        const { port } = new URL(inside.url)
        const urls = [
          `${inside.url}/`,
          `http://localhost:${port}/`,
          `http://2130706433:${port}/`,
          `http://[::ffff:127.0.0.1]:${port}/`,
          "http://169.254.169.254/latest/meta-data/",
          "http://10.0.0.1/",
          "http://172.16.0.1/",
          "http://192.168.0.1/",
          "http://100.64.0.1/"
        ]
        for (const url of urls) expect([url, (yield* reasonOf(Downloads.file(url)))._tag]).toEqual([url, "Forbidden"])
        expect(inside.requests).toEqual([])
        expect(yield* listed(directory)).toEqual([])
      })))

  it.effect("cannot redirect inside the network, and is not retried", () =>
    using({}, () =>
      Effect.gen(function*() {
        const inside = yield* http((response) => response.end("inside"), "127.0.0.1")
        const server = yield* http((response) => response.writeHead(302, { location: inside.url }).end())
        const error = yield* Effect.flip(Downloads.file(`${server.url}/x?secret=1`))
        expect(error).toMatchObject({ tries: 1, reason: { _tag: "Forbidden", address: "127.0.0.1" } })
        expect([server.requests.length, inside.requests.length]).toEqual([1, 0])
      })))

  it.effect("cannot redirect in a loop", () =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.writeHead(302, { location: "/" }).end())
        expect((yield* reasonOf(Downloads.file(server.url)))._tag).toBe("TooManyRedirects")
        expect(server.requests.length).toBe(6)
      })))

  it.effect("cannot fill the disk with announced, endless, or compressed bodies", () =>
    using({ maxBytes: 1024 * 1024 }, (directory) =>
      Effect.gen(function*() {
        const server = yield* http((response, _, request) => {
          if (request.url === "/announced") return response.writeHead(200, { "content-length": 1e12 }).write("x")
          if (request.url === "/bomb") {
            return response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(Buffer.alloc(32 * 1024 * 1024)))
          }
          const more = () => {
            while (!response.destroyed && response.write(Buffer.alloc(64 * 1024))) { /* until the buffer is full */ }
          }
          response.on("drain", more)
          more()
        })
        for (const path of ["/announced", "/endless", "/bomb"]) {
          const scope = yield* Scope.make()
          const error = yield* Effect.flip(Scope.provide(Downloads.file(server.url + path), scope))
          expect([path, error.reason._tag, error.tries]).toEqual([path, "TooLarge", 1])
          // The partial file is removed before the job ends.
          expect(yield* listed(directory)).toEqual([])
          yield* Scope.close(scope, Exit.void)
        }
      })))

  it.effect("cannot fill the disk with many files, and a removed file frees its bytes", () =>
    using({ maxTotalBytes: 100, retries: 0 }, (directory) =>
      Effect.gen(function*() {
        const server = yield* http((response, _, request) => response.end("x".repeat(Number(request.url?.slice(1)))))
        yield* Downloads.file(`${server.url}/60`)
        expect(yield* Effect.flip(Downloads.file(`${server.url}/60`))).toMatchObject({
          reason: { _tag: "TotalSizeExceeded", limit: 100 }
        })
        yield* Downloads.file(`${server.url}/40`)
        expect(yield* listed(directory)).toEqual(["40", "60"])
      })))

  it.effect("cannot send more than it announces", () =>
    using({}, () =>
      Effect.gen(function*() {
        const url = yield* raw("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n0123456789")
        expect((yield* Downloads.file(url)).size).toBe(5)
      })))

  it.effect("cannot send huge headers", () =>
    using({}, () =>
      Effect.gen(function*() {
        const url = yield* raw(`HTTP/1.1 200 OK\r\nx: ${"x".repeat(100_000)}\r\n\r\n`)
        expect((yield* reasonOf(Downloads.file(url)))._tag).toBe("Malformed")
      })))

  it.effect("cannot send slowly forever, because the total time limit ends it", () =>
    using({ totalTimeout: 5000 }, (directory) =>
      Effect.gen(function*() {
        const arrived = signal()
        const server = yield* http((response) => {
          response.write("a")
          arrived.set()
        })
        const fiber = yield* Effect.forkChild(Effect.flip(Downloads.file(server.url)))
        yield* arrived.wait
        yield* written(directory)
        yield* TestClock.adjust("5 seconds")
        expect(yield* Fiber.join(fiber)).toMatchObject({ tries: 1, reason: { _tag: "TimedOut", phase: "total" } })
        expect(yield* listed(directory)).toEqual([])
      })))
})

/** Waits until the folder contains a file. */
const written = (directory: string): Effect.Effect<void> =>
  Effect.flatMap(listed(directory), (files) => files.length > 0 ? Effect.void : written(directory))

describe("retries", () => {
  /** Advances the clock until the fiber ends: delays are random, and the responses come over a real socket. */
  const joined = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() =>
      fiber.pollUnsafe() === undefined
        ? TestClock.adjust("500 millis").pipe(
          Effect.andThen(Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))),
          Effect.andThen(joined(fiber))
        )
        : Fiber.join(fiber)
    )

  it.effect("a truncated body, from its start", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        const server = yield* http((response, nth) => {
          response.writeHead(200, { "content-length": 10 }).write(
            "01234",
            () => nth === 0 ? response.destroy() : response.end("56789")
          )
        })
        const { path } = yield* joined(yield* Effect.forkChild(Downloads.file(`${server.url}/x`)))
        expect(readFileSync(path, "utf8")).toBe("0123456789")
        expect(server.requests.length).toBe(2)
        expect((yield* listed(directory)).length).toBe(1)
      })))

  it.effect.each([408, 429, 500, 502, 503, 504])(
    "a %i, at most three times",
    (status) =>
      using({}, (directory) =>
        Effect.gen(function*() {
          const server = yield* http((response) => response.writeHead(status).end("no"))
          const error = yield* joined(yield* Effect.forkChild(Effect.flip(Downloads.file(`${server.url}/x?key=1`))))
          expect(error.message).toBe(`Cannot download ${server.url}/x?...: the server answered ${status}. Tried 4 times.`)
          expect(server.requests.length).toBe(4)
          expect(yield* listed(directory)).toEqual([])
        }))
  )

  it.effect.each([400, 401, 403, 404, 410])("no %i", (status) =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.writeHead(status).end("no"))
        expect(yield* Effect.flip(Downloads.file(server.url))).toMatchObject({
          tries: 1,
          reason: { _tag: "UnexpectedStatus", status }
        })
        expect(server.requests.length).toBe(1)
      })))

  /** The delay that the next log line announces; the fiber sleeps on the test clock when it is read. */
  const announced = Effect.fnUntraced(function*(log: LogMemory.LogMemory, nth: number) {
    const { message } = yield* log.until(new RegExp(`trying again in \\d+ ms \\(${nth} of 3\\)`))
    return Number(/in (\d+) ms/.exec(message)?.[1])
  })

  it.effect("wait longer each time: between half and all of 1, 2 and 4 seconds", () => {
    const log = LogMemory.make()
    return using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.writeHead(503).end())
        const fiber = yield* Effect.forkChild(Effect.flip(Downloads.file(`${server.url}/x?key=secret`)))
        for (const [nth, most] of [1000, 2000, 4000].entries()) {
          const wait = yield* announced(log, nth + 1)
          expect(wait).toBeGreaterThanOrEqual(most / 2)
          expect(wait).toBeLessThanOrEqual(most)
          yield* TestClock.adjust(wait - 1)
          expect(server.requests.length).toBe(nth + 1)
          yield* TestClock.adjust(1)
        }
        expect((yield* Fiber.join(fiber)).tries).toBe(4)
        expect(log.lines.filter(({ message }) => message.includes("secret"))).toEqual([])
      })).pipe(Effect.provide(log.layer))
  })

  it.effect("wait as long as Retry-After specifies, and a little longer", () => {
    const log = LogMemory.make()
    return using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response, nth) =>
          nth === 0 ? response.writeHead(429, { "retry-after": "20" }).end() : response.end("ok")
        )
        const fiber = yield* Effect.forkChild(Downloads.file(server.url))
        const wait = yield* announced(log, 1)
        expect(wait).toBeGreaterThanOrEqual(20_000)
        expect(wait).toBeLessThanOrEqual(20_500)
        yield* TestClock.adjust(wait)
        expect((yield* Fiber.join(fiber)).size).toBe(2)
      })).pipe(Effect.provide(log.layer))
  })

  it.effect("do not wait for a server that asks for an hour", () =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.writeHead(503, { "retry-after": "3600" }).end())
        expect((yield* Effect.flip(Downloads.file(server.url))).tries).toBe(1)
      })))

  it.effect("as often as configured", () =>
    using({}, () =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.writeHead(500).end())
        expect((yield* Effect.flip(Downloads.file(server.url, { retries: 0 }))).tries).toBe(1)
      })))
})

describe("interruption", () => {
  it.effect("ends the request and removes the partial file", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        const closed = signal()
        const server = yield* http((response) => {
          response.on("close", closed.set)
          response.write("some")
        })
        const fiber = yield* Effect.forkChild(Downloads.file(server.url))
        yield* written(directory)
        yield* Fiber.interrupt(fiber)
        yield* closed.wait
        expect(yield* listed(directory)).toEqual([])
      })))

  it.effect("of a job removes its files: the job stops, the downloads end", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        const closed = signal()
        const server = yield* http((response, nth) => {
          if (nth === 0) return response.end("done")
          response.on("close", closed.set)
          return response.write("some")
        })
        const handler = Handler.make("fetch", {
          input: Schema.Struct({ url: Schema.String }),
          output: Schema.Finite,
          error: DownloadError,
          run: ({ url }) => Effect.map(Effect.andThen(Downloads.file(`${url}/1`), Downloads.file(`${url}/2`)), ({ size }) => size)
        })
        const fiber = yield* Effect.forkChild(WorkerTest.run(handler, { url: server.url }))
        yield* Effect.repeat(listed(directory), { until: (files) => files.length === 2 })
        yield* Fiber.interrupt(fiber)
        yield* closed.wait
        expect(yield* listed(directory)).toEqual([])
      })))

  it.effect("interrupts the other downloads after the first failure", () =>
    using({}, () =>
      Effect.gen(function*() {
        const closed = signal()
        const hanging = signal()
        const server = yield* http((response, _, request) => {
          if (request.url === "/bad") {
            return void hanging.wait.pipe(Effect.andThen(Effect.sync(() => response.writeHead(404).end())), Effect.runFork)
          }
          response.on("close", closed.set)
          response.write("some")
          hanging.set()
        })
        expect((yield* reasonOf(Downloads.files([`${server.url}/bad`, `${server.url}/slow`])))._tag).toBe("UnexpectedStatus")
        yield* closed.wait
      })))
})

it.effect("a failed download can be the job's declared error", () =>
  using({ retries: 0 }, () =>
    Effect.gen(function*() {
      const server = yield* http((response) => response.writeHead(404).end())
      const handler = Handler.make("fetch", {
        input: Schema.Struct({ url: Schema.String }),
        output: Schema.Finite,
        error: DownloadError,
        run: ({ url }) => Effect.map(Downloads.file(url), ({ size }) => size)
      })
      const { error, status } = yield* WorkerTest.run(handler, { url: `${server.url}/x?secret` })
      expect([status, JSON.parse(error ?? "")]).toEqual(["FAILED", {
        _tag: "DownloadError",
        url: `${server.url}/x?...`,
        reason: { _tag: "UnexpectedStatus", status: 404, retryAfter: null },
        tries: 1
      }])
    })))

it.effect("never runs more downloads at once than the limit, no matter how they are started", () =>
  using({ concurrency: 3 }, () =>
    Effect.gen(function*() {
      let open = 0
      let most = 0
      const full = signal()
      const server = yield* http((response) => {
        most = Math.max(most, ++open)
        if (open === 3) full.set()
        void full.wait.pipe(
          Effect.andThen(Effect.sync(() => {
            open--
            response.end("x")
          })),
          Effect.runFork
        )
      })
      const urls = Array.from({ length: 12 }, (_, index) => `${server.url}/${index}`)
      const one = Effect.forEach(urls, (url) => Downloads.file(url), { concurrency: "unbounded" })
      yield* Effect.all([one, Downloads.files(urls)], { concurrency: "unbounded" })
      expect([server.requests.length, most]).toEqual([24, 3])
    })))

describe("into a folder", () => {
  it.effect("creates the folder, keeps the order, returns absolute paths, and keeps the files", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        const server = yield* http((response, _, request) => response.end(request.url))
        const target = join(directory, "jobs", "1", "downloaded_files")
        const files = yield* Downloads.into(target, [`${server.url}/b`, `${server.url}/a`, `${server.url}/b`])
        expect(files.map(({ path }) => readFileSync(path, "utf8"))).toEqual(["/b", "/a", "/b"])
        expect(files.map(({ path }) => dirname(path))).toEqual([target, target, target])
        expect(yield* listed(target)).toEqual(["a", "b", "b-1"])
      })))

  it.effect("overwrites nothing and follows no link", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        const server = yield* http((response) => response.end("new"))
        writeFileSync(join(directory, "x"), "old")
        symlinkSync(join(directory, "elsewhere"), join(directory, "x-1"))
        const [file] = yield* Downloads.into(directory, [`${server.url}/x`])
        expect(file?.name).toBe("x-2")
        expect(readFileSync(join(directory, "x"), "utf8")).toBe("old")
        expect(existsSync(join(directory, "elsewhere"))).toBe(false)
      })))

  it.effect("removes the files from a failed call, and no others", () =>
    using({ concurrency: 1 }, (directory) =>
      Effect.gen(function*() {
        const server = yield* http((response, _, request) => response.writeHead(request.url === "/bad" ? 404 : 200).end("x"))
        writeFileSync(join(directory, "mine"), "")
        const error = yield* Effect.flip(Downloads.into(directory, [`${server.url}/a`, `${server.url}/bad`]))
        expect(error.message).toBe(`Cannot download ${server.url}/bad: the server answered 404.`)
        expect(yield* listed(directory)).toEqual(["mine"])
      })))

  it.effect("names the folder when it cannot be created", () =>
    using({}, (directory) =>
      Effect.gen(function*() {
        writeFileSync(join(directory, "file"), "")
        const error = yield* Effect.flip(Downloads.into(join(directory, "file", "x"), ["http://127.0.0.2/"]))
        expect(error.reason).toMatchObject({ _tag: "WriteFailed", detail: "ENOTDIR" })
      })))
})

it("loads undici with the first download, not with the import", () => {
  const script = `
    await import("@stint/downloads")
    await import("@stint/downloads/testing")
    const { createRequire } = await import("node:module")
    console.log(Object.keys(createRequire(import.meta.url).cache).some((path) => /[\\\\/]undici[\\\\/]/.test(path)))`
  const out = execFileSync(process.execPath, ["--input-type=module", "-e", script], {
    cwd: new URL("..", import.meta.url),
    encoding: "utf8"
  })
  expect(out.trim()).toBe("false")
})

it.effect("a download is one span with the URL, without the query", () =>
  using({}, () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const server = yield* http((response) => response.end("12345"))
      yield* Downloads.file(`${server.url}/x?token=secret`).pipe(Effect.withTracer(tracer))
      const [span] = spans
      expect(spans.map(({ name }) => name)).toEqual(["download", "GuardedHttp.request"])
      expect(Object.fromEntries(span?.attributes ?? [])).toEqual({
        "url.full": `${server.url}/x?...`,
        "file.size": 5,
        "download.tries": 1
      })
    })))

describe("the variable DOWNLOAD_ALLOW", () => {
  const provided = (env: Record<string, string>) =>
    Downloads.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env }))))

  it.effect.each([
    { PLATFORM_DOWNLOAD_ALLOW: " 127.0.0.2 , 10.0.0.0/8" },
    { RUNPOD_DOWNLOAD_ALLOW: "127.0.0.2" },
    { PLATFORM_DOWNLOAD_ALLOW: "", RUNPOD_DOWNLOAD_ALLOW: "127.0.0.2" },
    { PLATFORM_DOWNLOAD_ALLOW: "127.0.0.2", RUNPOD_DOWNLOAD_ALLOW: "not read" }
  ])("opens the addresses that it lists, and the log warns: %j", (env) => {
    const log = LogMemory.make()
    return Effect.gen(function*() {
      const server = yield* http((response) => response.end("x"))
      expect((yield* Downloads.file(server.url)).size).toBe(1)
      expect((yield* reasonOf(Downloads.file("http://127.0.0.1/")))._tag).toBe("Forbidden")
      expect(log.lines).toMatchObject([{
        level: "WARN",
        message: expect.stringMatching(/^(PLATFORM|RUNPOD)_DOWNLOAD_ALLOW opens 127\.0\.0\.2/)
      }])
    }).pipe(Effect.provide(Layer.provideMerge(provided(env), log.layer)))
  })

  it.effect("is optional", () =>
    Effect.gen(function*() {
      expect((yield* reasonOf(Downloads.file("http://127.0.0.2/")))._tag).toBe("Forbidden")
    }).pipe(Effect.provide(provided({}))))

  it.effect("prevents the start when it is invalid, and names the mistake", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Effect.scoped(Layer.build(provided({ PLATFORM_DOWNLOAD_ALLOW: "10.0.0.0/8, intranet" }))))
      expect(error.message).toBe(
        "PLATFORM_DOWNLOAD_ALLOW: \"intranet\" is not a range of addresses: expected exactly four decimal octets. " +
          "Write it as 10.0.0.0/8, fd00::/8 or 192.168.1.7."
      )
    }))
})
