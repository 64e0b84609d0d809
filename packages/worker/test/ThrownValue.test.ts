import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { messageOf, sentence, traceback, typeOf } from "../src/handlers/ThrownValue.ts"

class NoFace extends Schema.TaggedError<NoFace>()("NoFace", { image: Schema.String, count: Schema.Int }) {}
class Refused extends Data.TaggedError("Refused")<{ readonly by: string; readonly cause?: unknown }> {}
class Empty extends Data.TaggedError("Empty")<{}> {}
class Spoken extends Data.TaggedError("Spoken")<{ readonly message: string; readonly code: number }> {}

const environment = (env: Record<string, string>) =>
  Effect.provideService(
    Effect.gen(function*() {
      return [yield* Config.String("MODEL_PATH"), yield* Config.Int("BATCH")]
    }),
    ConfigProvider.ConfigProvider,
    ConfigProvider.fromEnv({ env })
  )

const rejectWithText = async () => {
  // oxlint-disable-next-line only-throw-error
  throw "no reason"
}

/** How each effect fails, and the type and message of its error. */
const FAILURES: ReadonlyArray<readonly [name: string, Effect.Effect<unknown, unknown>, type: string, message: string]> = [
  ["a tagged error without a message", new NoFace({ image: "a.png", count: 2 }), "NoFace", `{"image":"a.png","count":2}`],
  [
    "a tagged error with a cause",
    new Refused({ by: "b", cause: new Error("full") }),
    "Refused",
    `{"by":"b"} (cause: Error: full)`
  ],
  ["a tagged error without fields", new Empty(), "Empty", ""],
  ["a tagged error with a message", new Spoken({ message: "No face.", code: 7 }), "Spoken", "No face."],
  ["a tagged object", Effect.fail({ _tag: "Plain", a: 1 }), "Plain", `{"a":1}`],
  ["a secret in a field", Effect.fail({ _tag: "Leak", key: Redacted.make("hunter2") }), "Leak", `{"key":"<redacted>"}`],
  ["a rejected promise", Effect.tryPromise(() => Promise.reject(new RangeError("too far"))), "RangeError", "too far"],
  ["a rejection with a text", Effect.tryPromise(rejectWithText), "string", "no reason"],
  ["a missing setting", environment({ BATCH: "1" }), "ConfigError", "MODEL_PATH: Expected string"],
  [
    "an invalid setting",
    environment({ MODEL_PATH: "m", BATCH: "x" }),
    "ConfigError",
    "BATCH: Expected a string representing a finite number"
  ]
]

describe("what a thrown value says", () => {
  it.each(FAILURES)("%s", async (_name, effect, type, message) => {
    const error = await Effect.runPromise(Effect.flip(effect))
    expect({ type: typeOf(error), message: messageOf(error) }).toEqual({ type, message })
    expect(traceback(error)).toContain(type === "string" ? message : message === "" ? type : `${type}: ${message}`)
  })

  it("is one sentence at start-up: the error's message, or its type and fields if it has none", () => {
    expect(sentence(new Error("The port is in use."))).toBe("The port is in use.")
    expect(sentence(new NoFace({ image: "a.png", count: 2 }))).toBe(`NoFace: {"image":"a.png","count":2}`)
    expect(sentence(new Empty())).toBe("Empty")
    expect(sentence("stopped")).toBe("stopped")
  })

  it("names the handler's own frames, and none of Effect's runtime, even in causes", async () => {
    const program = Effect.fn("program")(function*() {
      yield* Effect.sleep(0)
      return yield* new Refused({ by: "storage", cause: new Error("full") })
    })
    const failures: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
      program(),
      Effect.tryPromise(async () => JSON.parse("{")),
      Effect.suspend(() => Effect.die(new Error("bug")))
    ]
    for (const effect of failures) {
      const exit = await Effect.runPromise(Effect.exit(effect))
      const error = exit._tag === "Failure"
        ? exit.cause.reasons.flatMap((one) => "error" in one ? [one.error] : "defect" in one ? [one.defect] : [])[0]
        : undefined
      const trace = traceback(error)
      expect(trace).toContain("ThrownValue.test.ts")
      expect(trace).not.toMatch(/node_modules\/effect\/|~effect\/|FiberImpl/)
    }
  })

  it("keeps the frames of an error that has no others", () => {
    const error = new Error("inside")
    error.stack = "Error: inside\n    at FiberImpl.runLoop (/srv/node_modules/effect/dist/internal/effect.js:1:1)"
    expect(traceback(error)).toContain("FiberImpl.runLoop")
  })

  it("terminates when the causes form a cycle", () => {
    const error = new Refused({ by: "itself" })
    Object.defineProperty(error, "cause", { value: error })
    expect(messageOf(error).length).toBeLessThan(1_000)
    expect(traceback(error).length).toBeLessThan(20_000)
  })

  it("property: any value has a type, a message and a traceback", () => {
    fc.assert(fc.property(fc.anything(), fc.boolean(), (value, tagged) => {
      const thrown = tagged ? { _tag: "Any", value, cause: value } : value
      expect([typeOf(thrown), messageOf(thrown), traceback(thrown)].map((one) => typeof one)).toEqual([
        "string",
        "string",
        "string"
      ])
    }))
  })
})
