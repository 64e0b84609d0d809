/**
 * Turns an endpoint's source into a program with arguments, working directory and environment.
 *
 * | source | program | directory |
 * |---|---|---|
 * | `handler` of a release | the platform's Node, with the release's code (see `FrozenCode`) | the file's folder, if it exists |
 * | `handler` | the platform's Node, with the file's bundle or the file itself (see `HandlerEntryPoint`) | the file's folder |
 * | `command` | as given, without a shell | its `cwd`, or else the worker's own folder (see `WorkFolders`) |
 *
 * A worker inherits part of the platform's environment (`InheritedEnvironment.ts`). The endpoint's `env` overrides it, and the worker's
 * variables override both. Two defaults differ from other pools, because these workers share the platform's machine: the thresholds of fitness checks are lower (docs/decisions/0006), and a
 * worker exits when the platform has been unreachable for an hour.
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"
import { defaultsFor } from "@stint/pool/LocalWorkerDefaults"
import { folderOf, type NamedVolumes } from "@stint/pool/NamedVolumes"
import { PoolError, SpawnFailed, Unsupported } from "@stint/pool/PoolError"
import { modelVariables } from "@stint/pool/WorkerModel"
import type { StartRequest } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { stat } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import type { FrozenCode } from "./FrozenCode.ts"
import { BUNDLE_NODE_OPTIONS } from "./HandlerBundle.ts"
import type { HandlerEntryPoint } from "./HandlerEntryPoint.ts"
import { inheritedEnvironment, type VariablePatterns } from "./InheritedEnvironment.ts"
import { environmentOf, type WorkerUser } from "./WorkerUser.ts"
import type { WorkFolders } from "./WorkFolders.ts"

export interface WorkerCommand {
  readonly path: string
  readonly args: ReadonlyArray<string>
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  /** Whether the last argument is the bundle of a handler. A standby can run no other program. */
  readonly isBundle: boolean
}

/** Options for all handlers. */
export interface Options {
  /** Folder for Node's compile cache; undefined disables the cache. */
  readonly compileCache: string | undefined
  /** Node options for handlers. */
  readonly nodeOptions: ReadonlyArray<string>
  readonly entry: HandlerEntryPoint
  readonly frozen: FrozenCode
  readonly folders: WorkFolders
  /** Variables that workers inherit in addition to the defaults. */
  readonly inherit: VariablePatterns
  /** The volumes that endpoints may name. */
  readonly volumes: NamedVolumes
  /** The user that the worker runs as; undefined for the platform's user. */
  readonly user: WorkerUser | undefined
}

/**
 * Python buffers its output to a pipe. Without this variable, lines would arrive long after the job they belong to.
 */
const UNBUFFERED = { PYTHONUNBUFFERED: "1" }

const fail = (path: string, problem: string, hint: string) => new PoolError({ reason: new SpawnFailed({ path, problem, hint }) })

/** Checks that a file or folder exists, because the system's error for a missing folder would name the program instead. */
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

const commandLine = Effect.fnUntraced(function*(
  source: EndpointSource,
  { code, endpoint: { id: endpoint }, worker }: StartRequest,
  { entry, folders, frozen, nodeOptions, user }: Options
) {
  switch (source.type) {
    case "handler": {
      const file = resolve(source.file)
      if (code !== undefined) {
        const path = yield* frozen.programOf(code, endpoint, file)
        // The handler's folder may be gone, and its code is not read from there.
        const directory = existsSync(dirname(file)) ? dirname(file) : dirname(path)
        return { path: process.execPath, args: [...nodeOptions, ...BUNDLE_NODE_OPTIONS, path], directory, isBundle: true }
      }
      yield* check(file, "file", `Correct the handler of endpoint ${endpoint}, or create the file.`)
      const main = yield* entry.of(file)
      const args = [...nodeOptions, ...main.nodeOptions, main.path]
      return { path: process.execPath, args, directory: dirname(file), isBundle: main.isBundle }
    }
    case "command": {
      const directory = resolve(source.directory ?? ".")
      yield* check(directory, "folder", `Correct the directory of endpoint ${endpoint}, or create it.`)
      const [path, ...args] = source.command
      if (source.cwd === undefined) {
        return { path, args, directory: yield* folders.create(worker, directory, user), isBundle: false }
      }
      const cwd = resolve(directory, source.cwd)
      yield* check(cwd, "folder", `Correct the cwd of endpoint ${endpoint}, or create it.`)
      return { path, args, directory: cwd, isBundle: false }
    }
    case "container":
    case "external":
      return yield* new PoolError({ reason: new Unsupported({ source: source.type }) })
  }
})

