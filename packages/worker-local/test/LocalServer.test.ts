import { describe, expect, it } from "@effect/vitest"
import { Health } from "@stint/contract/Health"
import { Job, JobReceipt, StreamPage } from "@stint/contract/Job"
import * as Problem from "@stint/contract/Problem"
import { Handler } from "@stint/worker"
import { JobSource } from "@stint/worker/JobSource"
import type { Runnable } from "@stint/worker/Runnable"
import * as Shutdown from "@stint/worker/Shutdown"
import * as LogMemory from "@stint/worker/testing/LogMemory"
import * as Worker from "@stint/worker/Worker"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { createServer } from "node:http"
import * as LocalServer from "../src/LocalServer.ts"

interface Options extends Worker.Options {
  readonly argv?: ReadonlyArray<string>
  readonly jobs?: unknown
}

/** The services of local test mode, on a free port of the loopback address. */
const services = (log: LogMemory.LogMemory, { argv = [], jobs }: Options) =>
  LocalServer.layer(jobs === undefined ? {} : { jobs }).pipe(
    Layer.provideMerge(Layer.merge(Worker.layerPluginServices, log.layer)),
    Layer.provideMerge(
      Layer.effect(
        WorkerConfig.WorkerConfig,
        Effect.orDie(WorkerConfig.read({ PLATFORM_POD_ID: "w1" }, ["--rp_serve_api", "--rp_api_port", "0", ...argv]))
      )
    ),
    Layer.provide(Layer.succeed(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: {} })))
  )

/** Serves the handler with the local API until the test's scope closes. */
const serve = Effect.fnUntraced(function*(handler: Runnable, options: Options = {}) {
  const log = LogMemory.make()
  const outer = yield* Scope.fork(yield* Effect.scope)
  const context = yield* Layer.buildWithScope(services(log, options), outer)
  const inner = yield* Scope.make()
  yield* Layer.buildWithScope(Layer.provide(Worker.layer(handler, options), Layer.succeedContext(context)), inner)
  yield* Scope.addFinalizer(outer, Scope.close(inner, Exit.void))
  const { message } = yield* log.until(/Local API at http/)
  const url = /http:\/\/\S+/.exec(message)?.[0] ?? ""

  const call = (method: string, path: string, body?: string, headers: { readonly [name: string]: string } = {}) =>
    Effect.promise(() => fetch(url + path, { method, headers, redirect: "manual", ...(body === undefined ? {} : { body }) }))
  const read = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => (response: Response) =>
    Effect.promise(async () => Schema.decodeUnknownSync(schema)(await response.json()))
  const post = (path: string, value?: unknown) => call("POST", path, value === undefined ? undefined : JSON.stringify(value))

  return {
    url,
    log,
    call,
    post,
    runsync: (input: unknown) => Effect.flatMap(post("/runsync", { input }), read(Job)),
    run: (input: unknown, more = {}) => Effect.flatMap(post("/run", { input, ...more }), read(JobReceipt)),
    status: (id: string, query = "") => Effect.flatMap(post(`/status/${id}${query}`), read(Job)),
    stream: (id: string, query = "") => Effect.flatMap(post(`/stream/${id}${query}`), read(StreamPage)),
    cancel: (id: string) => Effect.flatMap(post(`/cancel/${id}`), read(JobReceipt)),
    health: Effect.flatMap(call("GET", "/health"), read(Health)),
    /** Decodes the problem of an error response. */
    problemOf: <S extends Schema.ConstraintDecoder<unknown>>(schema: S, response: Response) => read(schema)(response),
    requestEnd: (reason: string) =>
      Effect.provideContext(Effect.flatMap(Shutdown.Shutdown, ({ request }) => request({ reason, exitCode: 0 })), context),
    closeWorker: Scope.close(inner, Exit.void),
    close: Scope.close(outer, Exit.void),
    source: Effect.provideContext(JobSource, context)
  }
})

/** A latch that handlers can wait for. */
const latch = () => {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open: () => open(), opened }
}

const echo = Handler.fromFunction((job) => job.input)

const countdown = (returnAggregateStream = false) =>
  Handler.fromFunction(function*(job: { readonly input: { readonly from: number } }) {
    for (let n = job.input.from; n > 0; n--) yield n
  }, { returnAggregateStream })

