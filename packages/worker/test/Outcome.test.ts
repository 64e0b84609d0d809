import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as Outcome from "../src/handlers/Outcome.ts"
import type { Identity } from "../src/runtime/WorkerConfig.ts"

const identity: Identity = { workerId: "w1", hostname: "h1", version: "1.2.3" }

/** The wire body of a returned value. */
const body = (value: unknown): unknown => JSON.parse(Outcome.toText(Outcome.fromReturned(value), identity).text)

class Point {
  readonly x = 1
  readonly y = 2
}

class Money {
  toJSON() {
    return { error: "no money" }
  }
}

// docs/spec/handler.md#returned-values
describe("a returned value", () => {
  it.each<[string, unknown, unknown]>([
    ["a dict", { a: 1 }, { output: { a: 1 } }],
    ["an error with other keys", { error: "bad", a: 1 }, { output: { a: 1 }, error: "bad" }],
    ["an error after other keys", { a: 1, error: "bad" }, { output: { a: 1 }, error: "bad" }],
    ["an error alone", { error: "bad" }, { error: "bad" }],
    ["an empty error", { error: "" }, { error: "" }],
    ["an error of null", { error: null, a: 1 }, { output: { a: 1 }, error: "null" }],
    ["an error of false", { error: false }, { error: "false" }],
    ["an error that is an object", { error: { code: 7 } }, { error: "{\"code\":7}" }],
    ["an error of undefined, which JSON cannot represent", { error: undefined, a: 1 }, { output: { a: 1 } }],
    ["an error that is a function, which JSON cannot represent", { error: () => 1, a: 1 }, { output: { a: 1 } }],
    ["a nested error key", { a: { error: "fine" } }, { output: { a: { error: "fine" } } }],
    ["refresh_worker", { refresh_worker: true, a: 1 }, { output: { a: 1 }, stopPod: true }],
    ["refresh_worker alone", { refresh_worker: true }, { stopPod: true }],
    ["refresh_worker that is truthy", { refresh_worker: "yes", a: 1 }, { output: { a: 1 }, stopPod: true }],
    ["refresh_worker that is false", { refresh_worker: false, a: 1 }, { output: { a: 1 } }],
    ["both signals", { error: "bad", refresh_worker: true, a: 1 }, { output: { a: 1 }, error: "bad", stopPod: true }],
    ["{}", {}, {}],
    ["only undefined keys", { a: undefined }, {}],
    ["a string", "hello", { output: "hello" }],
    ["a number", 7, { output: 7 }],
    ["false", false, { output: false }],
    ["null", null, { output: null }],
    ["undefined", undefined, { output: null }],
    ["a list", [1, { error: "in a list" }], { output: [1, { error: "in a list" }] }],
    ["an empty list", [], { output: [] }],
    ["an instance", new Point(), { output: { x: 1, y: 2 } }],
    ["a Date", new Date(0), { output: "1970-01-01T00:00:00.000Z" }],
    ["an instance whose JSON has an error", new Money(), { error: "no money" }]
  ])("%s", (_name, value, expected) => {
    expect(body(value)).toEqual(expected)
  })

  it("property: every JSON object is split into signals and output without loss", () => {
    const key = fc.oneof(fc.constantFrom("error", "refresh_worker", "a", "__proto__", "toString"), fc.string())
    fc.assert(fc.property(fc.dictionary(key, fc.jsonValue()), (dict) => {
      const json: Record<string, unknown> = JSON.parse(JSON.stringify(dict))
      const { error, refresh_worker, ...rest } = json
      const sent = body(dict)
      const expected = {
        ...(Object.keys(rest).length > 0 ? { output: rest } : {}),
        ...(Object.hasOwn(json, "error") ? { error: typeof error === "string" ? error : JSON.stringify(error) } : {}),
        ...(refresh_worker ? { stopPod: true } : {})
      }
      expect(JSON.stringify(sent)).toBe(JSON.stringify(expected))
    }))
  })

  it("property: a value that is not an object is sent unchanged", () => {
    fc.assert(
      fc.property(fc.oneof(fc.array(fc.jsonValue()), fc.string(), fc.boolean(), fc.integer(), fc.constant(null)), (value) => {
        expect(body(value)).toEqual({ output: JSON.parse(JSON.stringify(value)) })
      })
    )
  })
})