/** What every worker inherits from the platform. */
export const inheritedBy = ({ inherit, user }: Pick<Options, "inherit" | "user">): Record<string, string> => {
  const inherited = inheritedEnvironment(process.env, inherit)
  return { ...UNBUFFERED, ...(user === undefined ? inherited : environmentOf(user, inherited)) }
}

/** The variable with the folder of Node's compile cache. An inherited value takes precedence. */
export const compileCacheVariable = ({ compileCache }: Pick<Options, "compileCache">): Record<string, string> =>
  compileCache === undefined ? {} : { NODE_COMPILE_CACHE: compileCache }

/** The variables with the folder of the endpoint's volume (docs/spec/environment.md#set-by-the-user). A process has no mounts of its own. */
const volumeVariables = Effect.fnUntraced(function*(source: EndpointSource, volumes: NamedVolumes) {
  const [volume] = source.type === "handler" || source.type === "command" ? source.volumes ?? [] : []
  if (volume === undefined) return {}
  const folder = yield* folderOf(volume.source, volumes)
  return Object.fromEntries(ENV_PREFIXES.map((prefix) => [`${prefix}VOLUME_PATH`, folder]))
})

/**
 * Limits CUDA to the worker's GPUs. By default, CUDA numbers GPUs by speed; `PCI_BUS_ID` makes it use the driver's numbers. These variables override the
 * endpoint's `env`, because the other GPUs belong to other workers.
 */
const gpuVariables = (gpuIds: ReadonlyArray<string> | undefined): Record<string, string> =>
  gpuIds === undefined ? {} : { CUDA_DEVICE_ORDER: "PCI_BUS_ID", CUDA_VISIBLE_DEVICES: gpuIds.join(",") }

/** Returns the program of a worker. Fails when the program obviously cannot be started. */
export const workerCommandOf = Effect.fnUntraced(function*(request: StartRequest, options: Options) {
  const { endpoint, gpuIds, model, variables } = request
  const line = yield* commandLine(endpoint.source, request, options)
  const cache = endpoint.source.type === "handler" ? compileCacheVariable(options) : {}
  const ofModel = model === undefined ? {} : modelVariables(model, model.home)
  const ofVolume = yield* volumeVariables(endpoint.source, options.volumes)
  const environment = {
    ...cache,
    ...inheritedBy(options),
    ...ofModel,
    ...ofVolume,
    ...endpoint.env,
    ...gpuVariables(gpuIds),
    PWD: line.directory,
    ...variables
  }
  const program: WorkerCommand = { ...line, environment: { ...environment, ...defaultsFor(environment) } }
  return program
})

/** Describes the system's error when a program could not be started. */
export const spawnError = (program: WorkerCommand, endpoint: string, error: Error): PoolError | undefined => {
  const code = "code" in error ? error.code : undefined
  switch (code) {
    case "ENOENT":
      return fail(
        program.path,
        program.path.includes("/") ? "there is no such file" : "no folder in PATH contains this program",
        `Correct the command of endpoint ${endpoint}, or install the program.`
      )
    case "EACCES":
    case "EPERM":
    case "ENOEXEC":
      return fail(
        program.path,
        `the operating system refuses to run it (${code})`,
        `Make it executable (chmod +x), and check that it is a program.`
      )
    case "E2BIG":
      return fail(program.path, "its arguments and environment are too long", `Shorten the env of endpoint ${endpoint}.`)
    default:
      return undefined
  }
}