/** All chunks, and the terminal status. */
const readAll = Effect.fnUntraced(function*(
  api: { readonly stream: (id: string) => Effect.Effect<StreamPage> },
  id: string
) {
  const chunks: Array<unknown> = []
  while (true) {
    const { status, stream } = yield* api.stream(id)
    chunks.push(...stream.map(({ output }) => output))
    if (status !== "IN_PROGRESS" && status !== "IN_QUEUE") return { status, chunks }
  }
})

// docs/spec/local-test-mode.md#local-api, docs/spec/rulings.md#local-test-mode
describe("the local API", () => {
  it.live("POST /runsync runs the job and returns the job object of a deployed endpoint", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const response = yield* api.post("/runsync", { input: { name: "Ada", n: 18014398509481984 } })
      expect(response.status).toBe(200)
      expect(response.headers.get("content-type")).toBe("application/json")
      const job: unknown = yield* Effect.promise(() => response.json())
      expect(job).toEqual({
        id: expect.stringMatching(/^test-[0-9a-f-]{36}$/),
        status: "COMPLETED",
        output: { name: "Ada", n: 18014398509481984 },
        delayTime: expect.any(Number),
        executionTime: expect.any(Number),
        workerId: "w1"
      })
    }))

  it.live("POST /run starts the job in the background, and POST /status waits for it", () =>
    Effect.gen(function*() {
      const { open, opened } = latch()
      const api = yield* serve(Handler.fromFunction((job) => Promise.resolve(opened).then(() => job.input)))
      const receipt = yield* api.run("later")
      expect(receipt).toEqual({ id: expect.stringMatching(/^test-/), status: "IN_PROGRESS" })
      expect(yield* api.status(receipt.id, "?wait=0")).toMatchObject({ status: "IN_PROGRESS" })
      const waiting = yield* Effect.forkChild(api.status(receipt.id), { startImmediately: true })
      open()
      const value = yield* Fiber.join(waiting)
      expect(value).toMatchObject({ id: receipt.id, status: "COMPLETED", output: "later" })
      expect(yield* api.status(receipt.id)).toEqual(value)
    }))

  // docs/spec/jobs-api.md#waiting-for-a-result
  it.live("/runsync and /status return IN_PROGRESS when the wait ends first", () =>
    Effect.gen(function*() {
      const { open, opened } = latch()
      const api = yield* serve(Handler.fromFunction(() => opened))
      const response = yield* api.post("/runsync?wait=20", { input: 1 })
      const job: unknown = yield* Effect.promise(() => response.json())
      expect(job).toEqual({ id: expect.any(String), status: "IN_PROGRESS", delayTime: expect.any(Number), workerId: "w1" })
      open()
      expect(yield* api.status(String(Reflect.get(Object(job), "id")))).toMatchObject({ status: "COMPLETED" })
    }))

  // docs/spec/handler.md#returned-values, docs/spec/handler.md#exceptions
  it.live("a failed job is FAILED and contains its error and the rest of the output", () =>
    Effect.gen(function*() {
      const api = yield* serve(Handler.fromFunction((job) => {
        if (job.input === "throw") throw new RangeError("far")
        return { error: "no", rest: 1 }
      }))
      expect(yield* api.runsync(1)).toMatchObject({ status: "FAILED", error: "no", output: { rest: 1 } })
      const { error, output, status } = yield* api.runsync("throw")
      expect({ status, output }).toEqual({ status: "FAILED", output: undefined })
      expect(JSON.parse(error ?? "")).toMatchObject({ error_type: "RangeError", error_message: "far", worker_id: "w1" })
      expect(Object.keys(JSON.parse(error ?? ""))).toHaveLength(6)
    }))

  // docs/spec/handler.md#generators
  it.live("a generator is consumed: /stream returns its chunks, and the terminal status with or after the last one", () =>
    Effect.gen(function*() {
      const api = yield* serve(countdown())
      const { id } = yield* api.run({ from: 3 })
      expect(yield* readAll(api, id)).toEqual({ status: "COMPLETED", chunks: [3, 2, 1] })
      expect(yield* api.stream(id)).toMatchObject({ status: "COMPLETED", stream: [] })
      expect(yield* api.status(id)).toMatchObject({ status: "COMPLETED", output: [] })
    }))

  // docs/spec/handler.md#generators
  it.live("with return_aggregate_stream, /runsync and /status return the chunks as well", () =>
    Effect.gen(function*() {
      const api = yield* serve(countdown(true))
      const { id, output } = yield* api.runsync({ from: 3 })
      expect(output).toEqual([3, 2, 1])
      expect(yield* api.status(id)).toMatchObject({ output: [3, 2, 1] })
      expect(yield* readAll(api, id)).toMatchObject({ chunks: [3, 2, 1] })
    }))

  it.live("/stream waits for the first chunk and returns it while the job is running", () =>
    Effect.gen(function*() {
      const [first, second] = [latch(), latch()]
      const api = yield* serve(Handler.fromFunction(async function*() {
        await first.opened
        yield "a"
        await second.opened
        yield "b"
      }))
      const { id } = yield* api.run(1)
      expect(yield* api.stream(id, "?wait=10")).toMatchObject({ stream: [] })
      first.open()
      expect(yield* api.stream(id)).toMatchObject({ status: "IN_PROGRESS", stream: [{ output: "a" }] })
      second.open()
      expect(yield* readAll(api, id)).toEqual({ status: "COMPLETED", chunks: ["b"] })
    }))

  it.live("/stream returns the terminal status and no chunks for a job that does not stream", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const { id } = yield* api.run("plain")
      expect(yield* api.stream(id)).toMatchObject({ status: "COMPLETED", output: "plain", stream: [] })
    }))

  // docs/spec/progress.md#reporting-progress
  it.live("progress is the job's output until the job ends", () =>
    Effect.gen(function*() {
      const { open, opened } = latch()
      const api = yield* serve(Handler.fromFunction(() => Promise.resolve(opened)))
      const { id } = yield* api.run(1)
      const source = yield* api.source
      yield* source.progress({ id, input: 1 }, { step: 1 })
      expect(yield* api.status(id, "?wait=0")).toMatchObject({ status: "IN_PROGRESS", output: { step: 1 } })
      open()
      expect(yield* api.status(id)).toMatchObject({ status: "COMPLETED", output: null })
      yield* source.progress({ id, input: 1 }, { step: 2 })
      expect(yield* api.status(id)).toMatchObject({ output: null })
    }))

  it.live("/cancel stops a running job and cancels a waiting one", () =>
    Effect.gen(function*() {
      let stopped = 0
      const api = yield* serve(Handler.fromFunction((job, { signal }) =>
        job.input === "next" ? "ran" : new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            stopped++
            reject(new Error("stopped"))
          })
        })
      ))
      const running = yield* api.run("running")
      const waiting = yield* api.run("waiting")
      expect(yield* api.cancel(waiting.id)).toEqual({ id: waiting.id, status: "CANCELLED" })
      expect(yield* api.cancel(running.id)).toEqual({ id: running.id, status: "CANCELLED" })
      // The slot is freed, and neither job has a result.
      expect(yield* api.runsync("next")).toMatchObject({ status: "COMPLETED", output: "ran" })
      expect(stopped).toBe(1)
      expect(yield* api.status(running.id)).toMatchObject({ status: "CANCELLED" })
      expect(yield* api.cancel(running.id)).toMatchObject({ status: "CANCELLED" })
    }))

  const overlapping = () => {
    const running = { now: 0, max: 0 }
    const { open, opened } = latch()
    const handler = Handler.fromFunction(async () => {
      running.max = Math.max(running.max, ++running.now)
      await opened
      running.now--
    })
    return { running, handler, open }
  }

  it.live("one job runs at a time by default; the others are IN_QUEUE", () =>
    Effect.gen(function*() {
      const { handler, open, running } = overlapping()
      const api = yield* serve(handler)
      const first = yield* api.run(1)
      const second = yield* api.run(2)
      expect(yield* api.status(first.id, "?wait=0")).toMatchObject({ status: "IN_PROGRESS" })
      expect(yield* api.status(second.id, "?wait=0")).toEqual({ id: second.id, status: "IN_QUEUE" })
      open()
      expect(yield* api.status(second.id)).toMatchObject({ status: "COMPLETED" })
      expect(running.max).toBe(1)
    }))

  it.live.each([
    { name: "without", options: {} },
    { name: "with", options: { concurrencyModifier: () => 10 } }
  ])(
    "--rp_api_concurrency limits the number of jobs that run at once, $name a concurrency_modifier",
    ({ options }) =>
      Effect.gen(function*() {
        const { handler, open, running } = overlapping()
        const api = yield* serve(handler, {
          argv: ["--rp_api_concurrency", "2"],
          ...options
        })
        const ids = (yield* Effect.forEach([1, 2, 3, 4], (n) => api.run(n))).map(({ id }) => id)
        const statuses = yield* Effect.forEach(ids, (id) => api.status(id, "?wait=0"))
        expect(statuses.map(({ status }) => status)).toEqual(["IN_PROGRESS", "IN_PROGRESS", "IN_QUEUE", "IN_QUEUE"])
        open()
        yield* Effect.forEach(ids, (id) => api.status(id))
        expect(running.max).toBe(2)
      })
  )

  // docs/spec/rulings.md#empty-input
  it.live("a job with an empty input object completes", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      expect(yield* api.post("/runsync", { input: {} }).pipe(Effect.flatMap((r) => Effect.promise(() => r.json()))))
        .toMatchObject({
          status: "COMPLETED"
        })
    }))

  it.live("refresh_worker does not end the local API, but logs what a platform would do", () =>
    Effect.gen(function*() {
      const api = yield* serve(Handler.fromFunction(() => ({ refresh_worker: true, done: true })), { refreshWorker: true })
      expect(yield* api.runsync(1)).toMatchObject({ status: "COMPLETED", output: { done: true } })
      yield* api.log.until(/asked for a fresh worker.*continues/)
      expect(yield* api.runsync(2)).toMatchObject({ status: "COMPLETED" })
    }))

  // docs/spec/local-test-mode.md#local-limits
  it.live("a result of more than 20 MiB fails its job with the reason", () =>
    Effect.gen(function*() {
      const api = yield* serve(Handler.fromFunction(() => "x".repeat(20 * 1024 * 1024)))
      const { error, status } = yield* api.runsync(1)
      expect(status).toBe("FAILED")
      expect(error).toMatch(/larger than the limit of 20 MiB\. Upload the result/)
    }))

  it.live("a chunk of more than 1 MiB that is not a string fails its job with the reason", () =>
    Effect.gen(function*() {
      const api = yield* serve(Handler.fromFunction(function*() {
        yield "small"
        yield ["x".repeat(1024 * 1024)]
      }))
      const { id } = yield* api.run(1)
      expect(yield* readAll(api, id)).toEqual({ status: "FAILED", chunks: ["small"] })
      expect(yield* api.status(id)).toMatchObject({
        error: expect.stringMatching(/refused a chunk of 1048591 bytes.*limit of 1 MiB.*Only a string is split/)
      })
    }))

  it.live("a chunk that is refused throws at its yield, and a handler that catches the error continues", () =>
    Effect.gen(function*() {
      const errors: Array<string> = []
      const api = yield* serve(Handler.fromFunction(async function*() {
        yield "before"
        for (const items of [["x".repeat(1024 * 1024)], ["y"]]) {
          try {
            yield items
          } catch (error) {
            errors.push(String(error))
          }
        }
        yield "after"
      }, { returnAggregateStream: true }))
      const { id } = yield* api.run(1)
      const chunks = ["before", ["y"], "after"]
      expect(yield* readAll(api, id)).toEqual({ status: "COMPLETED", chunks })
      expect(yield* api.status(id)).toMatchObject({ output: chunks })
      expect(errors).toEqual([expect.stringMatching(/^ChunkRefusedError: The platform refused a chunk of 1048591 bytes/)])
    }))

  it.live.each<[string, (texts: ReadonlyArray<string>) => Runnable]>([
    ["generator", (texts) =>
      Handler.fromFunction(function*() {
        yield* texts
      }, { returnAggregateStream: true })],
    ["Stream", (texts) =>
      Handler.makeStream("texts", {
        input: Schema.Unknown,
        output: Schema.String,
        aggregate: true,
        run: () => Stream.fromIterable(texts)
      })]
  ])(
    "a string of more than 1 MB in a %s is sent as several chunks that together form the string",
    ([, handlerOf]) =>
      Effect.gen(function*() {
        const text = `${"x".repeat(1_500_000)}${"\"é漢😀\n".repeat(100_000)}`
        const api = yield* serve(handlerOf(["before", text, "after"]))
        const { id } = yield* api.run(1)
        const { chunks, status } = yield* readAll(api, id)
        expect([status, chunks[0], chunks.slice(1, -1).join("") === text, chunks.at(-1)]).toEqual([
          "COMPLETED",
          "before",
          true,
          "after"
        ])
        expect(chunks.length).toBeGreaterThan(4)
        for (const chunk of chunks) expect(Buffer.byteLength(JSON.stringify(chunk))).toBeLessThanOrEqual(1_000_000)
        // The collected output has the whole text.
        const { output } = yield* api.status(id)
        expect(Array.isArray(output) && output.length === 3 && output[1] === text).toBe(true)
      })
  )

  // docs/spec/jobs-api.md#health
  it.live("GET /health counts jobs and workers by state", () =>
    Effect.gen(function*() {
      const { handler, open } = overlapping()
      const api = yield* serve(handler)
      const first = yield* api.run(1)
      const second = yield* api.run(2)
      expect(yield* api.health).toMatchObject({ jobs: { inProgress: 1, inQueue: 1 }, workers: { idle: 0, running: 1 } })
      open()
      yield* api.status(first.id)
      yield* api.status(second.id)
      expect(yield* api.health).toMatchObject({
        jobs: { completed: 2, inProgress: 0, inQueue: 0 },
        workers: { idle: 1, ready: 1, running: 0, initializing: 0 }
      })
    }))

  it.live("/v2/{any id} serves the operations of a deployed endpoint", () =>
    Effect.gen(function*() {
      const { open, opened } = latch()
      const api = yield* serve(Handler.fromFunction(async function*() {
        yield "a"
        await opened
      }))
      const json = (method: string, path: string, body?: string) =>
        Effect.flatMap(api.call(method, `/v2/mine${path}`, body), (response) => Effect.promise(() => response.json()))
      const receipt = yield* json("POST", "/run", `{"input":1}`)
      expect(receipt).toEqual({ id: expect.stringMatching(/^test-/), status: "IN_QUEUE" })
      const id = String(Reflect.get(Object(receipt), "id"))
      expect(yield* json("GET", `/stream/${id}`)).toMatchObject({ status: "IN_PROGRESS", stream: [{ output: "a" }] })
      expect(yield* json("GET", `/status/${id}`)).toMatchObject({ status: "IN_PROGRESS" })
      open()
      expect(yield* json("GET", `/status-sync/${id}`)).toMatchObject({ status: "COMPLETED" })
      expect(yield* json("POST", `/status/${id}`)).toMatchObject({ status: "COMPLETED" })
    }))
})

