import { assert, describe, it } from "@effect/vitest"
import { defaultsFor } from "@stint/pool/LocalWorkerDefaults"
import * as Effect from "effect/Effect"
import { fresh, line, script, start, withPool } from "./TestProcesses.ts"

const MEMORY = { PLATFORM_MIN_MEMORY_GB: "0.1", RUNPOD_MIN_MEMORY_GB: "0.1" }
const LIMIT = { PLATFORM_UNREACHABLE_LIMIT: "3600000", RUNPOD_UNREACHABLE_LIMIT: "3600000" }
const DISK = { PLATFORM_MIN_DISK_PERCENT: "1", RUNPOD_MIN_DISK_PERCENT: "1" }

describe("default thresholds of a worker's fitness checks (docs/decisions/0006)", () => {
  it.each([
    [{}, { ...MEMORY, ...DISK, ...LIMIT }],
    [{ PATH: "/bin", PLATFORM_MIN_CUDA_VERSION: "12" }, { ...MEMORY, ...DISK, ...LIMIT }],
    [{ PLATFORM_MIN_MEMORY_GB: "8" }, { ...DISK, ...LIMIT }],
    [{ RUNPOD_MIN_MEMORY_GB: "8" }, { ...DISK, ...LIMIT }],
    [{ RUNPOD_MIN_DISK_PERCENT: "20", PLATFORM_MIN_DISK_PERCENT: "30" }, { ...MEMORY, ...LIMIT }],
    [{ RUNPOD_MIN_DISK_PERCENT: "20", PLATFORM_MIN_MEMORY_GB: "0" }, LIMIT],
    [{ RUNPOD_UNREACHABLE_LIMIT: "60000" }, { ...MEMORY, ...DISK }],
    [{ RUNPOD_MIN_DISK_PERCENT: " ", PLATFORM_MIN_MEMORY_GB: "" }, { ...MEMORY, ...DISK, ...LIMIT }]
  ])(
    "are low, like the unreachable limit, unless set under either prefix: %j",
    (environment, expected) => assert.deepStrictEqual(defaultsFor(environment), expected)
  )

  it.live("are passed to a worker, and the variables of the endpoint or the platform override them", () =>
    withPool(Effect.gen(function*() {
      const names = [...Object.keys(MEMORY), ...Object.keys(DISK)]
      const seen = Effect.fnUntraced(function*(env: Record<string, string>) {
        const mark = fresh("thresholds")
        const file = script(
          `console.log("${mark}", JSON.stringify(${JSON.stringify(names)}.map((name) => process.env[name] ?? null)))`
        )
        yield* (yield* start({ type: "handler", file }, env)).exit
        return yield* line(`${mark} `)
      })
      assert.strictEqual(yield* seen({}), `["0.1","0.1","1","1"]`)
      assert.strictEqual(yield* seen({ RUNPOD_MIN_MEMORY_GB: "16" }), `[null,"16","1","1"]`)
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          process.env["RUNPOD_MIN_DISK_PERCENT"] = "5"
        }),
        () => Effect.sync(() => delete process.env["RUNPOD_MIN_DISK_PERCENT"])
      )
      assert.strictEqual(yield* seen({}), `["0.1","0.1",null,"5"]`)
      assert.strictEqual(yield* seen({ PLATFORM_MIN_DISK_PERCENT: "7" }), `["0.1","0.1","7","5"]`)
    })))
})
