/**
 * The variables of the automatic checks (docs/spec/fitness-checks.md#variables), each with the prefix `PLATFORM_` or, when that is unset or
 * blank, `RUNPOD_`.
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `MIN_MEMORY_GB` | 4.0 | gigabytes of memory that must be available |
 * | `MIN_DISK_PERCENT` | 10.0 | share of the disk that must be free |
 * | `MIN_CUDA_VERSION` | 11.8 | the CUDA version that the GPU driver must support |
 * | `SKIP_GPU_CHECK` | no | skips the GPU checks |
 * | `SKIP_AUTO_SYSTEM_CHECKS` | no | skips all automatic checks; the user's own checks run |
 * | `NETWORK_CHECK_TIMEOUT` | 5 | seconds in which the platform must be reached |
 * | `GPU_TEST_TIMEOUT` | 30 | time limit of each program that checks the GPU, in seconds |
 * | `GPU_BENCHMARK_TIMEOUT` | 2 | time limit of the compute benchmark, in seconds |
 * | `GPU_TEST_COMMAND` | none | the user's program that tests the GPU; exit code 0 means healthy |
 *
 * RunPod's SDK has the same variables, except `GPU_TEST_COMMAND`, which only Stint has. In addition, `PATH` is searched for
 * `nvidia-smi`, and `CUDA_VISIBLE_DEVICES` shows whether the GPUs are hidden from this worker on purpose.
 */
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"
import { WorkerConfigError } from "@stint/worker/WorkerConfig"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"

/** A value, and the variable that set it or can set it. */
export interface Setting<A> {
  readonly value: A
  readonly name: string
}

/** The parsed variables. */
export interface Settings {
  readonly minimumMemoryGb: Setting<number>
  readonly minimumDiskPercent: Setting<number>
  readonly minimumCudaVersion: Setting<string>
  readonly skipGpu: boolean
  /** The variable that turns all automatic checks off, if it is set. */
  readonly skipAll: string | undefined
  /** Seconds. */
  readonly networkLimit: Setting<number>
  /** Seconds. */
  readonly gpuLimit: Setting<number>
  /** Seconds. */
  readonly benchmarkLimit: Setting<number>
  /** A program and its arguments. */
  readonly testCommand: Setting<readonly [string, ...Array<string>]> | undefined
  readonly path: string
  /** Whether `CUDA_VISIBLE_DEVICES` names no device. */
  readonly gpuHidden: boolean
}

/** A format for values: its description, and a parser that returns undefined for invalid text. */
interface ValueFormat<A> {
  readonly expected: string
  readonly read: (text: string) => A | undefined
}

/** The maximum for every time limit, because the worker aborts any check after this time. Seconds. */
const MAX_TIMEOUT_SECONDS = 60

const DECIMAL = /^(\d+\.?\d*|\.\d+)$/

const number = (expected: string, isValid: (value: number) => boolean = () => true): ValueFormat<number> => ({
  expected,
  read: (text) => DECIMAL.test(text) && isValid(Number(text)) ? Number(text) : undefined
})

const gigabytes = number("a number of gigabytes without a unit, 0 or more, such as 4.0")
const percent = number("a percentage from 0 to 100 without a sign, such as 10.0", (value) => value <= 100)
const seconds = number(
  `a number of seconds without a unit, more than 0 and at most ${MAX_TIMEOUT_SECONDS}, such as 5`,
  (value) => value > 0 && value <= MAX_TIMEOUT_SECONDS
)
const version: ValueFormat<string> = {
  expected: "a version such as 11.8",
  read: (text) => /^\d+(\.\d+)*$/.test(text) ? text : undefined
}
const flag: ValueFormat<boolean> = {
  expected: "true or false (or 1 or 0, yes or no, on or off)",
  read: (text) => {
    const word = text.toLowerCase()
    if (["true", "1", "yes", "y", "on"].includes(word)) return true
    return ["false", "0", "no", "n", "off"].includes(word) ? false : undefined
  }
}
const command: ValueFormat<readonly [string, ...Array<string>]> = {
  expected: "a program and its arguments",
  read: (text) => {
    const [program, ...args] = text.split(/\s+/)
    return program === undefined ? undefined : [program, ...args]
  }
}

const textOf = Effect.fnUntraced(function*(name: string) {
  return Option.getOrUndefined(yield* Config.option(Config.String(name)))
})

/** The value of the first variable that is set and not blank, in the order of the prefixes. */
const find = Effect.fnUntraced(function*<A>(name: string, { read, expected }: ValueFormat<A>) {
  for (const prefix of ENV_PREFIXES) {
    const variable = prefix + name
    const text = (yield* textOf(variable))?.trim()
    if (text === undefined || text === "") continue
    const value = read(text)
    if (value !== undefined) return { value, name: variable }
    return yield* new WorkerConfigError({ variable, message: `${variable} is ${JSON.stringify(text)}; it must be ${expected}.` })
  }
  return undefined
})

const withDefault = <A>(name: string, format: ValueFormat<A>, value: A) =>
  Effect.map(find(name, format), (found) => found ?? { value, name: ENV_PREFIXES[0] + name })

/** Whether the list of devices is empty or has one of the customary values for no device. */
const hidesGpus = (devices: string | undefined) =>
  devices !== undefined && ["", "-1", "none", "NoDevFiles"].includes(devices.trim())

const DEVICES = "CUDA_VISIBLE_DEVICES"

/** Reads all variables from the current `ConfigProvider`. An invalid one prevents the start even if its check would be skipped. */
export const settings: Effect.Effect<Settings, WorkerConfigError | Config.ConfigError> = Effect.gen(function*() {
  const skipAll = yield* find("SKIP_AUTO_SYSTEM_CHECKS", flag)
  return {
    minimumMemoryGb: yield* withDefault("MIN_MEMORY_GB", gigabytes, 4),
    minimumDiskPercent: yield* withDefault("MIN_DISK_PERCENT", percent, 10),
    minimumCudaVersion: yield* withDefault("MIN_CUDA_VERSION", version, "11.8"),
    skipGpu: (yield* find("SKIP_GPU_CHECK", flag))?.value ?? false,
    skipAll: skipAll?.value === true ? skipAll.name : undefined,
    networkLimit: yield* withDefault("NETWORK_CHECK_TIMEOUT", seconds, 5),
    gpuLimit: yield* withDefault("GPU_TEST_TIMEOUT", seconds, 30),
    benchmarkLimit: yield* withDefault("GPU_BENCHMARK_TIMEOUT", seconds, 2),
    testCommand: yield* find("GPU_TEST_COMMAND", command),
    path: (yield* textOf("PATH")) ?? "",
    // A ConfigProvider treats an empty value as unset. For CUDA, empty means no GPU and unset means all GPUs.
    gpuHidden: hidesGpus((yield* textOf(DEVICES)) ?? process.env[DEVICES])
  }
})