// docs/spec/local-test-mode.md#local-api: one test per row, without a key
describe("each row of the local API", () => {
  const withJob = Effect.gen(function*() {
    const api = yield* serve(countdown(true))
    const { id } = yield* api.runsync({ from: 1 })
    return { api, id }
  })
  const json = (response: Response): Effect.Effect<unknown> => Effect.promise(() => response.json())

  it.live.each(
    [
      ["POST /run starts a job with a test- id", "POST", "/run", 200, {
        id: expect.stringMatching(/^test-/),
        status: "IN_PROGRESS"
      }],
      ["POST /runsync returns the result", "POST", "/runsync", 200, { status: "COMPLETED", output: [1] }],
      ["POST /status/{id} returns 200 and the result", "POST", "/status/ID", 200, { status: "COMPLETED", output: [1] }],
      ["GET /status/{id} returns 405", "GET", "/status/ID", 405, { error: expect.stringMatching(/does not support GET\.$/) }],
      ["POST /stream/{id} returns the chunks", "POST", "/stream/ID", 200, { status: "COMPLETED", stream: [{ output: 1 }] }],
      ["POST /cancel/{id} returns the status", "POST", "/cancel/ID", 200, { status: "COMPLETED" }],
      ["GET /health counts jobs", "GET", "/health", 200, { jobs: { completed: 1 } }]
    ] as const
  )("%s", ([_title, method, path, status, body]) =>
    Effect.gen(function*() {
      const { api, id } = yield* withJob
      const sent = path.startsWith("/run") ? `{"input":{"from":1}}` : undefined
      const response = yield* api.call(method, path.replace("ID", id), sent)
      expect(response.status).toBe(status)
      expect(yield* json(response)).toMatchObject(body)
    }))

  it.live.each(
    [
      ["GET / returns the documentation", "/", 200, null],
      ["GET /docs redirects to / with 307", "/docs", 307, "/"]
    ] as const
  )("%s", ([_title, path, status, location]) =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const response = yield* api.call("GET", path)
      expect([response.status, response.headers.get("location")]).toEqual([status, location])
    }))
})

