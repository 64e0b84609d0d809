import { describe, expect, it } from "@effect/vitest"
import { LogMemory } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import { join } from "node:path"
import * as CudaVersionCheck from "../src/CudaVersionCheck.ts"
import * as GpuHealthCheck from "../src/GpuHealthCheck.ts"
import * as GpuTestCheck from "../src/GpuTestCheck.ts"
import * as NvidiaSmi from "../src/NvidiaSmi.ts"
import { program, reason, temporaryFolder } from "./CheckHarness.ts"

const folder = temporaryFolder()

/** An nvidia-smi that prints this text. */
const smi = (name: string, text: string, end = "exit 0") => program(folder, name, `cat <<'END'\n${text}\nEND\n${end}`)

const header = (versions: string) =>
  `Wed Oct  1 10:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI ${versions} |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
+-----------------------------------------------------------------------------------------+`

describe("the CUDA version of nvidia-smi", () => {
  it.each([
    ["580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0    ", "13.0"],
    ["610.43.02              KMD Version: 610.43.02     CUDA UMD Version: 13.3    ", "13.3"],
    ["418.87.01    Driver Version: 418.87.01    CUDA Version: 10.1     ", "10.1"],
    ["535.54.03    Driver Version: 535.54.03    CUDA Version: N/A      ", "N/A"],
    ["384.111                Driver Version: 384.111                   ", undefined]
  ])("%s: %s", (line, expected) => expect(NvidiaSmi.cudaVersion(header(line))).toBe(expected))

  it.each([["11.8", "11.8", 0], ["11.10", "11.8", 1], ["9.2", "11.8", -1], ["12", "12.0", 0], ["12.0.1", "12", 1]])(
    "compares %s with %s as %s",
    (one, other, expected) => expect(NvidiaSmi.compareVersions(one, other)).toBe(expected)
  )

  it("compares versions number by number", () => {
    const version = fc.array(fc.nat(30), { minLength: 1, maxLength: 4 })
    fc.assert(fc.property(version, version, (one, other) => {
      const order = NvidiaSmi.compareVersions(one.join("."), other.join("."))
      expect(NvidiaSmi.compareVersions(other.join("."), one.join("."))).toBe(order === 0 ? 0 : -order)
      const at = [0, 1, 2, 3].find((index) => (one[index] ?? 0) !== (other[index] ?? 0))
      expect(order).toBe(at === undefined ? 0 : Math.sign((one[at] ?? 0) - (other[at] ?? 0)))
    }))
  })
})

// docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks
describe("the check \"cuda_version\"", () => {
  const offering = (version: string) =>
    smi(`smi-${version.replace("/", "")}`, header(`1    Driver Version: 1    CUDA Version: ${version}   `))
  const check = (nvidiaSmi: string, minimum = "11.8") =>
    reason(CudaVersionCheck.check({ nvidiaSmi, minimum, limit: 10, setting: "PLATFORM_MIN_CUDA_VERSION" }))

  it.live("passes when the driver's version is high enough, compared number by number", () =>
    Effect.gen(function*() {
      expect(yield* check(offering("11.8"))).toBeUndefined()
      expect(yield* check(offering("11.10"))).toBeUndefined()
      expect(yield* check(offering("13.0"))).toBeUndefined()
    }))

  it.live("fails when the driver's version is too low, and names the remedy", () =>
    Effect.gen(function*() {
      expect(yield* check(offering("9.2")))
        .toBe("the GPU driver supports CUDA 9.2, but 11.8 is required (PLATFORM_MIN_CUDA_VERSION); update the driver")
      expect(yield* check(offering("N/A")))
        .toMatch(/^the GPU driver supports no CUDA, but 11\.8 is required.*NVIDIA_DRIVER_CAPABILITIES with "compute"$/)
    }))

  it.live("passes with a warning when the version cannot be read", () => {
    const log = LogMemory.make()
    return Effect.gen(function*() {
      expect(yield* check(smi("unknown", "NVIDIA-SMI of a later time"))).toBeUndefined()
      expect(log.lines).toMatchObject([{ level: "WARN", message: expect.stringContaining("cannot be read") }])
    }).pipe(Effect.provide(log.layer))
  })

  it.live("fails with the output of nvidia-smi when it fails", () =>
    Effect.gen(function*() {
      const failing = smi("failing", "\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "exit 9")
      expect(yield* check(failing))
        .toBe(`${failing} ended with exit code 9: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.`)
    }))

  it.live("fails when nvidia-smi hangs", () =>
    Effect.gen(function*() {
      const hanging = program(folder, "hanging", "exec sleep 600")
      expect(yield* reason(CudaVersionCheck.check({ nvidiaSmi: hanging, minimum: "11.8", limit: 0.5 })))
        .toBe(`${hanging} did not end within 0.5 s`)
    }))
})

// docs/spec/fitness-checks.md#automatic-checks
describe("the check \"gpu_health\"", () => {
  it.live.each<[string, string, string | undefined]>([
    ["healthy GPUs", "0, NVIDIA H200, 143771, 31, 0\n1, NVIDIA H200, 143771, 30, 0", undefined],
    ["a GPU without an error count", "0, NVIDIA GeForce RTX 4090, 24564, 45, [N/A]", undefined],
    ["values that a container cannot read", "0, NVIDIA A100, [Insufficient Permissions], [N/A], 0", undefined],
    ["a warning after the rows", "0, Tesla T4, 15360, 40, 0\nWARNING: infoROM is corrupted at gpu 0000:00:1E.0", undefined],
    [
      "memory errors",
      "0, NVIDIA A100, 40960, 31, 0\n1, NVIDIA A100, 40960, 31, 3",
      "GPU 1 (NVIDIA A100) has 3 uncorrectable memory errors since its driver was loaded"
    ],
    ["a value that is an error", "0, NVIDIA A100, 40960, ERR!, 0", "GPU 0 does not answer: its temperature is \"ERR!\""],
    [
      "a value that is unknown",
      "0, NVIDIA A100, [Unknown Error], 31, 0",
      "GPU 0 does not answer: its memory is \"[Unknown Error]\""
    ],
    [
      "two lost GPUs",
      "0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]\n1, NVIDIA A100, 40960, 31, [GPU requires reset]",
      "GPU 0 does not answer: its name is \"[GPU is lost]\"; GPU 1 does not answer: its memory error count is \"[GPU requires reset]\""
    ],
    ["a GPU without memory", "0, NVIDIA A100, 0, 31, 0", "GPU 0 (NVIDIA A100) has no memory"],
    [
      "a GPU without a row",
      "0, NVIDIA A100, 40960, 31, 0\nUnable to determine the device handle for GPU0000:3F:00.0: Unknown Error",
      "Unable to determine the device handle for GPU0000:3F:00.0: Unknown Error"
    ],
    ["no GPU, with a message", "No devices were found", "nvidia-smi lists no GPU: No devices were found"],
    ["no GPU, with empty output", "", "nvidia-smi lists no GPU"]
  ])("%s", ([name, rows, expected]) =>
    Effect.gen(function*() {
      const nvidiaSmi = smi(`health-${name.replaceAll(/\W/g, "-")}`, rows)
      expect(yield* reason(GpuHealthCheck.check({ nvidiaSmi, limit: 10 }))).toBe(expected)
    }))

  it.live("queries the columns that it parses", () =>
    Effect.gen(function*() {
      const echo = program(folder, "echo-args", "echo \"$@\"; exit 2")
      expect(yield* reason(GpuHealthCheck.check({ nvidiaSmi: echo, limit: 10 }))).toBe(
        `${echo} ended with exit code 2: --query-gpu=index,name,memory.total,temperature.gpu,` +
          "ecc.errors.uncorrected.volatile.total --format=csv,noheader,nounits"
      )
    }))

  it.live("fails when nvidia-smi does not exist", () =>
    Effect.gen(function*() {
      const missing = join(folder, "missing")
      expect(yield* reason(GpuHealthCheck.check({ nvidiaSmi: missing }))).toBe(`${missing} cannot be started (ENOENT)`)
    }))
})

// docs/spec/fitness-checks.md#automatic-checks
describe("the check \"gpu_test\"", () => {
  const setting = "PLATFORM_GPU_TEST_COMMAND"

  it.live("passes its arguments to the user's program, and passes when it exits with 0", () =>
    Effect.gen(function*() {
      const picky = program(folder, "picky", "[ \"$#\" = 2 ] && [ \"$2\" = '*' ]")
      expect(yield* reason(GpuTestCheck.check({ command: [picky, "--all", "*"], setting }))).toBeUndefined()
      expect(yield* reason(GpuTestCheck.check({ command: [picky], setting })))
        .toBe(`${picky} ended with exit code 1 (${setting})`)
    }))

  it.live("fails with the last line of the program's output", () =>
    Effect.gen(function*() {
      const burn = program(folder, "burn", "echo 'GPU 0: ok'; echo 'GPU 1: 7 errors'; exit 1")
      expect(yield* reason(GpuTestCheck.check({ command: [burn] }))).toBe(`${burn} ended with exit code 1: GPU 1: 7 errors`)
    }))

  it.live("fails when the program hangs or does not exist", () =>
    Effect.gen(function*() {
      const hanging = program(folder, "hanging-test", "exec sleep 600")
      expect(yield* reason(GpuTestCheck.check({ command: [hanging], limit: 0.5, setting })))
        .toBe(`${hanging} did not end within 0.5 s (${setting})`)
      expect(yield* reason(GpuTestCheck.check({ command: ["/no/such/test"], setting })))
        .toBe(`/no/such/test cannot be started (ENOENT) (${setting})`)
    }))
})
