/**
 * What `nvidia-smi` says of the GPUs and their driver, as text and as values.
 *
 * ```
 *   nvidia-smi                      | NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0 |
 *   of a newer driver               | NVIDIA-SMI 610.43.02    KMD Version: 610.43.02   CUDA UMD Version: 13.3 |
 *   nvidia-smi --query-gpu=...      0, NVIDIA H200, 143771, 31, 0
 *   of one that is in trouble       1, [Unknown Error], [GPU is lost], ERR!, [N/A]
 * ```
 */
import * as Effect from "effect/Effect"
import { FitnessCheckFailed } from "./FitnessCheckFailed.ts"
import * as Programs from "./Programs.ts"

/** How it is run. */
export interface Options {
  /** The program. Default: `nvidia-smi`, out of the PATH. */
  readonly nvidiaSmi?: string
  /** How long it may take. Default: {@link DEFAULT_LIMIT}. Seconds. A machine whose driver sleeps between its users needs some. */
  readonly limit?: number
}

/** As in the described SDK. Seconds. */
export const DEFAULT_LIMIT = 30

/** Its output, for this check: fails where it does not end in time, or ends with anything but 0. */
export const output = Effect.fnUntraced(
  function*(check: string, args: ReadonlyArray<string>, { limit = DEFAULT_LIMIT, nvidiaSmi = "nvidia-smi" }: Options) {
    const ended = yield* Effect.mapError(
      Programs.run(nvidiaSmi, args, limit),
      ({ message }) => new FitnessCheckFailed({ check, message })
    )
    if (ended.code === 0) return ended.stdout
    const said = Programs.firstLine(ended.stdout) ?? Programs.firstLine(ended.stderr)
    return yield* new FitnessCheckFailed({
      check,
      message: `${nvidiaSmi} ended with ${Programs.describeExit(ended)}${said === undefined ? "" : `: ${said}`}`
    })
  }
)

/** The CUDA version of the header: that of the driver, which is the newest that it can run. Undefined where the header has none. */
export const cudaVersion = (text: string): string | undefined => /CUDA(?: \w+)? Version\s*:\s*([\d.]+|N\/A)/i.exec(text)?.[1]

/** -1, 0 or 1: versions compared number by number, so that 11.10 comes after 11.8. A number that is missing is 0. */
export const compareVersions = (one: string, other: string): number => {
  const [left, right] = [one, other].map((version) => version.split(".").map(Number))
  for (let index = 0; index < Math.max(left?.length ?? 0, right?.length ?? 0); index++) {
    const difference = (left?.[index] ?? 0) - (right?.[index] ?? 0)
    if (difference !== 0) return Math.sign(difference)
  }
  return 0
}

/** The columns that {@link troubles} reads; every driver of the last ten years knows them. */
export const QUERY = [
  "--query-gpu=index,name,memory.total,temperature.gpu,ecc.errors.uncorrected.volatile.total",
  "--format=csv,noheader,nounits"
] as const

const COLUMNS = ["index", "name", "memory", "temperature", "memory error count"] as const

/** What the driver writes in place of a value, or of a whole row, when the GPU does not answer any more. */
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
 * What is wrong with the GPUs, given the answer to {@link QUERY}: nothing when the list is empty. Values that a GPU or a container does not
 * have (`[N/A]`) are no trouble, and neither are lines that are no rows, unless they say that a GPU is lost.
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
  const gpuErrors = found.filter((trouble) => trouble !== undefined)
  return gpus === 0 && gpuErrors.length === 0
    ? [`nvidia-smi lists no GPU${lines[0] === undefined ? "" : `: ${lines[0]}`}`]
    : gpuErrors
}