// docs/spec/local-test-mode.md#local-api
describe("the documentation of the local API", () => {
  it.live("GET / returns one self-contained page with the server's address in its curl lines", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const response = yield* api.call("GET", "/")
      expect(response.status).toBe(200)
      expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8")
      expect(response.headers.get("content-security-policy")).toMatch(/^default-src 'none'/)
      const html = yield* Effect.promise(() => response.text())
      for (const path of ["/run", "/runsync", "/status/{id}", "/stream/{id}", "/cancel/{id}", "/health"]) {
        expect(html).toContain(`<code>${path}</code>`)
      }
      expect(html).toContain(`curl -s -X POST ${api.url}/runsync`)
      expect(html.match(/(?:src|href)="(?!data:,)[^"]*"/g)).toBeNull()
    }))

  it.live("an invalid Host header does not appear in the page", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const text = yield* Effect.promise(() =>
        new Promise<string>((resolve, reject) => {
          const { port } = new URL(api.url)
          const { request } = process.getBuiltinModule("node:http")
          request({ host: "127.0.0.1", port, path: "/", headers: { host: "<script>alert(1)</script>" } }, (response) => {
            response.setEncoding("utf8")
            let all = ""
            response.on("data", (part: string) => {
              all += part
            })
            response.on("end", () => resolve(all))
          }).on("error", reject).end()
        })
      )
      expect(text).toContain(`curl -s -X POST ${api.url}/runsync`)
      expect(text).not.toContain("alert(1)")
    }))

  // docs/spec/local-test-mode.md#local-api
  it.live("GET /docs redirects to / with 307", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const response = yield* api.call("GET", "/docs")
      expect(response.status).toBe(307)
      expect(response.headers.get("location")).toBe("/")
    }))
})

