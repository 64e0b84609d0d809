import { describe, expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FitnessConfig from "../src/FitnessConfig.ts"

const read = (env: { readonly [name: string]: string }) =>
  Effect.provideService(FitnessConfig.settings, ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))

// docs/spec/fitness-checks.md#variables
describe("the variables of the checks", () => {
  it.effect("have documented defaults", () =>
    Effect.gen(function*() {
      expect(yield* read({})).toEqual({
        minimumMemoryGb: { value: 4, name: "PLATFORM_MIN_MEMORY_GB" },
        minimumDiskPercent: { value: 10, name: "PLATFORM_MIN_DISK_PERCENT" },
        minimumCudaVersion: { value: "11.8", name: "PLATFORM_MIN_CUDA_VERSION" },
        skipGpu: false,
        skipAll: undefined,
        networkLimit: { value: 5, name: "PLATFORM_NETWORK_CHECK_TIMEOUT" },
        gpuLimit: { value: 30, name: "PLATFORM_GPU_TEST_TIMEOUT" },
        benchmarkLimit: { value: 2, name: "PLATFORM_GPU_BENCHMARK_TIMEOUT" },
        testCommand: undefined,
        path: "",
        gpuHidden: false
      })
    }))

  it.effect("use the prefix PLATFORM_ or, when unset or blank, RUNPOD_", () =>
    Effect.gen(function*() {
      const { minimumCudaVersion, minimumDiskPercent, minimumMemoryGb } = yield* read({
        PLATFORM_MIN_MEMORY_GB: " 8.5 ",
        RUNPOD_MIN_MEMORY_GB: "1",
        PLATFORM_MIN_DISK_PERCENT: " ",
        RUNPOD_MIN_DISK_PERCENT: ".5",
        RUNPOD_MIN_CUDA_VERSION: "12"
      })
      expect(minimumMemoryGb).toEqual({ value: 8.5, name: "PLATFORM_MIN_MEMORY_GB" })
      expect(minimumDiskPercent).toEqual({ value: 0.5, name: "RUNPOD_MIN_DISK_PERCENT" })
      expect(minimumCudaVersion).toEqual({ value: "12", name: "RUNPOD_MIN_CUDA_VERSION" })
    }))

  it.effect.each(
    [["true", true], ["TRUE", true], ["1", true], ["yes", true], ["on", true], ["false", false], ["0", false], [
      "No",
      false
    ]] as const
  )("parse the switch value %s as %s", ([text, expected]) =>
    Effect.gen(function*() {
      const { skipAll, skipGpu } = yield* read({ RUNPOD_SKIP_AUTO_SYSTEM_CHECKS: text, PLATFORM_SKIP_GPU_CHECK: text })
      expect(skipAll).toBe(expected ? "RUNPOD_SKIP_AUTO_SYSTEM_CHECKS" : undefined)
      expect(skipGpu).toBe(expected)
    }))

  it.effect.each(
    [
      ["PLATFORM_MIN_MEMORY_GB", "4GB", "a number of gigabytes without a unit, 0 or more, such as 4.0"],
      ["PLATFORM_MIN_MEMORY_GB", "-1", "a number of gigabytes without a unit, 0 or more, such as 4.0"],
      ["RUNPOD_MIN_MEMORY_GB", "0x10", "a number of gigabytes without a unit, 0 or more, such as 4.0"],
      ["RUNPOD_MIN_DISK_PERCENT", "10%", "a percentage from 0 to 100 without a sign, such as 10.0"],
      ["PLATFORM_MIN_DISK_PERCENT", "101", "a percentage from 0 to 100 without a sign, such as 10.0"],
      ["PLATFORM_MIN_CUDA_VERSION", "v12", "a version such as 11.8"],
      ["PLATFORM_SKIP_GPU_CHECK", "maybe", "true or false (or 1 or 0, yes or no, on or off)"],
      ["PLATFORM_SKIP_AUTO_SYSTEM_CHECKS", "2", "true or false (or 1 or 0, yes or no, on or off)"],
      ["PLATFORM_NETWORK_CHECK_TIMEOUT", "0", "a number of seconds without a unit, more than 0 and at most 60, such as 5"],
      ["PLATFORM_GPU_TEST_TIMEOUT", "5m", "a number of seconds without a unit, more than 0 and at most 60, such as 5"],
      ["PLATFORM_GPU_BENCHMARK_TIMEOUT", "61", "a number of seconds without a unit, more than 0 and at most 60, such as 5"]
    ] as const
  )(
    "%s: %s prevents the start, with the name, the value and the expected format",
    ([variable, value, expectedFormat]) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(read({ [variable]: value, PLATFORM_SKIP_AUTO_SYSTEM_CHECKS: "true", [variable]: value }))
        expect(error).toMatchObject({
          _tag: "WorkerConfigError",
          message: `${variable} is ${JSON.stringify(value)}; it must be ${expectedFormat}.`
        })
      })
  )

  it.effect("split a test command into a program and its arguments", () =>
    Effect.gen(function*() {
      const { testCommand } = yield* read({ PLATFORM_GPU_TEST_COMMAND: " /opt/gpu-burn  --seconds 5 " })
      expect(testCommand).toEqual({ value: ["/opt/gpu-burn", "--seconds", "5"], name: "PLATFORM_GPU_TEST_COMMAND" })
    }))

  it.effect.each([["-1", true], ["none", true], ["0", false], ["GPU-1234", false]] as const)(
    "CUDA_VISIBLE_DEVICES=\"%s\" hides the GPUs: %s",
    ([devices, expected]) =>
      Effect.gen(function*() {
        expect((yield* read({ CUDA_VISIBLE_DEVICES: devices })).gpuHidden).toBe(expected)
      })
  )

  it.effect("treat an empty CUDA_VISIBLE_DEVICES as hidden GPUs", () =>
    Effect.gen(function*() {
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          process.env["CUDA_VISIBLE_DEVICES"] = ""
        }),
        () => Effect.sync(() => delete process.env["CUDA_VISIBLE_DEVICES"])
      )
      expect((yield* read({})).gpuHidden).toBe(true)
    }))
})
