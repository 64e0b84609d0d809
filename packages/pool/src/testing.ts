/**
 * The conformance suite for pools: `suite("process", subject)` in the test file of a pool.
 *
 * A subject provides endpoints whose workers execute a {@link Behaviour}. The behaviour is stored as JSON in the variable {@link BEHAVIOUR}
 * of the endpoint's `env`, so that a subject needs only one program.
 */
import { assert, describe, it } from "@effect/vitest"
import { type Endpoint, EndpointSpec, type ResolvedEndpoint } from "@stint/contract/Endpoint"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import type * as MemoryWorkerPool from "./MemoryWorkerPool.ts"
import { type WorkerLine, WorkerLog } from "./WorkerLog.ts"
import { type WorkerHandle, WorkerPool } from "./WorkerPool.ts"

/** Name of the variable that contains the behaviour of a worker under test. */
export const BEHAVIOUR = "BEHAVIOUR"

/** The script of a worker under test: it prints the lines of `print`, then does `then`. */
const Behaviour = Schema.Struct({
  print: Schema.Array(Schema.String),
  /** Variables to print as `NAME=value`. */
  printEnv: Schema.Array(Schema.String),
  then: Schema.Union([
    /** Exits with this code. */
    Schema.Struct({ _tag: Schema.tag("Exit"), code: Schema.Int }),
    /** Kills itself with this signal. */
    Schema.Struct({ _tag: Schema.tag("Signal"), signal: Schema.Literals(["SIGKILL", "SIGTERM", "SIGABRT"]) }),
    /** Waits for an exit request, then exits with code 0. */
    Schema.Struct({ _tag: Schema.tag("Wait") }),
    /** Ignores exit requests. */
    Schema.Struct({ _tag: Schema.tag("Stay") })
  ])
})
type Behaviour = typeof Behaviour.Type

/** Decodes the behaviour from a worker's environment. */
const behaviourOf = Schema.decodeUnknownEffect(Schema.fromJsonString(Behaviour))

/** Executes the behaviour in the worker's variables, in a pool in memory. */
export const runScripted: Parameters<typeof MemoryWorkerPool.layer<never>>[0] = Effect.fnUntraced(function*(worker) {
  const variables: Readonly<Record<string, string>> = { ...worker.endpoint.env, ...worker.variables }
  const { print, printEnv, then } = yield* Effect.orDie(behaviourOf(variables[BEHAVIOUR]))
  yield* Effect.forEach([...print, ...printEnv.map((name) => `${name}=${variables[name]}`)], worker.print, { discard: true })
  switch (then._tag) {
    case "Exit":
      return then.code
    case "Signal":
      return yield* worker.signal(then.signal)
    case "Stay":
      return yield* Effect.never
    case "Wait":
      return yield* Effect.as(worker.exitRequested, 0)
  }
})

/** A pool under test, with scripted workers. */
export interface PoolUnderTest<E> {
  readonly layer: Layer.Layer<WorkerPool, E>
  /** The source of workers that read {@link BEHAVIOUR}. */
  readonly source: Endpoint["source"]
  /** A source of a supported type that cannot be started. */
  readonly broken: Endpoint["source"]
  /** How long a test may take. Milliseconds; default: 20,000. */
  readonly limitMillis?: number
}

const decodeSpec = Schema.decodeUnknownEffect(EndpointSpec)

/** An endpoint for tests. Omitted members have the platform's default values. */
export const endpointOf = (
  spec: Partial<Omit<typeof EndpointSpec.Encoded, "id">> & { readonly id?: string }
): Effect.Effect<Endpoint> =>
  Effect.orDie(Effect.map(
    decodeSpec({ id: "tested", source: { type: "handler", file: "handler.ts" }, ...spec }),
    (decoded) => ({ ...decoded, createdAt: 0 })
  ))

/** An endpoint as a pool receives it. For endpoints without secrets: references to secrets are omitted. */
export const resolvedOf = (endpoint: Endpoint): ResolvedEndpoint => ({
  ...endpoint,
  env: Object.fromEntries(
    Object.entries(endpoint.env).flatMap(([name, value]) => typeof value === "string" ? [[name, value] as const] : [])
  )
})

const KEY = "stint_worker_0123456789abcdef"

