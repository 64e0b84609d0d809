/**
 * What every pool must do, as tests: `suite("process", subject)` in the test file of a pool.
 *
 * A subject turns {@link Behaviour}s into endpoints whose workers behave so. The behaviour travels in the variable {@link BEHAVIOUR} of the
 * endpoint's `env`, as JSON, so that a subject needs one program for all of them.
 */
import { assert, describe, it } from "@effect/vitest"
import { type Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { type WorkerLine, WorkerLog } from "./WorkerLog.ts"
import { type WorkerHandle, WorkerPool } from "./WorkerPool.ts"

/** The variable that holds the behaviour of a worker under test. */
export const BEHAVIOUR = "BEHAVIOUR"

/** What a worker under test does, after it has printed `print`, line by line. */
export const Behaviour = Schema.Struct({
  print: Schema.Array(Schema.String),
  /** Variables to print as `NAME=value`. */
  printEnv: Schema.Array(Schema.String),
  then: Schema.Union([
    /** Ends with that code. */
    Schema.Struct({ _tag: Schema.tag("Exit"), code: Schema.Int }),
    /** Ends by that signal. */
    Schema.Struct({ _tag: Schema.tag("Signal"), signal: Schema.Literals(["SIGKILL", "SIGTERM", "SIGABRT"]) }),
    /** Waits to be asked to leave, and leaves with code 0. */
    Schema.Struct({ _tag: Schema.tag("Wait") }),
    /** Stays, also when it is asked to leave. */
    Schema.Struct({ _tag: Schema.tag("Stay") })
  ])
})
export type Behaviour = typeof Behaviour.Type

/** Reads the behaviour of a worker out of its variables. */
export const behaviourOf = Schema.decodeUnknownEffect(Schema.fromJsonString(Behaviour))

/** A pool to be tested, with workers that can be told what to do. */
export interface PoolUnderTest<E> {
  readonly layer: Layer.Layer<WorkerPool, E>
  /** The source of workers that read {@link BEHAVIOUR}. */
  readonly source: Endpoint["source"]
  /** A source of a type that the pool supports, which cannot be started. */
  readonly broken: Endpoint["source"]
}

const decodeSpec = Schema.decodeUnknownEffect(EndpointSpec)

/** An endpoint for tests. What is left out has the platform's default. */
export const endpointOf = (
  spec: Partial<Omit<typeof EndpointSpec.Encoded, "id">> & { readonly id?: string }
): Effect.Effect<Endpoint> =>
  Effect.orDie(Effect.map(
    decodeSpec({ id: "tested", source: { type: "handler", file: "handler.ts" }, ...spec }),
    (decoded) => ({ ...decoded, createdAt: 0 })
  ))

const KEY = "stint_worker_0123456789abcdef"

/** Registers the tests. */
export const suite = <E>(name: string, subject: PoolUnderTest<E>): void => {
  /** What was printed so far, and whoever waits for a line. */
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
    more: Partial<Pick<Behaviour, "print" | "printEnv">> & { readonly env?: Record<string, string> } = {}
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
    return yield* pool.start({ endpoint, worker, variables })
  })

  const check = (
    title: string,
    body: (captured: Capture) => Effect.Effect<void, unknown, WorkerPool | Scope.Scope>
  ) =>
    it.live(title, () => {
      const captured = capture()
      return Effect.scoped(body(captured)).pipe(Effect.provide(Layer.provide(subject.layer, captured.log)))
    }, 20_000)

  const exits = (code: number): Behaviour["then"] => ({ _tag: "Exit", code })
  const waits: Behaviour["then"] = { _tag: "Wait" }
  const stays: Behaviour["then"] = { _tag: "Stay" }

  /** A worker that is up: it has printed a line, so that what is done to it does not hit it while it starts. */
  const up = Effect.fnUntraced(function*(captured: Capture, then: Behaviour["then"]) {
    const mark = `up ${++count}`
    const handle = yield* start(then, { print: [mark] })
    yield* captured.line(mark)
    return handle
  })

  describe(`WorkerPool: ${name}`, () => {
    check("says which sources it starts, and external is not one of them", () =>
      Effect.gen(function*() {
        const pool = yield* WorkerPool
        assert.include(pool.supports, subject.source.type)
        assert.notInclude(pool.supports, "external")
      }))

    check(
      "prepares an endpoint without starting anything, also one that cannot be started",
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

    check("tells the exit code, with the last lines in order", () =>
      Effect.gen(function*() {
        const handle = yield* start(exits(3), { print: ["one", "two", "three"] })
        const exit = yield* handle.exit
        assert.deepStrictEqual(exit, { _tag: "Exited", code: 3, log: ["one", "two", "three"] })
      }))

    check("tells the signal that ended a worker", () =>
      Effect.gen(function*() {
        const handle = yield* start({ _tag: "Signal", signal: "SIGKILL" }, { print: ["before"] })
        const exit = yield* handle.exit
        assert.deepStrictEqual(exit, { _tag: "Killed", signal: "SIGKILL", outOfMemory: false, log: ["before"] })
      }))

    check("tells the end to everybody who asks, then and later", () =>
      Effect.gen(function*() {
        const handle = yield* start(exits(4))
        const all = yield* Effect.all([handle.exit, handle.exit], { concurrency: "unbounded" })
        const later = yield* handle.exit
        assert.deepStrictEqual([...all, later].map((exit) => exit._tag === "Exited" && exit.code), [4, 4, 4])
      }))

    check("gives a worker its variables and the endpoint's env, the variables first", (captured) =>
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

    check("hides the worker's key in what it prints", (captured) =>
      Effect.gen(function*() {
        const handle = yield* start(exits(1), { printEnv: ["RUNPOD_AI_API_KEY"] })
        const exit = yield* handle.exit
        assert.deepStrictEqual(exit.log, ["RUNPOD_AI_API_KEY=[the worker's key]"])
        assert.deepStrictEqual(captured.lines.map((line) => line.text), exit.log)
      }))

    check("writes every line, and keeps a bounded tail", (captured) =>
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
        assert.match(log.at(-2) ?? "", /^x+\.\.\.$/)
        assert.strictEqual(log.at(-3), "line 499")
      }))

    check("lets a worker leave that is asked to", (captured) =>
      Effect.gen(function*() {
        const handle = yield* up(captured, waits)
        yield* handle.drain
        const exit = yield* handle.exit
        assert.strictEqual(exit._tag === "Exited" && exit.code, 0)
      }))

    check("asks only the worker that is meant", (captured) =>
      Effect.gen(function*() {
        const [one, other]: readonly [WorkerHandle, WorkerHandle] = [yield* up(captured, waits), yield* up(captured, waits)]
        yield* one.kill
        assert.strictEqual((yield* one.exit)._tag, "Killed")
        yield* other.drain
        assert.strictEqual((yield* other.exit)._tag, "Exited")
      }))

    check("kills a worker that does not leave", (captured) =>
      Effect.gen(function*() {
        const handle = yield* up(captured, stays)
        yield* handle.drain
        yield* handle.kill
        const exit = yield* handle.exit
        assert.strictEqual(exit._tag === "Killed" && exit.signal, "SIGKILL")
      }))

    check("lets a worker be asked and killed that is gone", () =>
      Effect.gen(function*() {
        const handle = yield* start(exits(0))
        yield* handle.exit
        yield* handle.drain
        yield* handle.kill
        assert.strictEqual((yield* handle.exit)._tag, "Exited")
      }))

    check("kills a worker whose scope closes, and waits for its end", (captured) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const handle = yield* Scope.provide(up(captured, stays), scope)
        yield* Scope.close(scope, Exit.void)
        const exit = yield* Effect.timeout(handle.exit, "1 second")
        assert.strictEqual(exit._tag, "Killed")
      }))

    check("refuses what it cannot start, and says why", () =>
      Effect.gen(function*() {
        const pool = yield* WorkerPool
        const worker = WorkerId.make(`w-${++count}`)
        const broken = yield* endpointOf({ source: subject.broken })
        const error = yield* Effect.flip(Effect.scoped(pool.start({ endpoint: broken, worker, variables: {} })))
        assert.strictEqual(error.reason._tag, "SpawnFailed")
        assert.match(error.message, /cannot be started: .+\. .+\.$/)

        const external = yield* endpointOf({ source: { type: "external" } })
        const unsupported = yield* Effect.flip(Effect.scoped(pool.start({ endpoint: external, worker, variables: {} })))
        assert.strictEqual(unsupported.reason._tag, "Unsupported")
      }))
  })
}
