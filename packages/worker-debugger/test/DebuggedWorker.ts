/**
 * Runs handlers with a debugger whose machine is known.
 */
import type { Runnable } from "@stint/worker/Runnable"
import { LogMemory, WorkerTest } from "@stint/worker/testing"
import * as Worker from "@stint/worker/Worker"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Debugger } from "../src/index.ts"
import type { SystemInfo } from "../src/SystemInfo.ts"

export const machine: SystemInfo = {
  os: "Test 1.0",
  platform: "test",
  kernel: "1.0",
  arch: "test",
  processor: "Test CPU",
  cpu_count: 2,
  memory_total_bytes: 1024,
  node_version: "26.0.0",
  runpod: "0.0.0",
  gpus: []
}

const Timestamp = Schema.Struct({
  name: Schema.String,
  start: Schema.Number,
  end: Schema.Number,
  duration_ms: Schema.Number,
  parent: Schema.optionalKey(Schema.Int),
  unfinished: Schema.optionalKey(Schema.Literal(true))
})
type Timestamp = typeof Timestamp.Type

const Report = Schema.Struct({
  timestamps: Schema.Array(Timestamp),
  timestamps_left_out: Schema.optionalKey(Schema.Int),
  system_info: Schema.Json,
  ready_delay_ms: Schema.Number
})

const decodeOutput = Schema.decodeUnknownSync(Schema.Struct({ rp_debugger: Report }))

/** The report in an output. */
export const reportIn = (output: unknown) => decodeOutput(output).rp_debugger

/** A worker's seams with a debugger that is on. */
export const on = () => {
  const log = LogMemory.make()
  const layer = Debugger.layerAlwaysWith({ systemInfo: Effect.succeed(machine) }).pipe(
    Layer.provideMerge(Worker.layerPluginServices),
    Layer.provideMerge(log.layer)
  )
  return { layer, log: log.lines }
}

/** What the report of one run has, and the rest of the result. */
export const debugged = Effect.fnUntraced(function*(handler: Runnable, input: unknown = null) {
  const result = yield* WorkerTest.runJson(handler, input)
  return { ...result, report: reportIn(result.output) }
})

/** A timing as a tree: its name and what it is made of. */
export type Tree = readonly [name: string, parts: ReadonlyArray<Tree>]

/** The list of a report as trees. */
export const trees = (timestamps: ReadonlyArray<Timestamp>, parent?: number): ReadonlyArray<Tree> =>
  timestamps.flatMap((one, index) => one.parent === parent ? [[one.name, trees(timestamps, index)] as const] : [])
