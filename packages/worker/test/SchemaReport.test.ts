/** Tests the report of a handler's schema (docs/spec/jobs-api.md#the-schema-of-a-handler). */
import { assert, describe, it } from "@effect/vitest"
import { HandlerSchema, MAX_SCHEMA_BYTES } from "@stint/contract/HandlerSchema"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { Handler } from "../src/index.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { services, start } from "./MemoryWorker.ts"

const Size = Schema.Struct({ width: Schema.Finite }).annotate({ identifier: "Size" })

const Thumbnail = Handler.make("thumbnail", {
  input: Schema.Struct({ url: Schema.URL, size: Size }),
  output: Schema.Struct({ at: Schema.Date }),
  error: Schema.Struct({ reason: Schema.Literals(["large", "broken"]) }),
  run: () => Effect.succeed({ at: new Date(0) })
})

const Count = Handler.makeStream("count", {
  input: Schema.Struct({ from: Schema.Finite }),
  output: Schema.Finite,
  run: () => Stream.make(1)
})

const Large = Handler.make("large", {
  input: Schema.String.annotate({ description: "ü".repeat(MAX_SCHEMA_BYTES / 2) }),
  output: Schema.String,
  run: Effect.succeed
})

const Function = Handler.fromFunction(() => 1)

/** The conversion is loaded with `import()`, which takes real time. */
const untilReported = (count: number) =>
  Effect.gen(function*() {
    const memory = yield* Memory
    const reports = () => memory.calls().filter(({ kind }) => kind === "schema")
    for (let turn = 0; reports().length < count && turn < 500; turn++) {
      yield* Effect.promise(() => new Promise((next) => setTimeout(next, 10)))
    }
    return reports().map(({ body }) => body)
  })

const reported = (handler: Parameters<typeof start>[0], count = 1) =>
  Effect.gen(function*() {
    yield* start(handler)
    yield* TestClock.adjust("999 millis")
    const before = yield* untilReported(0)
    assert.deepStrictEqual(before, [])
    yield* TestClock.adjust("1 millis")
    return yield* untilReported(count)
  })

describe("the report of a handler's schema", () => {
  it.effect("contains the JSON Schemas of the input, the output and the declared failures, a second after the first take", () =>
    Effect.gen(function*() {
      const [schema, ...others] = yield* reported(Thumbnail)
      assert.deepStrictEqual(others, [])
      assert.isTrue(Schema.is(HandlerSchema)(schema))
      assert.deepStrictEqual(schema, {
        input: {
          type: "object",
          properties: { url: { type: "string" }, size: { $ref: "#/$defs/Size" } },
          required: ["url", "size"],
          additionalProperties: true,
          $defs: {
            Size: { type: "object", properties: { width: { type: "number" } }, required: ["width"], additionalProperties: true }
          }
        },
        output: { type: "object", properties: { at: { type: "string" } }, required: ["at"], additionalProperties: true },
        error: {
          type: "object",
          properties: { reason: { type: "string", enum: ["large", "broken"] } },
          required: ["reason"],
          additionalProperties: true
        },
        streams: false
      })
    }).pipe(Effect.provide(services().layer)))

  it.effect("says that a handler streams, and names no failures if it declares none", () =>
    Effect.gen(function*() {
      const [schema] = yield* reported(Count)
      assert.deepStrictEqual(schema, {
        input: { type: "object", properties: { from: { type: "number" } }, required: ["from"], additionalProperties: true },
        output: { type: "number" },
        streams: true
      })
    }).pipe(Effect.provide(services().layer)))

  it.effect("is sent again after 10 s when the platform does not respond, and only then", () =>
    Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.failNext("schema", 1, "unreachable")
      yield* memory.failNext("schema", 1, 404)
      assert.lengthOf(yield* reported(Count), 1)
      yield* TestClock.adjust("10 seconds")
      assert.lengthOf(yield* untilReported(2), 2)
      yield* TestClock.adjust("1 minute")
      assert.lengthOf(yield* untilReported(2), 2)
    }).pipe(Effect.provide(services().layer)))

  it.effect("does not exist for a function, or for a schema that the platform would refuse", () => {
    const { layer, log } = services({ PLATFORM_SHUTDOWN_GRACE: "0", PLATFORM_LOG_LEVEL: "DEBUG" })
    return Effect.gen(function*() {
      yield* reported(Function, 0)
      yield* reported(Large, 0)
      const large = () => log.some(({ message }) => message === "The handler's schema is not reported, because it is too large.")
      for (let turn = 0; !large() && turn < 500; turn++) yield* Effect.promise(() => new Promise((next) => setTimeout(next, 10)))
      assert.isTrue(large())
      assert.deepStrictEqual(yield* untilReported(0), [])
    }).pipe(Effect.provide(layer))
  })
})