describe("requests that the local API refuses", () => {
  // docs/spec/local-test-mode.md#local-api
  it.live("GET /status/{id} returns 405 with Allow: POST, even for an unknown job", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const { id } = yield* api.runsync(1)
      for (const path of [`/status/${id}`, "/status/unknown", `/stream/${id}`]) {
        const response = yield* api.call("GET", path)
        expect(response.status).toBe(405)
        expect(response.headers.get("allow")).toBe("POST")
        const problem = yield* Effect.promise(() => response.json())
        expect(problem).toMatchObject({
          status: 405,
          error: `${path} does not support GET.`,
          hint: expect.stringContaining(`/v2/local${path}`)
        })
      }
      expect((yield* api.call("POST", `/status/${id}`)).status).toBe(200)
    }))

  it.live.each<[string, string, string, RegExp, ReadonlyArray<unknown> | undefined]>([
    ["a body that is not JSON", "/run", "{", /^The body is not JSON: /, undefined],
    ["an empty body", "/runsync", "", /^The body is empty/, undefined],
    ["a body that is not an object", "/run", "[1]", /Expected/, [[]]],
    ["a body without input", "/runsync", `{"inputs":1}`, /^input: Missing key$/, [["input"]]],
    ["a webhook that is not a URL", "/run", `{"input":1,"webhook":"ftp://a"}`, /^webhook: .*http:.* or https:/, [["webhook"]]],
    ["a policy value out of range", "/run", `{"input":1,"policy":{"ttl":1}}`, /^policy\.ttl: /, [["policy", "ttl"]]]
  ])("%s returns 400 with the path of each invalid value", ([_name, path, body, error, paths]) =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const response = yield* api.call("POST", path, body)
      expect(response.status).toBe(400)
      expect(response.headers.get("content-type")).toBe("application/problem+json")
      const problem = yield* api.problemOf(Problem.InvalidRequest, response)
      expect(problem.error).toMatch(error)
      expect(problem.detail).toBe(problem.error)
      expect(problem.hint).toMatch(/"input"/)
      expect(problem.errors?.map((one) => one.path)).toEqual(paths)
    }))

  it.live.each([["POST", "/status/unknown"], ["POST", "/stream/unknown"], ["POST", "/cancel/un%2Fknown"], [
    "GET",
    "/v2/a/status/x"
  ]])(
    "an unknown job returns 404: %s %s",
    ([method, path]) =>
      Effect.gen(function*() {
        const api = yield* serve(echo)
        const response = yield* api.call(method ?? "", path ?? "")
        expect(response.status).toBe(404)
        const problem = yield* api.problemOf(Problem.JobNotFound, response)
        expect(problem.error).toMatch(/no job "(un\/?known|x)"/)
      })
  )

  it.live.each([["POST", "/retry/x"], ["GET", "/nothing"], ["POST", "/run/x"], ["POST", "/status"], ["POST", "/toString"], [
    "GET",
    "/v2"
  ]])(
    "an unknown path returns 404 with the paths that exist: %s %s",
    ([method, path]) =>
      Effect.gen(function*() {
        const api = yield* serve(echo)
        const response = yield* api.call(method ?? "", path ?? "")
        expect(response.status).toBe(404)
        const problem = yield* api.problemOf(Problem.RouteNotFound, response)
        expect(problem.hint).toMatch(/\/run, \/runsync, \/status\/\{id\}.*\/v2\/\{any id\}/)
      })
  )

  it.live("other methods return 405 with the allowed methods", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      for (
        const [method, path, allow] of [["GET", "/run", "POST"], ["POST", "/", "GET, HEAD"], ["POST", "/health", "GET"]] as const
      ) {
        const response = yield* api.call(method, path)
        expect([response.status, response.headers.get("allow")]).toEqual([405, allow])
      }
    }))

  it.live("an invalid percent-encoding in the path returns 400", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const problem = yield* api.problemOf(Problem.InvalidRequest, yield* api.call("POST", "/status/%"))
      expect(problem.error).toMatch(/percent-encoding/)
    }))

  it.live("a deeply nested input reaches the handler", () =>
    Effect.gen(function*() {
      const api = yield* serve(Handler.fromFunction((job) => Array.isArray(job.input)))
      const deep = "[".repeat(511) + "]".repeat(511)
      const response = yield* api.call("POST", "/runsync", `{"input":${deep}}`)
      expect(yield* Effect.promise(() => response.json())).toMatchObject({ status: "COMPLETED", output: true })
    }))

  it.live.each([["/run", 10], ["/runsync", 20]] as const)(
    "a body over the limit of %s returns 413 with the limit, with and without Content-Length",
    ([path, limit]) =>
      Effect.gen(function*() {
        const api = yield* serve(echo)
        const bytes = limit * 1024 * 1024 + 1
        const announced = yield* api.call("POST", path, "x".repeat(bytes))
        const streamed = yield* Effect.promise(() =>
          fetch(api.url + path, { method: "POST", body: new Blob(["x".repeat(bytes)]).stream(), duplex: "half" })
        )
        for (const response of [announced, streamed]) {
          expect(response.status).toBe(413)
          const problem = yield* api.problemOf(Problem.PayloadTooLarge, response)
          expect(problem).toMatchObject({ limit: bytes - 1, error: `The body is larger than the limit of ${limit} MiB.` })
        }
        expect(yield* api.runsync("still there")).toMatchObject({ output: "still there" })
      })
  )

  it.live("a web page from another origin receives 403; a page from this machine may call the API", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      for (const origin of ["https://example.com", "null", "http://localhost.example.com", "http://127.0.0.1.example.com"]) {
        const response = yield* api.call("POST", "/runsync", `{"input":1}`, { origin })
        expect(response.status).toBe(403)
        yield* api.problemOf(Problem.Forbidden, response)
      }
      for (const origin of [api.url, "http://localhost:5173", "http://[::1]:3000", "https://app.localhost"]) {
        expect((yield* api.call("POST", "/runsync", `{"input":1}`, { origin })).status).toBe(200)
      }
      expect(yield* api.health).toMatchObject({ jobs: { completed: 4 } })
    }))
})

