/**
 * Information about the machine, for the debugger's report (docs/spec/debugger.md#report).
 */
import { VERSION } from "@stint/worker/Version"
import * as Effect from "effect/Effect"
import * as os from "node:os"

/** The machine's information in the report. The names `os`, `processor` and `runpod` come from RunPod's SDK. */
export interface SystemInfo {
  /** Type and release: `Linux 6.8.0-31-generic`. */
  readonly os: string
  /** Node's name: `linux`. */
  readonly platform: string
  /** The kernel's release. */
  readonly kernel: string
  /** Node's name: `x64`. */
  readonly arch: string
  /** The model of the first CPU. */
  readonly processor: string
  /** The number of CPUs that this process can use. */
  readonly cpu_count: number
  readonly memory_total_bytes: number
  readonly node_version: string
  /** The version of the SDK. */
  readonly runpod: string
  /** The names of the GPUs from nvidia-smi; empty without a GPU. */
  readonly gpus: ReadonlyArray<string>
  /** Makes the type assignable to JSON. */
  readonly [key: string]: string | number | ReadonlyArray<string>
}

/** The time limit for nvidia-smi, which hangs on a faulty GPU. Milliseconds. */
const GPU_QUERY_TIMEOUT = 2_000

/** Options for {@link read}. */
export interface Options {
  /** The program. Default: `nvidia-smi` from the PATH. */
  readonly nvidiaSmi?: string
  /** The time limit. Milliseconds; default {@link GPU_QUERY_TIMEOUT}. */
  readonly gpuLimit?: number
}

/** The names of the GPUs; none if the program does not exist, fails, or exceeds its limit. */
const gpuNames = ({ gpuLimit = GPU_QUERY_TIMEOUT, nvidiaSmi = "nvidia-smi" }: Options): Effect.Effect<ReadonlyArray<string>> =>
  Effect.callback<ReadonlyArray<string>>((resume) => {
    // Loaded here, because most workers have no debugger.
    const { spawn } = process.getBuiltinModule("node:child_process")
    let text = ""
    const child = spawn(nvidiaSmi, ["--query-gpu=name", "--format=csv,noheader"], { stdio: ["ignore", "pipe", "ignore"] })
    const end = (names: ReadonlyArray<string>) => {
      clearTimeout(timer)
      resume(Effect.succeed(names))
    }
    // A process that waits for a faulty device may ignore even SIGKILL, so its end is not awaited.
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      child.stdout.destroy()
      child.unref()
      end([])
    }, gpuLimit)
    child.stdout.setEncoding("utf8").on("data", (more: string) => {
      text += more
    })
    child.on("error", () => end([]))
    child.on("close", (code) => end(code === 0 ? text.split("\n").map((line) => line.trim()).filter((line) => line !== "") : []))
    return Effect.sync(() => {
      clearTimeout(timer)
      child.kill("SIGKILL")
    })
  })

/** Reads the machine's information. Never fails; unavailable values are empty. */
export const read = (options: Options = {}): Effect.Effect<SystemInfo> =>
  Effect.map(gpuNames(options), (gpus) => ({
    os: `${os.type()} ${os.release()}`,
    platform: os.platform(),
    kernel: os.release(),
    arch: os.arch(),
    processor: os.cpus()[0]?.model ?? "",
    cpu_count: os.availableParallelism(),
    memory_total_bytes: os.totalmem(),
    node_version: process.versions.node,
    runpod: VERSION,
    gpus
  }))
