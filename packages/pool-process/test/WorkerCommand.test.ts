import { assert, describe, it } from "@effect/vitest"
import { defaultsFor } from "@stint/pool/LocalWorkerDefaults"
import * as Effect from "effect/Effect"
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as WorkerRecords from "../src/WorkerRecords.ts"
import { folder, fresh, line, script, start, withPool } from "./TestProcesses.ts"

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

describe("the volume of an endpoint", () => {
  const shared = join(folder, "shared")
  const namedVolumes = { shared: join(folder, "link"), file: join(folder, "file") }

  it.live("is a folder that the worker finds in both variables, and the endpoint's env overrides one", () =>
    withPool(
      Effect.gen(function*() {
        mkdirSync(shared)
        symlinkSync(shared, namedVolumes.shared)
        const mark = fresh("volume")
        const file = script(
          `console.log("${mark}", JSON.stringify([process.env.PLATFORM_VOLUME_PATH, process.env.RUNPOD_VOLUME_PATH]))`
        )
        yield* (yield* start({ type: "handler", file, volumes: [{ source: "shared" }] }, { RUNPOD_VOLUME_PATH: "/other" })).exit
        assert.deepStrictEqual(JSON.parse(yield* line(`${mark} `)), [shared, "/other"])
      }),
      { namedVolumes }
    ))

  it.live("is the reason for a failed start when its name, its folder or the whole setting is missing", () =>
    Effect.gen(function*() {
      rmSync(shared, { recursive: true, force: true })
      writeFileSync(namedVolumes.file, "")
      const reason = (source: string, named?: Record<string, string>) =>
        withPool(
          Effect.map(
            Effect.flip(start({ type: "command", command: ["true"], volumes: [{ source }] })),
            ({ message }) => message
          ),
          named === undefined ? {} : { namedVolumes: named }
        )
      const hint = "Create or mount it, or correct STINT_VOLUMES and restart the platform."
      assert.strictEqual(
        yield* reason("shared", namedVolumes),
        `The volume "shared" cannot be used: its folder ${namedVolumes.shared} does not exist. ${hint}`
      )
      assert.strictEqual(
        yield* reason("file", namedVolumes),
        `The volume "file" cannot be used: ${namedVolumes.file} is not a folder. ${hint}`
      )
      assert.match(
        yield* reason("constructor", namedVolumes),
        /"constructor" .+ this platform has only "shared", "file"\. Add it to STINT_VOLUMES/
      )
      assert.match(yield* reason("shared"), /this platform has no volumes\. Add it to STINT_VOLUMES and restart the platform/)
    }))
})

describe("the GPUs of a worker", () => {
  it.live("are those that were assigned to it, numbered as the driver numbers them, whatever the endpoint's variables say", () =>
    withPool(Effect.gen(function*() {
      const names = ["CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"]
      const seen = Effect.fnUntraced(function*(env: Record<string, string>, gpuIds?: ReadonlyArray<string>) {
        const mark = fresh("gpus")
        const file = script(
          `console.log("${mark}", JSON.stringify(${JSON.stringify(names)}.map((name) => process.env[name] ?? null)))`
        )
        yield* (yield* start({ type: "handler", file, gpus: 2 }, env, { gpuIds })).exit
        return yield* line(`${mark} `)
      })
      assert.strictEqual(yield* seen({ CUDA_VISIBLE_DEVICES: "7" }, ["1", "GPU-3"]), `["PCI_BUS_ID","1,GPU-3"]`)
      assert.strictEqual(yield* seen({ CUDA_VISIBLE_DEVICES: "7" }), `[null,"7"]`)
    })))

  it.live("are recorded with its limits, so that the next platform does not assign them again", () =>
    withPool(Effect.gen(function*() {
      const file = script("setInterval(() => {}, 1000)")
      const { id } = yield* start({ type: "handler", file, gpus: 1, cpus: 0.5 }, {}, { gpuIds: ["1"] })
      const records = yield* WorkerRecords.make(join(folder, "data"))
      const found = records.list().find(({ worker }) => worker === id)
      assert.deepInclude(found, { gpuIds: ["1"], reserved: { gpus: 1, cpus: 0.5, memoryBytes: 0 } })
    })))
})