describe("the start of the local API", () => {
  it.live("logs one line with the address and a curl command to paste", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo)
      const lines = api.log.lines.filter(({ level }) => level === "INFO").map(({ message }) => message)
      expect(lines).toEqual([expect.stringMatching(
        /^Local API at (http:\/\/127\.0\.0\.1:\d+) \(open it for the documentation\)\. Try it: curl -s -X POST \1\/runsync -H 'Content-Type: application\/json' -d '\{"input":\{"name":"Ada"\}\}'$/
      )])
    }))

  const startError = (options: Options) =>
    Effect.gen(function*() {
      const log = LogMemory.make()
      const error = yield* Effect.flip(Effect.scoped(Layer.build(services(log, options))))
      return error.message
    })

  it.live("a port in use causes an error that names the flag for selecting another port", () =>
    Effect.gen(function*() {
      const { url } = yield* serve(echo)
      const { port } = new URL(url)
      expect(yield* startError({ argv: [`--rp_api_port=${port}`] })).toBe(
        `Port ${port} of 127.0.0.1 is in use. Stop the other program, or pass --rp_api_port with another port (0 selects a free one).`
      )
    }))

  it.live("another machine's address causes an error that names the flag", () =>
    Effect.gen(function*() {
      expect(yield* startError({ argv: ["--rp_api_host", "192.0.2.1"] })).toMatch(
        /^--rp_api_host is "192\.0\.2\.1", which is not an address/
      )
    }))

  it.live("logs a WARN line for each ignored option, and for a public address", () =>
    Effect.gen(function*() {
      const api = yield* serve(echo, { argv: ["--rp_api_host", "0.0.0.0", "--test_input", "{}"], jobs: () => [] })
      const warnings = api.log.lines.filter(({ level }) => level === "WARN").map(({ message }) => message)
      expect(warnings).toEqual([
        expect.stringMatching(/--test_input is ignored/),
        expect.stringMatching(/jobs_fetcher is ignored/),
        expect.stringMatching(/0\.0\.0\.0 and has no keys/)
      ])
      expect(api.url).toMatch(/^http:\/\/127\.0\.0\.1:/)
      expect(yield* api.runsync("reached")).toMatchObject({ output: "reached" })
    }))
})