// docs/spec/handler.md#exceptions
describe("an exception", () => {
  const fields = ["error_type", "error_message", "error_traceback", "hostname", "worker_id", "runpod_version"]
  const report = (thrown: unknown): Record<string, string> => JSON.parse(Outcome.exceptionText(thrown, identity))

  class OutOfMemory extends Error {}

  const trap = (): never => {
    throw new Error("do not look")
  }
  class Trap extends Error {
    constructor() {
      super("trap")
      for (const key of ["name", "message", "stack", "cause", "constructor"]) Object.defineProperty(this, key, { get: trap })
    }
  }

  it("is JSON text with exactly six fields", () => {
    const thrown = new RangeError("too far", { cause: new Error("the reason") })
    expect(Object.keys(report(thrown))).toEqual(fields)
    expect(report(thrown)).toMatchObject({
      error_type: "RangeError",
      error_message: "too far",
      hostname: "h1",
      worker_id: "w1",
      runpod_version: "1.2.3"
    })
    expect(report(thrown)["error_traceback"]).toMatch(/^RangeError: too far\n +at .*Outcome\.test\.ts/)
    expect(report(thrown)["error_traceback"]).toMatch(/\[cause\]: Error: the reason/)
  })

  it.each<[string, unknown, string, string]>([
    ["an error class without its own name", new OutOfMemory("full"), "OutOfMemory", "full"],
    ["a string", "just text", "string", "just text"],
    ["an object", { code: 7 }, "object", "{\"code\":7}"],
    ["an error without a name", Object.assign(new Error("lost"), { name: undefined }), "Error", "lost"],
    ["an error whose message is not a string", Object.assign(new Error("lost"), { message: 7, stack: undefined }), "Error", ""],
    ["an error whose properties throw when they are read", new Trap(), "Error", ""],
    ["undefined", undefined, "undefined", "undefined"],
    ["null", null, "null", "null"]
  ])("%s", (_name, thrown, type, message) => {
    expect(report(thrown)).toMatchObject({ error_type: type, error_message: message })
    expect(Object.keys(report(thrown))).toEqual(fields)
  })

  it("a cause that is its own cause does not loop forever", () => {
    const error = new Error("round")
    error.cause = error
    expect(report(error)["error_traceback"]?.length).toBeGreaterThan(0)
  })

  it("property: the report has six strings for any thrown value", () => {
    fc.assert(fc.property(fc.anything(), (thrown) => {
      expect(Object.entries(report(thrown)).map(([name, value]) => [name, typeof value])).toEqual(
        fields.map((name) => [name, "string"])
      )
    }))
  })

  it.each<[string, () => unknown]>([
    ["a BigInt", () => ({ n: 1n })],
    ["a cycle", () => {
      const value: Record<string, unknown> = {}
      value["self"] = value
      return value
    }]
  ])("a result that JSON cannot represent: %s", (_name, make) => {
    const { outcome, text } = Outcome.toText({ output: make(), stopPod: true }, identity)
    expect(Outcome.isFailed(outcome)).toBe(true)
    const sent: { readonly error: string; readonly stopPod: boolean } = JSON.parse(text)
    expect(sent.stopPod).toBe(true)
    expect(JSON.parse(sent.error)).toMatchObject({ error_type: "TypeError", error_message: expect.stringContaining("JSON") })
  })
})

// docs/spec/worker-protocol.md#result-bodies
describe("a stream", () => {
  it("ends with an empty list or with all chunks", () => {
    expect(Outcome.fromStream([], undefined)).toEqual({ output: [] })
    expect(Outcome.fromStream([1, 2], undefined)).toEqual({ output: [1, 2] })
  })

  it("keeps only the signals of a generator's return value", () => {
    expect(Outcome.fromStream([1], { refresh_worker: true, a: 1 })).toEqual({ output: [1], stopPod: true })
    expect(Outcome.fromStream([1], { error: "bad", a: 1 })).toEqual({ error: "bad" })
    expect(Outcome.fromStream([1], "text")).toEqual({ output: [1] })
  })

  it("fails at a chunk with an error and does not send the chunk's other keys", () => {
    expect(Outcome.fromChunk({ error: { code: 7 }, a: 1 })).toEqual({ error: "{\"code\":7}" })
    expect(Outcome.fromChunk({ error: undefined, a: 1 })).toBeUndefined()
    expect(Outcome.fromChunk([{ error: "in a list" }])).toBeUndefined()
    expect(Outcome.fromChunk("error")).toBeUndefined()
  })
})
