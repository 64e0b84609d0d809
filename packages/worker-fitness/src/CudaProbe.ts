/**
 * Tries CUDA once, for the checks that want to know: whether it starts on every GPU, and how fast a small piece of work is.
 *
 * ```
 *   CudaInitCheck -----\
 *                       one run of python3 with the program of cudaProgram.ts
 *   GpuBenchmarkCheck -/      --> Unavailable   no python3, or none that works: nothing was tried, nothing is known
 *                             --> Failed        where, and in which part: init or compute
 *                             --> Done          milliseconds of work, GPU by GPU
 * ```
 *
 * It runs in a process of its own. A driver that hangs or crashes takes that process with it and not the worker, and the worker has no
 * context on the GPU before its handler wants one.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CUDA_PROGRAM } from "./CudaProgram.ts"
import { DEFAULT_LIMIT } from "./NvidiaSmi.ts"
import * as Programs from "./Programs.ts"

/** `init` until a GPU has a context; `compute` is the work on it. */
export const Part = Schema.Literals(["init", "compute"])
/** One of {@link Part}. */
export type Part = typeof Part.Type

const Device = Schema.Struct({ name: Schema.String, ms: Schema.Finite })
/** A GPU that worked, and how long it took. */
export type Device = typeof Device.Type

/** What came of it. */
export type Result =
  | { readonly _tag: "Unavailable"; readonly why: string }
  | { readonly _tag: "Failed"; readonly part: Part; readonly why: string }
  | { readonly _tag: "Done"; readonly devices: ReadonlyArray<Device> }

/** What came of trying CUDA; tried when it is first asked for. */
export class CudaProbe extends Context.Service<CudaProbe, { readonly result: Effect.Effect<Result> }>()(
  "@stint/worker-fitness/CudaProbe"
) {}

/** How CUDA is tried. */
export interface Options {
  /** A Python 3 with `ctypes`. Default: `python3`, out of the PATH. */
  readonly python?: string
  /** How long all of it may take. Default: 30. Seconds. The first contexts of a machine with eight GPUs take some. */
  readonly limit?: number
}

const Line = Schema.Union([
  Schema.Struct({ unavailable: Schema.String }),
  Schema.Struct({ failed: Schema.String, part: Part }),
  Schema.Struct({ devices: Schema.NonEmptyArray(Device) }),
  Schema.Struct({ at: Schema.String, part: Part })
])
const decodeLine = Schema.decodeUnknownOption(Schema.fromJsonString(Line))

/** The last line that the program wrote; undefined where it did not get as far as that. */
const lastStep = (stdout: string): typeof Line.Type | undefined =>
  stdout.split("\n").map((line) => Option.getOrUndefined(decodeLine(line))).findLast((line) => line !== undefined)

const resultOf = (stdout: string, unless: string): Result => {
  const last = lastStep(stdout)
  if (last === undefined) return { _tag: "Unavailable", why: unless }
  if ("unavailable" in last) return { _tag: "Unavailable", why: `python3 is of no use: ${last.unavailable}` }
  if ("failed" in last) return { _tag: "Failed", part: last.part, why: last.failed }
  if ("devices" in last) return { _tag: "Done", devices: last.devices }
  return { _tag: "Failed", part: last.part, why: `${unless}, at ${last.at}` }
}

/** Runs the program. `-I` and `-S` keep it from the working directory's modules, from variables and from site packages. */
const probe = ({ limit = DEFAULT_LIMIT, python = "python3" }: Options): Effect.Effect<Result> =>
  Programs.run(python, ["-I", "-S", "-c", CUDA_PROGRAM], limit).pipe(
    Effect.match({
      onSuccess: (ended) => {
        const said = Programs.lastLine(ended.stderr)
        return resultOf(
          ended.stdout,
          `${python} ended with ${Programs.describeExit(ended)}${said === undefined ? "" : ` (${said})`}`
        )
      },
      onFailure: ({ message, stdout }) => resultOf(stdout, message)
    }),
    Effect.tap((result) =>
      result._tag === "Unavailable"
        ? Effect.logDebug(
          `CUDA itself is not tried: ${result.why}. PLATFORM_GPU_TEST_COMMAND can name a program that tests the GPU.`
        )
        : Effect.void
    )
  )

/** Tries it once, however many checks ask. */
export const layer = (options: Options = {}): Layer.Layer<CudaProbe> =>
  Layer.effect(CudaProbe, Effect.map(Effect.cached(probe(options)), (result) => ({ result })))

/** Where nothing can try it: no python3. */
export const layerUnavailable = (why: string): Layer.Layer<CudaProbe> =>
  Layer.succeed(CudaProbe, { result: Effect.succeed<Result>({ _tag: "Unavailable", why }) })