describe("the end of the local API", () => {
  it.live("running jobs finish, waiting jobs fail, and new jobs receive 503", () =>
    Effect.gen(function*() {
      const { open, opened } = latch()
      const api = yield* serve(Handler.fromFunction((job) => Promise.resolve(opened).then(() => job.input)))
      const running = yield* api.run("running")
      const waiting = yield* api.run("waiting")
      const asked = yield* Effect.forkChild(api.status(running.id), { startImmediately: true })
      yield* api.requestEnd("SIGINT")
      yield* api.log.until(/^Stopping: SIGINT\. Waiting for 1 running job\. 1 waiting job failed\.$/)
      expect(yield* api.status(waiting.id)).toMatchObject({
        status: "FAILED",
        error: expect.stringMatching(/stopped \(SIGINT\)/)
      })
      const late = yield* api.post("/run", { input: 1 })
      expect(late.status).toBe(503)
      expect((yield* api.problemOf(Problem.Unavailable, late)).error).toMatch(/stopping \(SIGINT\)/)
      const closed = yield* Effect.forkChild(api.close, { startImmediately: true })
      open()
      expect(yield* Fiber.join(asked)).toMatchObject({ status: "COMPLETED", output: "running" })
      yield* Fiber.join(closed)
      const refused = yield* Effect.promise(() => fetch(`${api.url}/health`).then(() => false, () => true))
      expect(refused).toBe(true)
    }))
})

