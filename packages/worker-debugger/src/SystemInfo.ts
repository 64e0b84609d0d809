/**
 * The machine that a job ran on, for the debugger's report (docs/spec/debugger.md#report).
 */
import { VERSION } from "@stint/worker/Version"
import * as Effect from "effect/Effect"
import * as os from "node:os"

/** What the report says of the machine. `os`, `processor` and `runpod` are called as in the described platform's own SDK. */
export interface SystemInfo {
  /** In words: `Linux 6.8.0-31-generic`. */
  readonly os: string
  /** As Node calls it: `linux`. */
  readonly platform: string
  /** The kernel's release. */
  readonly kernel: string
  /** As Node calls it: `x64`. */
  readonly arch: string
  /** The model of the first CPU. */
  readonly processor: string
  /** How many CPUs this process may use. */
  readonly cpu_count: number
  readonly memory_total_bytes: number
  readonly node_version: string
  /** The version of the SDK. */
  readonly runpod: string
  /** The names of the GPUs, as nvidia-smi tells them; empty without one. */
  readonly gpus: ReadonlyArray<string>
  /** So that it is JSON to the compiler, too. */
  readonly [key: string]: string | number | ReadonlyArray<string>
}

/** How long nvidia-smi may take: on a sick GPU it hangs. Milliseconds. */
export const GPU_QUERY_TIMEOUT = 2_000

/** How reading differs from its defaults. */
export interface Options {
  /** The program to ask. */
  readonly nvidiaSmi?: string
  /** How long it may take. Milliseconds; default {@link GPU_QUERY_TIMEOUT}. */
  readonly gpuLimit?: number
}

/** The names of the GPUs; none where the program is not there, fails, or does not end in time. */
const gpuNames = ({ gpuLimit = GPU_QUERY_TIMEOUT, nvidiaSmi = "nvidia-smi" }: Options): Effect.Effect<ReadonlyArray<string>> =>
  Effect.callback<ReadonlyArray<string>>((resume) => {
    // Loaded only here: most workers have no debugger.
    const { spawn } = process.getBuiltinModule("node:child_process")
    let text = ""
    const child = spawn(nvidiaSmi, ["--query-gpu=name", "--format=csv,noheader"], { stdio: ["ignore", "pipe", "ignore"] })
    const end = (names: ReadonlyArray<string>) => {
      clearTimeout(timer)
      resume(Effect.succeed(names))
    }
    // A process that waits for a sick device may not even die; it is not waited for.
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

/** Looks at the machine. Never fails: what cannot be found out is empty. */
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
