/**
 * Runs CUDA once, for all checks that need it: whether it starts on every GPU, and how fast a small workload is.
 *
 * ```
 *   CudaInitCheck -----\
 *                       one run of python3 with the program of cudaProgram.ts
 *   GpuBenchmarkCheck -/      --> Unavailable   no working python3: the state of CUDA is unknown
 *                             --> Failed        where, and in which part: init or compute
 *                             --> Done          milliseconds of work, GPU by GPU
 * ```
 *
 * It runs in a separate process. A driver that hangs or crashes then affects that process and not the worker, and the worker holds no
 * GPU context before its handler creates one.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CUDA_PROGRAM } from "./CudaProgram.ts"
import { DEFAULT_LIMIT } from "./NvidiaSmi.ts"
import * as Programs from "./Programs.ts"

/** `init` ends when a GPU has a context; `compute` is the workload on it. */
export const Part = Schema.Literals(["init", "compute"])
/** One of {@link Part}. */
export type Part = typeof Part.Type

const Device = Schema.Struct({ name: Schema.String, ms: Schema.Finite })
/** A GPU that completed the workload, and the duration. Milliseconds. */
export type Device = typeof Device.Type

/** The result of the probe. */
export type Result =
  | { readonly _tag: "Unavailable"; readonly why: string }
  | { readonly _tag: "Failed"; readonly part: Part; readonly why: string }
  | { readonly _tag: "Done"; readonly devices: ReadonlyArray<Device> }

/** The result of the CUDA probe, which runs on first use. */
export class CudaProbe extends Context.Service<CudaProbe, { readonly result: Effect.Effect<Result> }>()(
  "@stint/worker-fitness/CudaProbe"
) {}

/** Options for the probe. */
export interface Options {
  /** A Python 3 with `ctypes`. Default: `python3` from the PATH. */
  readonly python?: string
  /** The time limit for the whole run. Default: 30. Seconds. Creating the first contexts on a machine with eight GPUs takes several. */
  readonly limit?: number
}

const Line = Schema.Union([
  Schema.Struct({ unavailable: Schema.String }),
  Schema.Struct({ failed: Schema.String, part: Part }),
  Schema.Struct({ devices: Schema.NonEmptyArray(Device) }),
  Schema.Struct({ at: Schema.String, part: Part })
])
const decodeLine = Schema.decodeUnknownOption(Schema.fromJsonString(Line))

/** The last valid line of the program, or undefined if there is none. */
const lastStep = (stdout: string): typeof Line.Type | undefined =>
  stdout.split("\n").map((line) => Option.getOrUndefined(decodeLine(line))).findLast((line) => line !== undefined)

const resultOf = (stdout: string, failure: string): Result => {
  const last = lastStep(stdout)
  if (last === undefined) return { _tag: "Unavailable", why: failure }
  if ("unavailable" in last) return { _tag: "Unavailable", why: `python3 cannot be used: ${last.unavailable}` }
  if ("failed" in last) return { _tag: "Failed", part: last.part, why: last.failed }
  if ("devices" in last) return { _tag: "Done", devices: last.devices }
  return { _tag: "Failed", part: last.part, why: `${failure}, at ${last.at}` }
}

/** Runs the program. `-I` and `-S` exclude modules in the working directory, `PYTHON*` variables and site packages. */
const probe = ({ limit = DEFAULT_LIMIT, python = "python3" }: Options): Effect.Effect<Result> =>
  Programs.run(python, ["-I", "-S", "-c", CUDA_PROGRAM], limit).pipe(
    Effect.match({
      onSuccess: (ended) => {
        const output = Programs.lastLine(ended.stderr)
        return resultOf(
          ended.stdout,
          `${python} ended with ${Programs.describeExit(ended)}${output === undefined ? "" : ` (${output})`}`
        )
      },
      onFailure: ({ message, stdout }) => resultOf(stdout, message)
    }),
    Effect.tap((result) =>
      result._tag === "Unavailable"
        ? Effect.logDebug(
          `CUDA is not checked: ${result.why}. Set PLATFORM_GPU_TEST_COMMAND to test the GPU with another program.`
        )
        : Effect.void
    )
  )

/** Provides the probe. It runs once for all checks. */
export const layer = (options: Options = {}): Layer.Layer<CudaProbe> =>
  Layer.effect(CudaProbe, Effect.map(Effect.cached(probe(options)), (result) => ({ result })))

/** Provides a probe without a python3: its result is always `Unavailable`. */
export const layerUnavailable = (why: string): Layer.Layer<CudaProbe> =>
  Layer.succeed(CudaProbe, { result: Effect.succeed<Result>({ _tag: "Unavailable", why }) })