/** Registers the tests. */
export const suite = <E>(name: string, subject: PoolUnderTest<E>): void => {
  /** Captures output and lets a test wait for a line. */
  const capture = () => {
    const lines: Array<WorkerLine> = []
    const waiting = new Set<{ readonly text: string; readonly found: Deferred.Deferred<void> }>()
    return {
      lines,
      log: Layer.succeed(WorkerLog, {
        write: (line) =>
          Effect.sync(() => {
            lines.push(line)
            for (const one of waiting) if (one.text === line.text) Deferred.doneUnsafe(one.found, Effect.void)
          })
      }),
      line: (text: string) =>
        Effect.suspend(() => {
          if (lines.some((line) => line.text === text)) return Effect.void
          const found = Deferred.makeUnsafe<void>()
          waiting.add({ text, found })
          return Deferred.await(found)
        })
    }
  }
  type Capture = ReturnType<typeof capture>

  let count = 0
  const start = Effect.fnUntraced(function*(
    then: Behaviour["then"],
    more: Partial<Pick<Behaviour, "print" | "printEnv">> & {
      readonly env?: Record<string, string>
      readonly mask?: (text: string) => string
    } = {}
  ) {
    const pool = yield* WorkerPool
    const worker = WorkerId.make(`w-${++count}`)
    const behaviour: Behaviour = { print: more.print ?? [], printEnv: more.printEnv ?? [], then }
    const endpoint = yield* endpointOf({
      source: subject.source,
      env: { ...more.env, [BEHAVIOUR]: JSON.stringify(behaviour) }
    })
    const variables = workerEnvironment({
      baseUrl: "http://127.0.0.1:1",
      endpoint: endpoint.id,
      worker,
      key: KEY,
      pingIntervalMs: 10_000
    })
    // Runs after the worker has ended, as the caller's processing of the exit does.
    const started: Array<WorkerHandle> = []
    yield* Effect.addFinalizer(() => Effect.forEach(started, ({ forget = Effect.void }) => forget, { discard: true }))
    const handle = yield* pool.start({ endpoint: resolvedOf(endpoint), worker, variables, mask: more.mask })
    started.push(handle)
    return handle
  })

  const check = (
    title: string,
    body: (captured: Capture) => Effect.Effect<void, unknown, WorkerPool | Scope.Scope>
  ) =>
    it.live(title, () => {
      const captured = capture()
      return Effect.scoped(body(captured)).pipe(Effect.provide(Layer.provide(subject.layer, captured.log)))
    }, subject.limitMillis ?? 20_000)

  const exits = (code: number): Behaviour["then"] => ({ _tag: "Exit", code })
  const waits: Behaviour["then"] = { _tag: "Wait" }
  const stays: Behaviour["then"] = { _tag: "Stay" }

  /** Starts a worker and waits until it has printed a line, so that a fault cannot occur during its start. */
  const up = Effect.fnUntraced(function*(captured: Capture, then: Behaviour["then"]) {
    const mark = `up ${++count}`
    const handle = yield* start(then, { print: [mark] })
    yield* captured.line(mark)
    return handle
  })

  describe(`WorkerPool: ${name}`, () => {
    check("lists the sources that it supports, without external", () =>
      Effect.gen(function*() {
        const pool = yield* WorkerPool
        assert.include(pool.supports, subject.source.type)
        assert.notInclude(pool.supports, "external")
      }))

    check(
      "prepares an endpoint without starting a worker, even when the endpoint cannot be started",
      (captured) =>
        Effect.gen(function*() {
          const pool = yield* WorkerPool
          const behaviour: Behaviour = { print: ["started"], printEnv: [], then: waits }
          yield* pool.prepare(yield* endpointOf({ source: subject.source, env: { [BEHAVIOUR]: JSON.stringify(behaviour) } }))
          yield* pool.prepare(yield* endpointOf({ source: subject.broken }))
          yield* pool.prepare(yield* endpointOf({ source: { type: "external" } }))
          assert.deepStrictEqual(captured.lines, [])
          const handle = yield* start(exits(5), { print: ["prepared"] })
          assert.deepStrictEqual(yield* handle.exit, { _tag: "Exited", code: 5, log: ["prepared"] })
        })
    )

    check("reports the exit code with the last lines in order", () =>
      Effect.gen(function*() {
        const handle = yield* start(exits(3), { print: ["one", "two", "three"] })
        const exit = yield* handle.exit
        assert.deepStrictEqual(exit, { _tag: "Exited", code: 3, log: ["one", "two", "three"] })
      }))

    check("reports the signal that killed a worker", () =>
      Effect.gen(function*() {
        const handle = yield* start({ _tag: "Signal", signal: "SIGKILL" }, { print: ["before"] })
        const exit = yield* handle.exit
        assert.deepStrictEqual(exit, { _tag: "Killed", signal: "SIGKILL", outOfMemory: false, log: ["before"] })
      }))

    check("reports the exit to every waiter, even after the exit", () =>
      Effect.gen(function*() {
        const handle = yield* start(exits(4))
        const all = yield* Effect.all([handle.exit, handle.exit], { concurrency: "unbounded" })
        const later = yield* handle.exit
        assert.deepStrictEqual([...all, later].map((exit) => exit._tag === "Exited" && exit.code), [4, 4, 4])
      }))

    check("passes the worker's variables and the endpoint's env; the variables win", (captured) =>
      Effect.gen(function*() {
        const handle = yield* start(exits(0), {
          env: { GREETING: "hello world", RUNPOD_ENDPOINT_ID: "another" },
          printEnv: ["GREETING", "RUNPOD_ENDPOINT_ID", "PLATFORM_POD_ID", "RUNPOD_WEBHOOK_GET_JOB"]
        })
        yield* handle.exit
        assert.deepStrictEqual(captured.lines.map((line) => line.text), [
          "GREETING=hello world",
          "RUNPOD_ENDPOINT_ID=tested",
          `PLATFORM_POD_ID=${handle.id}`,
          "RUNPOD_WEBHOOK_GET_JOB=http://127.0.0.1:1/v2/tested/job-take/$ID?gpu=none"
        ])
      }))

    check("redacts the worker's key in its output", (captured) =>
      Effect.gen(function*() {
        const handle = yield* start(exits(1), { printEnv: ["RUNPOD_AI_API_KEY"] })
        const exit = yield* handle.exit
        assert.deepStrictEqual(exit.log, ["RUNPOD_AI_API_KEY=[the worker's key]"])
        assert.deepStrictEqual(captured.lines.map((line) => line.text), exit.log)
      }))

    check("redacts the endpoint's secrets in its output, before a line is shortened", (captured) =>
      Effect.gen(function*() {
        const secret = "hf_0123456789"
        const mask = (text: string) => text.replaceAll(secret, "[secret hf-token]")
        const print = [`the token ${secret}`, secret.repeat(500)]
        const handle = yield* start(exits(1), { print, printEnv: ["HF_TOKEN"], env: { HF_TOKEN: secret }, mask })
        const { log } = yield* handle.exit
        const lines = captured.lines.map((line) => line.text)
        assert.deepStrictEqual(lines, ["the token [secret hf-token]", mask(secret.repeat(500)), "HF_TOKEN=[secret hf-token]"])
        assert.deepStrictEqual([log.at(0), log.at(-1)], [lines[0], lines[2]])
        assert.notInclude(log.join(""), "hf_")
      }))

    check("writes every line to the sink and keeps a bounded tail", (captured) =>
      Effect.gen(function*() {
        const long = "x".repeat(5_000)
        const lines = [...Array.from({ length: 500 }, (_, index) => `line ${index}`), long, "last"]
        const handle = yield* start(exits(1), { print: lines })
        const { log } = yield* handle.exit
        assert.deepStrictEqual(captured.lines.map((line) => line.text), lines)
        for (const line of captured.lines) {
          assert.deepStrictEqual([line.endpoint, line.worker], [EndpointId.make("tested"), handle.id])
        }
        assert.isAtMost(log.length, 20)
        assert.isAtMost(log.join("").length, 2_000)
        assert.strictEqual(log.at(-1), "last")
        assert.match(log.at(-2) ?? "", /^x+\.\.\.x+$/)
        assert.strictEqual(log.at(-3), "line 499")
      }))

    check("lets a worker exit on request", (captured) =>
      Effect.gen(function*() {
        const handle = yield* up(captured, waits)
        yield* handle.drain
        const exit = yield* handle.exit
        assert.strictEqual(exit._tag === "Exited" && exit.code, 0)
      }))

    check("asks only the addressed worker to exit", (captured) =>
      Effect.gen(function*() {
        const [one, other]: readonly [WorkerHandle, WorkerHandle] = [yield* up(captured, waits), yield* up(captured, waits)]
        yield* one.kill
        assert.strictEqual((yield* one.exit)._tag, "Killed")
        yield* other.drain
        assert.strictEqual((yield* other.exit)._tag, "Exited")
      }))

    check("kills a worker that ignores requests to exit", (captured) =>
      Effect.gen(function*() {
        const handle = yield* up(captured, stays)
        yield* handle.drain
        yield* handle.kill
        const exit = yield* handle.exit
        assert.strictEqual(exit._tag === "Killed" && exit.signal, "SIGKILL")
      }))

    check("accepts drain and kill for a worker that has exited", () =>
      Effect.gen(function*() {
        const handle = yield* start(exits(0))
        yield* handle.exit
        yield* handle.drain
        yield* handle.kill
        assert.strictEqual((yield* handle.exit)._tag, "Exited")
      }))

    check("kills a worker when its scope closes and waits for its exit", (captured) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const handle = yield* Scope.provide(up(captured, stays), scope)
        yield* Scope.close(scope, Exit.void)
        const exit = yield* Effect.timeout(handle.exit, "1 second")
        assert.strictEqual(exit._tag, "Killed")
      }))

    check("refuses a source that it cannot start, with the reason", () =>
      Effect.gen(function*() {
        const pool = yield* WorkerPool
        const worker = WorkerId.make(`w-${++count}`)
        const broken = yield* endpointOf({ source: subject.broken })
        const error = yield* Effect.flip(Effect.scoped(pool.start({ endpoint: resolvedOf(broken), worker, variables: {} })))
        assert.strictEqual(error.reason._tag, "SpawnFailed")
        assert.match(error.message, /cannot be started: .+\. .+\.$/)

        const external = yield* endpointOf({ source: { type: "external" } })
        const unsupported = yield* Effect.flip(
          Effect.scoped(pool.start({ endpoint: resolvedOf(external), worker, variables: {} }))
        )
        assert.strictEqual(unsupported.reason._tag, "Unsupported")
      }))
  })
}
