import { describe, expect, it } from "@effect/vitest"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import { Fitness, SystemFiles } from "@stint/worker-fitness"
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import { LogMemory, PlatformStub } from "@stint/worker/testing"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { program, temporaryFolder } from "./CheckHarness.ts"

const platform = (baseUrl: string) => workerEnvironment({ baseUrl, endpoint: "stub", key: "key", pingIntervalMs: 10_000 })
const PLATFORM = platform("http://127.0.0.1:1")

/** The files of a small machine, on which every memory check fails. */
const small: SystemFiles = (path) => path === "/proc/meminfo" ? "MemTotal: 1024 kB\nMemAvailable: 512 kB\n" : undefined

/** The checks for these variables, and the log. This process's own environment has no effect. */
const checksOf = Effect.fnUntraced(function*(env: { readonly [name: string]: string }) {
  const log = LogMemory.make()
  const checks = yield* FitnessChecks.FitnessChecks.use(({ all }) => all).pipe(
    Effect.provide(
      Fitness.layer.pipe(
        Layer.provideMerge(FitnessChecks.layer),
        Layer.provide(Layer.effect(WorkerConfig.WorkerConfig, WorkerConfig.read(env, []))),
        Layer.provide(log.layer),
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
      )
    )
  )
  const run = (name: string) =>
    Effect.flip(checks.find((check) => check.name === name)?.run ?? Effect.die(`no check ${name}`)).pipe(
      Effect.map((error) => error instanceof Error ? error.message : String(error))
    )
  return { names: checks.map(({ name }) => name), log: log.lines.map(({ message }) => message), run }
})

const namesOf = (env: { readonly [name: string]: string }) => Effect.map(checksOf(env), ({ names }) => names)

const ALWAYS = ["memory", "disk", "network"]
const GPU = ["gpu_health", "cuda_version", "cuda_init", "gpu_benchmark"]

/** A folder with an nvidia-smi that prints its arguments and fails. */
const temporaryEmpty = temporaryFolder()
const withGpu = temporaryFolder()
program(withGpu, "nvidia-smi", "echo asked; exit 9")

// docs/spec/fitness-checks.md#automatic-checks
describe("the automatic checks", () => {
  it.effect("are memory, disk and network, in this order, without an nvidia-smi", () =>
    Effect.gen(function*() {
      expect(yield* namesOf(PLATFORM)).toEqual(ALWAYS)
      expect(yield* namesOf({ ...PLATFORM, PATH: temporaryEmpty })).toEqual(ALWAYS)
    }))

  it.effect("end with the GPU group when the PATH has an nvidia-smi", () =>
    Effect.gen(function*() {
      expect(yield* namesOf({ ...PLATFORM, PATH: `${temporaryEmpty}:${withGpu}` })).toEqual([...ALWAYS, ...GPU])
    }))

  it.effect("end with gpu_test when its command is set", () =>
    Effect.gen(function*() {
      const env = { ...PLATFORM, RUNPOD_GPU_TEST_COMMAND: "/no/such/test" }
      expect(yield* namesOf({ ...env, PATH: withGpu })).toEqual([...ALWAYS, ...GPU, "gpu_test"])
      expect(yield* namesOf(env)).toEqual(ALWAYS)
    }))

  it.effect.each(["PLATFORM_SKIP_GPU_CHECK", "RUNPOD_SKIP_GPU_CHECK"])(
    "have no GPU group when %s is set",
    (name) =>
      Effect.gen(function*() {
        expect(yield* namesOf({ ...PLATFORM, PATH: withGpu, [name]: "true" })).toEqual(ALWAYS)
        expect(yield* namesOf({ ...PLATFORM, PATH: withGpu, [name]: "false" })).toEqual([...ALWAYS, ...GPU])
      })
  )

  it.effect("have no GPU group when the GPUs are hidden from the worker", () =>
    Effect.gen(function*() {
      expect(yield* namesOf({ ...PLATFORM, PATH: withGpu, CUDA_VISIBLE_DEVICES: "-1" })).toEqual(ALWAYS)
    }))

  it.effect.each(["PLATFORM_SKIP_AUTO_SYSTEM_CHECKS", "RUNPOD_SKIP_AUTO_SYSTEM_CHECKS"])(
    "are skipped with a log line when %s is set",
    (name) =>
      Effect.gen(function*() {
        const { log, names } = yield* checksOf({ ...PLATFORM, PATH: withGpu, [name]: "1" })
        expect(names).toEqual([])
        expect(log).toEqual([`No automatic fitness checks: ${name} is set.`])
      })
  )

  it.effect("do not affect a worker's own checks when they are skipped", () =>
    Effect.gen(function*() {
      const env = { ...PLATFORM, PLATFORM_SKIP_AUTO_SYSTEM_CHECKS: "true" }
      const checks = yield* FitnessChecks.FitnessChecks.use(({ all }) => all).pipe(
        Effect.provide(
          Layer.merge(FitnessChecks.layerOf("own", Effect.void), Fitness.layer).pipe(
            Layer.provideMerge(FitnessChecks.layer),
            Layer.provide(Layer.effect(WorkerConfig.WorkerConfig, WorkerConfig.read(env, []))),
            Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env })))
          )
        )
      )
      expect(checks.map(({ name }) => name)).toEqual(["own"])
    }))

  it.effect("are skipped in local test mode", () =>
    Effect.gen(function*() {
      expect(yield* namesOf({ PATH: withGpu })).toEqual([])
    }))

  it.effect("prevent the start when a variable is invalid, even in local test mode", () =>
    Effect.gen(function*() {
      for (const env of [PLATFORM, {}]) {
        const error = yield* Effect.flip(checksOf({ ...env, PLATFORM_MIN_MEMORY_GB: "lots" }))
        expect(error).toMatchObject({ _tag: "WorkerConfigError", variable: "PLATFORM_MIN_MEMORY_GB" })
      }
    }))
})

// docs/spec/fitness-checks.md#variables
describe("the variables of the checks", () => {
  const env = {
    ...PLATFORM,
    PATH: withGpu,
    RUNPOD_MIN_MEMORY_GB: "2",
    PLATFORM_MIN_DISK_PERCENT: "100",
    RUNPOD_NETWORK_CHECK_TIMEOUT: "0.3"
  }

  it.live("set the thresholds and are named in the reasons", () =>
    Effect.gen(function*() {
      const { run } = yield* checksOf(env)
      expect(yield* run("memory")).toMatch(/^0\.00 GB of memory is available, but 2 GB is required \(RUNPOD_MIN_MEMORY_GB\)/)
      expect(yield* run("disk")).toContain("100 % is required (PLATFORM_MIN_DISK_PERCENT)")
      expect(yield* run("network")).toMatch(/at 127\.0\.0\.1:1 within 0\.3 s \(RUNPOD_NETWORK_CHECK_TIMEOUT\): ECONNREFUSED$/)
      expect(yield* run("cuda_version")).toBe(`${withGpu}/nvidia-smi ended with exit code 9: asked`)
    }).pipe(Effect.provideService(SystemFiles, small)))

  it.live("do not affect the network check, which uses the platform's address", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      for (const url of [stub.url, stub.url.replace("127.0.0.1", "localhost")]) {
        const { names, run } = yield* checksOf(platform(url))
        expect(names).toContain("network")
        expect(yield* Effect.flip(run("network"))).toBeUndefined()
      }
      const { run } = yield* checksOf({ ...platform("https://[::1]"), PLATFORM_NETWORK_CHECK_TIMEOUT: "0.1" })
      expect(yield* run("network")).toContain("no connection to the platform at ::1:443 within 0.1 s")
    }))
})
