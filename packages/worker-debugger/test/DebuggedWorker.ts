/**
 * Runs handlers with a debugger and fixed machine information.
 */
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import * as JobSourceHttp from "@stint/worker/JobSourceHttp"
import type { Runnable } from "@stint/worker/Runnable"
import { LogMemory, WorkerTest } from "@stint/worker/testing"
import type { PlatformStub } from "@stint/worker/testing"
import * as Worker from "@stint/worker/Worker"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
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

const settings = (stub: PlatformStub.PlatformStub, argv: ReadonlyArray<string>) =>
  Layer.effect(
    WorkerConfig.WorkerConfig,
    Effect.orDie(WorkerConfig.read({ PLATFORM_SHUTDOWN_GRACE: "0", ...stub.environment() }, argv))
  )

/** A worker with the debugger's middleware that talks HTTP to the stub. */
export const start = Effect.fnUntraced(function*(
  stub: PlatformStub.PlatformStub,
  handler: Runnable,
  options: {
    readonly argv?: ReadonlyArray<string>
    readonly without?: boolean
    readonly systemInfo?: Effect.Effect<SystemInfo>
  } = {}
) {
  const log = LogMemory.make()
  const source = Layer.unwrap(
    Effect.map(WorkerConfig.WorkerConfig, ({ platform }) => {
      if (platform === undefined) throw new Error("the variables make no platform")
      return JobSourceHttp.layerOf(platform)
    })
  )
  const debug = Debugger.middlewareWith({ systemInfo: options.systemInfo ?? Effect.succeed(machine) })
  const built = Worker.layer(handler, { middleware: [options.without === true ? JobMiddleware.none : debug] })
  const services = source.pipe(
    Layer.provideMerge(Layer.merge(Worker.layerPluginServices, log.layer)),
    Layer.provideMerge(settings(stub, options.argv ?? []))
  )
  yield* Layer.build(Layer.provide(built, services))
  return { log: log.lines }
})

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

const options = { systemInfo: Effect.succeed(machine) }

/** An in-memory log. */
export const on = () => {
  const log = LogMemory.make()
  return { layer: log.layer, log: log.lines }
}

/** Runs a handler with an active debugger. */
export const runJson = (
  handler: Runnable,
  input: unknown,
  job: Partial<ReceivedJob> = {},
  fields: ReadonlyArray<Debugger.FieldSource> = []
) => WorkerTest.runJson(handler, input, job, { middleware: [Debugger.middlewareAlwaysWith({ ...options, fields })] })

/** The report of one run and the rest of its result. */
export const debugged = Effect.fnUntraced(function*(
  handler: Runnable,
  input: unknown = null,
  fields: ReadonlyArray<Debugger.FieldSource> = []
) {
  const result = yield* runJson(handler, input, {}, fields)
  return { ...result, report: reportIn(result.output) }
})

/** A timing as a tree: its name and the nested timings. */
export type Tree = readonly [name: string, parts: ReadonlyArray<Tree>]

/** The timings of a report as trees. */
export const trees = (timestamps: ReadonlyArray<Timestamp>, parent?: number): ReadonlyArray<Tree> =>
  timestamps.flatMap((one, index) => one.parent === parent ? [[one.name, trees(timestamps, index)] as const] : [])
