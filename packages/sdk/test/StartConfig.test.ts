import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import * as Redacted from "effect/Redacted"
import * as fc from "fast-check"
import * as sdk from "../src/index.ts"
import { problemOf } from "../src/StartConfig.ts"

// docs/spec/handler.md#start-configuration
describe("the config", () => {
  it.each<[string, unknown]>([
    ["a function", { handler: () => 1 }],
    ["a Handler", { handler: Handler.fromFunction(() => 1) }],
    ["every key", {
      handler: () => 1,
      return_aggregate_stream: true,
      setup: () => undefined,
      setup_timeout: 60_000,
      concurrency_modifier: () => 2,
      refresh_worker: false,
      jobs_fetcher: () => [],
      jobs_handler: () => 1
    }],
    ["several jobs at once", { handler: () => [], batch: { max: 8, wait: 20 } }],
    ["an optional key with the value undefined", { handler: () => 1, refresh_worker: undefined }]
  ])("accepts %s", (_name, config) => {
    expect(problemOf(config)).toBeUndefined()
  })

  it.each<[string, unknown, RegExp]>([
    ["nothing", undefined, /needs an object with a handler/],
    ["a function instead of an object", () => 1, /needs an object with a handler/],
    ["no handler", {}, /needs a function or a Handler.*"handler", not undefined/],
    ["a handler that is not a function", { handler: "hello" }, /"handler", not string/],
    [
      "a misspelt key",
      { handler: () => 1, returnAggregateStream: true },
      /does not know "returnAggregateStream".*Did you mean "return_aggregate_stream"/
    ],
    ["an unknown key", { handler: () => 1, timeout: 5 }, /does not know "timeout"\. It knows handler, /],
    ["a number instead of a function", { handler: () => 1, concurrency_modifier: 5 }, /"concurrency_modifier", not number/],
    [
      "a batch without a size",
      { handler: () => [], batch: {} },
      /batch\.max must be a whole number from 1 to 1000, not undefined/
    ],
    ["a misspelt key of a batch", { handler: () => [], batch: { max: 2, size: 2 } }, /does not know "batch\.size"/],
    [
      "chunks of a batch",
      { handler: () => [], batch: { max: 2 }, return_aggregate_stream: true },
      /does not support return_aggregate_stream with batch/
    ],
    ["a setup that is not a function", { handler: () => 1, setup: "model" }, /a function under "setup", not string/],
    [
      "a setup without time",
      { handler: () => 1, setup: () => 1, setup_timeout: 0 },
      /from 1 to 86400000 under "setup_timeout", not 0/
    ],
    ["a limit without a setup", { handler: () => 1, setup_timeout: 60_000 }, /a function under "setup" with setup_timeout/],
    [
      "a string instead of a boolean",
      { handler: () => 1, refresh_worker: "yes" },
      /true or false under "refresh_worker", not string/
    ]
  ])("reports %s", (_name, config, expected) => {
    expect(problemOf(config)).toMatch(expected)
  })

  it("start throws a TypeError for an invalid config", () => {
    // @ts-expect-error TypeScript also rejects it
    expect(() => sdk.serverless.start({ handler: () => 1, hander: () => 2 })).toThrow(/Did you mean "handler"/)
  })

  it("the annotation of a handler types its input, and an unannotated input is any", () => {
    const configs = [
      (): void => sdk.serverless.start({ handler: async (job: { input: { name: string } }) => job.input.name }),
      (): void => sdk.serverless.start({ handler: (job) => job.input.anything }),
      (): void =>
        sdk.serverless.start({
          handler: async function*(job) {
            for (let n = job.input.from; n > 0; n--) yield n
          }
        }),
      (): void =>
        sdk.serverless.start({
          handler: (job: sdk.serverless.Job<{ n: number }>, { signal }: sdk.serverless.Context) => [job.id, job.input.n, signal]
        }),
      // @ts-expect-error the input has no such key
      (): void => sdk.serverless.start({ handler: async (job: { input: { name: string } }) => job.input.nome })
    ]
    expect(configs).toHaveLength(5)
  })
})

// docs/spec/handler.md#secrets-in-logs
describe("log.secret", () => {
  it.each([
    ["abcdef", "a****f"],
    ["abc", "a*c"],
    ["ab", "ab"],
    ["a", "aa"],
    ["", ""],
    [12_345, "1***5"],
    [null, "n**l"],
    [undefined, "u*******d"],
    [{ key: "abc" }, "{***********}"]
  ])("masks %j as %j", (value, masked) => {
    expect(sdk.log.mask(value)).toBe(masked)
  })

  it("property: shows the first and last character and the length of a longer value", () => {
    fc.assert(fc.property(fc.string({ minLength: 3 }), (value) => {
      expect(sdk.log.mask(value)).toBe(`${value[0]}${"*".repeat(value.length - 2)}${value.at(-1)}`)
    }))
  })

  it("property: hides a Redacted value and its length", () => {
    fc.assert(fc.property(fc.string(), (value) => {
      expect(sdk.log.mask(Redacted.make(value))).toBe("********")
    }))
  })
})
