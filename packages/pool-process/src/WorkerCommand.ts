/**
 * What is run for a worker: from an endpoint's source to a program, its arguments, its directory and its environment.
 *
 * | source | program | directory |
 * |---|---|---|
 * | `handler` | the platform's own Node, on the file's bundle or on the file as it is (see `HandlerEntryPoint`) | the file's own |
 * | `command` | as given; no shell looks at it | its `directory`, else the platform's |
 *
 * A worker inherits the platform's environment, for `PATH`, `HOME`, proxies, certificates and whatever else its program expects of the machine,
 * without the platform's own settings: `STINT_*`, where its secrets are, and `PORT`. The endpoint's `env` comes over that, the worker's
 * variables over both. Where nobody sets them, two things differ from elsewhere, because these workers share the platform's own machine: the
 * thresholds of fitness checks are lower (docs/decisions/0006), and a platform that is away for an hour is given up.
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"
import { PoolError, SpawnFailed, Unsupported } from "@stint/pool/PoolError"
import type { StartRequest } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import { stat } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import type { HandlerEntryPoint } from "./HandlerEntryPoint.ts"

export interface WorkerCommand {
  readonly path: string
  readonly args: ReadonlyArray<string>
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
}

/** What all handlers are started with. */
export interface Options {
  /** Where Node keeps compiled code between starts; undefined for nowhere. */
  readonly compileCache: string | undefined
  /** Options of Node for handlers. */
  readonly nodeOptions: ReadonlyArray<string>
  readonly entry: HandlerEntryPoint
}

/** The platform's environment, as its workers may see it. */
export const inheritedEnvironment = (environment: Readonly<Record<string, string | undefined>>): Record<string, string> => {
  const result: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && name !== "PORT" && !name.startsWith("STINT_")) result[name] = value
  }
  return result
}

/**
 * What workers on the platform's own machine are told, without its prefix. 0.1 GB is about what a worker needs to start; of a disk 1 %
 * is what the platform's own store had better have, too. After a platform that was killed and never started again nobody else ends its
 * workers: they leave by themselves, an hour later.
 */
const DEFAULTS = { MIN_MEMORY_GB: "0.1", MIN_DISK_PERCENT: "1", UNREACHABLE_LIMIT: "3600000" } as const

/**
 * Python holds back what it prints into a pipe until there is much of it. Its lines would come when the job that they are about has long
 * ended.
 */
const UNBUFFERED = { PYTHONUNBUFFERED: "1" }

/**
 * Those of {@link DEFAULTS} that this environment does not set, under both prefixes: SDKs that know only one of them are to see it,
 * too. One that is set under either prefix is left alone under both, so that it counts. A blank value sets nothing.
 */
export const defaultsFor = (environment: Readonly<Record<string, string | undefined>>): Record<string, string> => {
  const result: Record<string, string> = {}
  for (const [name, value] of Object.entries(DEFAULTS)) {
    const names = ENV_PREFIXES.map((prefix) => prefix + name)
    if (names.some((one) => (environment[one] ?? "").trim() !== "")) continue
    for (const one of names) result[one] = value
  }
  return result
}

const fail = (path: string, problem: string, hint: string) => new PoolError({ reason: new SpawnFailed({ path, problem, hint }) })

/** A file or a folder must be there: the system's own error would blame the program for a missing folder. */
const check = Effect.fnUntraced(function*(path: string, kind: "file" | "folder", hint: string) {
  const found = yield* Effect.tryPromise({
    try: () => stat(path),
    catch: (cause) =>
      cause instanceof Error && "code" in cause && cause.code !== "ENOENT"
        ? fail(path, cause.message, hint)
        : fail(path, `there is no such ${kind}`, hint)
  })
  if (kind === "file" ? !found.isFile() : !found.isDirectory()) return yield* fail(path, `it is not a ${kind}`, hint)
})

const commandLine = Effect.fnUntraced(function*(source: EndpointSource, endpoint: string, { entry, nodeOptions }: Options) {
  switch (source.type) {
    case "handler": {
      const file = resolve(source.file)
      yield* check(file, "file", `Correct the handler of endpoint ${endpoint}, or put the file there.`)
      const main = yield* entry.of(file)
      return { path: process.execPath, args: [...nodeOptions, ...main.nodeOptions, main.path], directory: dirname(file) }
    }
    case "command": {
      const directory = resolve(source.directory ?? ".")
      yield* check(directory, "folder", `Correct the directory of endpoint ${endpoint}, or create it.`)
      const [path, ...args] = source.command
      return { path, args, directory }
    }
    case "external":
      return yield* new PoolError({ reason: new Unsupported({ source: source.type }) })
  }
})

/** The program of a worker; fails where it is plain that it cannot be started. */
export const workerCommandOf = Effect.fnUntraced(function*({ endpoint, variables }: StartRequest, options: Options) {
  const line = yield* commandLine(endpoint.source, endpoint.id, options)
  const base = inheritedEnvironment(process.env)
  const cache = endpoint.source.type !== "handler" || options.compileCache === undefined
    ? {}
    : { NODE_COMPILE_CACHE: options.compileCache }
  const environment = { ...UNBUFFERED, ...cache, ...base, ...endpoint.env, PWD: line.directory, ...variables }
  const program: WorkerCommand = { ...line, environment: { ...environment, ...defaultsFor(environment) } }
  return program
})

/** What the system said when it was asked to start a program. */
export const spawnError = (program: WorkerCommand, endpoint: string, error: Error): PoolError | undefined => {
  const code = "code" in error ? error.code : undefined
  switch (code) {
    case "ENOENT":
      return fail(
        program.path,
        program.path.includes("/") ? "there is no such file" : "no folder of PATH has a program of that name",
        `Correct the command of endpoint ${endpoint}, or install the program.`
      )
    case "EACCES":
    case "EPERM":
    case "ENOEXEC":
      return fail(
        program.path,
        `the system refuses to run it (${code})`,
        `Make it executable (chmod +x), and see that it is a program.`
      )
    case "E2BIG":
      return fail(program.path, "its arguments and environment are too long", `Shorten the env of endpoint ${endpoint}.`)
    default:
      return undefined
  }
}
