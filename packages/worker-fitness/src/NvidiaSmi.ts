/**
 * Runs `nvidia-smi` and parses its output about the GPUs and their driver.
 *
 * ```
 *   nvidia-smi                      | NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0 |
 *   with a newer driver             | NVIDIA-SMI 610.43.02    KMD Version: 610.43.02   CUDA UMD Version: 13.3 |
 *   nvidia-smi --query-gpu=...      0, NVIDIA H200, 143771, 31, 0
 *   for a faulty GPU                1, [Unknown Error], [GPU is lost], ERR!, [N/A]
 * ```
 */
import * as Effect from "effect/Effect"
import { FitnessCheckFailed } from "./FitnessCheckFailed.ts"
import * as Programs from "./Programs.ts"

/** Options for a run. */
export interface Options {
  /** The program. Default: `nvidia-smi` from the PATH. */
  readonly nvidiaSmi?: string
  /** The time limit. Default: {@link DEFAULT_LIMIT}. Seconds. A driver that unloads while unused needs several seconds to start. */
  readonly limit?: number
}

/** As in RunPod's SDK. Seconds. */
export const DEFAULT_LIMIT = 30

/** Returns the output of `nvidia-smi`. Fails on behalf of the named check when it exceeds the limit or exits with a code other than 0. */
export const output = Effect.fnUntraced(
  function*(check: string, args: ReadonlyArray<string>, { limit = DEFAULT_LIMIT, nvidiaSmi = "nvidia-smi" }: Options) {
    const ended = yield* Effect.mapError(
      Programs.run(nvidiaSmi, args, limit),
      ({ message }) => new FitnessCheckFailed({ check, message })
    )
    if (ended.code === 0) return ended.stdout
    const output = Programs.firstLine(ended.stdout) ?? Programs.firstLine(ended.stderr)
    return yield* new FitnessCheckFailed({
      check,
      message: `${nvidiaSmi} ended with ${Programs.describeExit(ended)}${output === undefined ? "" : `: ${output}`}`
    })
  }
)

/** The CUDA version in the header: the newest that the driver supports. Undefined if the header has none. */
export const cudaVersion = (text: string): string | undefined => /CUDA(?: \w+)? Version\s*:\s*([\d.]+|N\/A)/i.exec(text)?.[1]

/** Compares versions number by number and returns -1, 0 or 1, so that 11.10 comes after 11.8. A missing number counts as 0. */
export const compareVersions = (one: string, other: string): number => {
  const [left, right] = [one, other].map((version) => version.split(".").map(Number))
  for (let index = 0; index < Math.max(left?.length ?? 0, right?.length ?? 0); index++) {
    const difference = (left?.[index] ?? 0) - (right?.[index] ?? 0)
    if (difference !== 0) return Math.sign(difference)
  }
  return 0
}

/** Queries the columns that {@link gpuErrors} parses. Every driver from the last ten years supports them. */
export const QUERY = [
  "--query-gpu=index,name,memory.total,temperature.gpu,ecc.errors.uncorrected.volatile.total",
  "--format=csv,noheader,nounits"
] as const

const COLUMNS = ["index", "name", "memory", "temperature", "memory error count"] as const

/** The messages that the driver prints instead of a value or a row when the GPU no longer responds. */
const LOST_GPU = /unknown error|is lost|requires? reset|fallen off|unable to determine the device handle|ERR!/i

const gpuErrorOfRow = (cells: ReadonlyArray<string>): string | undefined => {
  const [index, name, memory, , errors] = cells
  const gpu = `GPU ${index}`
  const lost = cells.findIndex((cell) => LOST_GPU.test(cell))
  if (lost >= 0) return `${gpu} does not answer: its ${COLUMNS[lost] ?? "state"} is "${cells[lost]}"`
  if (memory === "0") return `${gpu} (${name}) has no memory`
  if (Number(errors) > 0) return `${gpu} (${name}) has ${errors} uncorrectable memory errors since its driver was loaded`
  return undefined
}

/**
 * Parses the output of {@link QUERY} and returns the errors of the GPUs; none if all are healthy. Missing values (`[N/A]`) are not errors.
 * A line that is not a row is an error only if it reports a lost GPU.
 */
export const gpuErrors = (text: string): ReadonlyArray<string> => {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "")
  const found: Array<string | undefined> = []
  let gpus = 0
  for (const line of lines) {
    const cells = line.split(",").map((cell) => cell.trim())
    const isRow = cells.length === COLUMNS.length && /^\d+$/.test(cells[0] ?? "")
    if (isRow) gpus++
    found.push(isRow ? gpuErrorOfRow(cells) : LOST_GPU.test(line) ? line : undefined)
  }
  const gpuErrors = found.filter((error) => error !== undefined)
  return gpus === 0 && gpuErrors.length === 0
    ? [`nvidia-smi lists no GPU${lines[0] === undefined ? "" : `: ${lines[0]}`}`]
    : gpuErrors
}