/** A webhook receiver that responds with 200. */
const receiver = () =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly bodies: Array<unknown>; readonly next: () => Promise<void> }>((resume) => {
      const bodies: Array<unknown> = []
      const watchers: Array<() => void> = []
      const server = createServer((request, response) => {
        let text = ""
        request.setEncoding("utf8").on("data", (part: string) => {
          text += part
        })
        request.on("end", () => {
          bodies.push(JSON.parse(text))
          response.writeHead(200).end()
          for (const watcher of watchers.splice(0)) watcher()
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({
          url: `http://127.0.0.1:${port}/hook`,
          bodies,
          next: () => new Promise((resolve) => watchers.push(resolve)),
          server
        }))
      })
    }),
    (receiver) => Effect.sync(() => Reflect.get(receiver, "server").close())
  )

// docs/spec/local-test-mode.md#webhooks
describe("webhooks of local jobs", () => {
  it.live("an ended job sends the job object with its input to the webhook", () =>
    Effect.gen(function*() {
      const hook = yield* receiver()
      const api = yield* serve(echo)
      const arrived = hook.next()
      const { id } = yield* api.run({ n: 1 }, { webhook: hook.url })
      yield* Effect.promise(() => arrived)
      const job = yield* api.status(id)
      expect(hook.bodies).toEqual([{ ...job, status: "COMPLETED", output: { n: 1 }, input: { n: 1 }, webhook: hook.url }])
    }))
})
