/**
 * Runs workers as child processes of the platform. This is the embedded default.
 *
 * ```
 *   platform ---- Ctrl-C in its terminal reaches only the platform, which drains
 *     +-- worker      own session and process group; stdin closed, stdout and stderr read line by line (see `OutputPipes`)
 *           +-- its children: receive the group's signals (SIGTERM, SIGKILL) and die with the worker
 *           +-- its children with their own session: are ended after the worker (see `DetachedChildren`)
 * ```
 *
 * It uses `node:child_process` instead of `effect/process`, which reports only an exit code. The pool also needs the signal, and must write
 * the worker's record synchronously when the worker starts (see `WorkerRecords`).
 *
 * Files in `dataDir`: `workers/` (one record per running worker, see `Orphans`, and its pipes, see `OutputPipes`), and `releases/` (the code of releases, see `FrozenCode`). Files in `cacheDir`:
 * `compile-cache/` (V8's code cache, which speeds up later starts of a handler), `bundles/` (one per handler, see `HandlerBundle`), both of which are
 * safe to delete, and `work/` (the working folders of running `command` workers, see `WorkFolders`).
 */
import { CodeArtifacts } from "@stint/pool/CodeArtifacts"
import { CodeTransfer } from "@stint/pool/CodeTransfer"
import type { NamedVolumes } from "@stint/pool/NamedVolumes"
import { NoCapacity, PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as RecordedReservation from "@stint/pool/RecordedReservation"
import { signalOf, type WorkerExit } from "@stint/pool/WorkerExit"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { followOutput, type OutputSource } from "@stint/pool/WorkerOutput"
import { type StartRequest, type WorkerHandle, WorkerPool } from "@stint/pool/WorkerPool"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Semaphore from "effect/Semaphore"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { join, resolve } from "node:path"
import * as DetachedChildren from "./DetachedChildren.ts"
import * as FrozenCode from "./FrozenCode.ts"
import { BUNDLE_NODE_OPTIONS } from "./HandlerBundle.ts"
import * as HandlerEntryPoint from "./HandlerEntryPoint.ts"
import type { VariablePatterns } from "./InheritedEnvironment.ts"
import * as Orphans from "./Orphans.ts"
import * as OutputPipes from "./OutputPipes.ts"
import * as ProcessTable from "./ProcessTable.ts"
import * as StandbyWorkers from "./StandbyWorkers.ts"
import { importersFrom } from "./StintPackages.ts"
import * as WorkerCgroups from "./WorkerCgroups.ts"
import { compileCacheVariable, inheritedBy, spawnError, type WorkerCommand, workerCommandOf } from "./WorkerCommand.ts"
import * as WorkerRecords from "./WorkerRecords.ts"
import { makeFolders, type WorkerUser } from "./WorkerUser.ts"
import { isRange, type WorkerIds } from "./WorkerUsers.ts"
import * as WorkerUsers from "./WorkerUsers.ts"
import * as WorkFolders from "./WorkFolders.ts"

/** Options for the pool. */
export interface Options {
  /** Folder for records, the compile cache and bundles. Only one platform may use it at a time. */
  readonly dataDir: string
  /**
   * Whether V8's code cache is kept between starts. Default: true, which takes a few megabytes per handler and saves most of its compile
   * time.
   */
  readonly compileCache?: boolean
  /**
   * Whether handlers run as bundles once these have been built. Default: true, because a bundle starts several times faster than hundreds
   * of source files. When false, handlers always run from their sources.
   */
  readonly bundle?: boolean
  /**
   * Node options for handlers. Default: none. `--enable-source-maps` gives correct lines in stack traces of precompiled handlers. TypeScript
   * sources do not need it, and bundles have it already.
   */
  readonly nodeOptions?: ReadonlyArray<string>
  /**
   * Folder for the compile cache and bundles. Default: `dataDir`. With `user`, it must be a folder outside `dataDir` that this user can
   * reach, because only the platform's user can read `dataDir`.
   */
  readonly cacheDir?: string
  /**
   * The user that workers run as, or a range of ids, from which each endpoint gets its own user. Default: the platform's user. Requires
   * a platform that runs as root.
   */
  readonly user?: WorkerUser | WorkerIds | undefined
  /**
   * Variables that workers inherit from the platform in addition to those in `InheritedEnvironment.ts`; a trailing `*` matches every name
   * that starts with the text before it. Default: none. The platform's own settings (`PORT`, `STINT_*`) are never inherited.
   */
  readonly inherit?: VariablePatterns
  /** The volumes that endpoints may name. Default: none. */
  readonly namedVolumes?: NamedVolumes
  /**
   * The URL of a module whose installation of Stint and Effect is used for handlers in folders without their own installation. Default: none; such
   * handlers do not start.
   */
  readonly packagesOf?: string
  /**
   * How long the workers wait for the next platform, after this one was killed, before they are requested to exit. Default: 30 s. A longer
   * time saves the work of a worker that does not handle SIGTERM, but all workers keep their memory and their GPU for that time.
   */
  readonly abandonAfter?: Duration.Input
  /**
   * How many processes wait for the next worker of a handler (see `StandbyWorkers`). Default: 0, because each of them occupies memory all
   * the time. A cold start that finds a waiting process does not start Node.
   */
  readonly spare?: number
  /** A folder with the files `cgroup` and `mountinfo` of proc(5). Default: `/proc/self`. Another one is for tests. */
  readonly cgroupFiles?: string
}

/**
 * The exit code of a platform that its operator stopped without waiting. The pool then kills its workers. After any other exit, such as a
 * crash, they finish their jobs and deliver the results to the next platform.
 */
export const FORCED_EXIT_CODE = 130

/** A started process with its output. */
interface Started {
  readonly child: ChildProcess
  readonly standby: boolean
  readonly sources: Readonly<Record<"stdout" | "stderr", OutputSource>>
}

/** How long to wait for a killed worker to exit. Only a process that the kernel cannot terminate takes longer. */
const KILL_WAIT = Duration.seconds(5)

const layerOf = Effect.fnUntraced(function*(options: Options) {
  const dataDir = resolve(options.dataDir)
  const log = yield* WorkerLog
  const platform = ProcessTable.identityOf(process.pid) ?? null
  const cacheDir = resolve(options.cacheDir ?? dataDir)
  const { bundles, compileCache, permissions } = yield* Effect.mapError(
    Effect.try({
      try: () => makeFolders(cacheDir, options.user !== undefined && isRange(options.user) ? "per-endpoint" : options.user),
      catch: (cause) => String(cause)
    }),
    (cause) =>
      new PoolError({
        reason: new PoolUnavailable({
          problem: `the bundles of handlers cannot be stored in ${cacheDir} (${cause})`,
          hint: "Make the folder writable, or set another one."
        })
      })
  )
  const records = yield* Effect.mapError(WorkerRecords.make(dataDir), (cause) =>
    new PoolError({
      reason: new PoolUnavailable({
        problem: `its records cannot be stored in ${join(dataDir, "workers")} (${cause.message})`,
        hint: "Make the data folder writable, or set another one."
      })
    }))
  const pipes = yield* OutputPipes.make(
    records.folder,
    records.isRecorded,
    Duration.fromInputUnsafe(options.abandonAfter ?? "30 seconds")
  )
  const children = new Set<ChildProcess>()
  /** The workers that may have left a process behind. */
  const present = new Set<string>()
  const onExit = (code: number) => {
    if (code !== FORCED_EXIT_CODE) return
    for (const { pid } of children) if (pid !== undefined) ProcessTable.signal(-pid, "SIGKILL")
    if (present.size > 0) DetachedChildren.killNow(present)
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("exit", onExit)),
    () => Effect.sync(() => process.off("exit", onExit))
  )
  const folders = yield* WorkFolders.make(join(cacheDir, "work"), options.user !== undefined, records.isRecorded)
  const groups = WorkerCgroups.make(dataDir, (worker) => records.isRecorded(encodeURIComponent(worker)), options.cgroupFiles)
  /** The endpoints whose limits are known not to be enforced. */
  const unlimited = new Set<string>()
  const users = yield* WorkerUsers.make({ users: options.user, dataDir, cacheDir })
  const sharedUser = options.user === undefined || isRange(options.user) ? undefined : options.user
  const importers = options.packagesOf === undefined ? [] : importersFrom(options.packagesOf)
  const building = yield* Semaphore.make(1)
  const frozen = yield* FrozenCode.make({
    building,
    dataDir,
    bundles,
    bundle: { permissions, importers },
    ...(options.user === undefined ? {} : { copies: { folder: join(cacheDir, "releases"), permissions } })
  })
  const programOptions = {
    frozen,
    compileCache: options.compileCache === false ? undefined : compileCache,
    nodeOptions: options.nodeOptions ?? [],
    entry: options.bundle === false
      ? HandlerEntryPoint.withoutBundles(importers)
      : yield* HandlerEntryPoint.make(bundles, { permissions, importers }, building),
    folders,
    inherit: options.inherit ?? [],
    volumes: options.namedVolumes ?? {},
    user: sharedUser
  }
  // A standby process cannot change to an endpoint's user.
  if (users.isPerEndpoint && (options.spare ?? 0) > 0) {
    yield* Effect.logWarning(
      "STINT_SPARE_WORKERS has no effect, because each endpoint has its own user (STINT_WORKER_USER)."
    )
  }
  const standbys = yield* StandbyWorkers.make({
    count: users.isPerEndpoint ? 0 : options.spare ?? 0,
    folder: bundles,
    permissions,
    nodeOptions: [...programOptions.nodeOptions, ...BUNDLE_NODE_OPTIONS],
    environment: { ...compileCacheVariable(programOptions), ...inheritedBy(programOptions) },
    user: sharedUser,
    pipes
  })

  /** Records the process of a worker, so that a later platform finds it. Returns a warning when that fails. */
  const recordWorker = (request: StartRequest, pid: number, mark?: string): Effect.Effect<void> => {
    const { endpoint, worker } = request
    try {
      const identity = ProcessTable.identityOf(pid) ?? null
      records.write({
        worker,
        endpoint: endpoint.id,
        pid,
        identity,
        platform,
        ...(mark === undefined ? {} : { mark }),
        ...RecordedReservation.of(request)
      })
      return Effect.void
    } catch (error) {
      return Effect.logWarning(
        `Worker ${worker} cannot be recorded in ${records.folder}. A later platform cannot find this worker if this one is killed.`,
        error
      )
    }
  }

  /** Limits the process as its endpoint says. Warns once for each endpoint if the system cannot enforce the limits. */
  const limitWorker = ({ endpoint: { id, source }, worker }: StartRequest, pid: number): Effect.Effect<void> => {
    if (source.type !== "handler" && source.type !== "command") return Effect.void
    const problem = groups.limit(worker, pid, source)
    if (problem === undefined || unlimited.has(id)) return Effect.void
    unlimited.add(id)
    return Effect.logWarning(`Workers of endpoint ${id} run without some of its limits. ${problem}`)
  }

  /** Calls `onExit` once, when the process has exited. */
  const watch = (child: ChildProcess, pid: number, worker: string, onExit: (exit: WorkerExit) => void) => {
    children.add(child)
    present.add(worker)
    const report = (code: number | null, signal: string | null) => {
      children.delete(child)
      // The worker leads its own process group, which contains only its own children. Its children outside the group are ended afterwards.
      ProcessTable.signal(-pid, "SIGKILL")
      // A shell reports a killed child by its exit code.
      const killed = code === null ? signal ?? "SIGKILL" : signalOf(code)
      const outOfMemory = killed === "SIGKILL" && groups.ranOutOfMemory(worker)
      onExit(
        code !== null && !outOfMemory
          ? { _tag: "Exited", code, log: [] }
          : { _tag: "Killed", signal: killed ?? "SIGKILL", outOfMemory, log: [] }
      )
    }
    if (child.exitCode !== null || child.signalCode !== null) report(child.exitCode, child.signalCode)
    else child.once("exit", report)
  }

  /** Makes a standby the process of the worker; undefined when none is available. */
  const assign = Effect.fnUntraced(function*(
    program: WorkerCommand,
    request: StartRequest,
    onExit: (exit: WorkerExit) => void
  ): Effect.fn.Return<Started | undefined> {
    let recorded: Effect.Effect<void> | undefined
    const assigned = yield* standbys.assign(program, request.worker, ({ name, pid }) => {
      recorded = Effect.andThen(recordWorker(request, pid, name), limitWorker(request, pid))
    })
    if (assigned === undefined) {
      if (recorded !== undefined) yield* Effect.ignore(Effect.try(() => records.remove(request.worker)))
      return undefined
    }
    watch(assigned.child, assigned.pid, request.worker, onExit)
    yield* recorded ?? Effect.void
    return { child: assigned.child, sources: assigned.sources, standby: true }
  })

  /** Starts the process and writes its record. */
  const launch = (
    program: WorkerCommand,
    request: StartRequest,
    user: WorkerUser | undefined,
    output: OutputPipes.OpenPipes | undefined,
    onExit: (exit: WorkerExit) => void
  ) =>
    Effect.callback<Started, PoolError>((resume) => {
      const refused = (error: Error) => {
        output?.sources.stdout.close()
        output?.sources.stderr.close()
        pipes.remove(request.worker)
        resume(Effect.fail(
          spawnError(program, request.endpoint.id, error) ??
            new PoolError({ reason: new NoCapacity({ problem: `the operating system reports ${error.message}` }) })
        ))
      }
      let child: ChildProcess
      try {
        child = spawn(program.path, program.args, {
          cwd: program.directory,
          env: program.environment,
          detached: true,
          stdio: ["ignore", ...(output === undefined ? ["pipe" as const, "pipe" as const] : output.descriptors)],
          windowsHide: true,
          ...(user === undefined ? {} : { uid: user.uid, gid: user.gid })
        })
      } catch (error) {
        return refused(error instanceof Error ? error : new Error(String(error)))
      } finally {
        output?.release()
      }
      child.once("error", refused)
      const { pid } = child
      if (pid === undefined) return
      const recorded = Effect.andThen(recordWorker(request, pid), limitWorker(request, pid))
      watch(child, pid, request.worker, onExit)
      child.once("spawn", () => {
        const started: Started = {
          child,
          standby: false,
          sources: output?.sources ??
            { stdout: OutputPipes.sourceOf(child.stdout), stderr: OutputPipes.sourceOf(child.stderr) }
        }
        resume(Effect.as(recorded, started))
      })
    })

  const start = Effect.fn("ProcessPool.start")(function*(request: StartRequest) {
    const { endpoint, mask, variables, worker } = request
    const user = yield* users.of(endpoint.id)
    const { compileCache } = programOptions
    const program = yield* workerCommandOf(request, {
      ...programOptions,
      user,
      compileCache: user !== undefined && users.isPerEndpoint && compileCache !== undefined
        ? join(user.home, "compile-cache")
        : compileCache
    })
    const gone = yield* Deferred.make<WorkerExit>()
    const ended = yield* Deferred.make<WorkerExit>()
    const cleared = yield* Deferred.make<void>()
    const forget = Effect.ignore(Effect.try(() => records.remove(worker)))
    /** Whether the caller has the handle, and processes the exit. */
    let isStarted = false

    /** Signals the whole process group, as long as the group id still belongs to the worker. */
    const signal = (child: ChildProcess, name: "SIGTERM" | "SIGKILL") =>
      Effect.sync(() => {
        if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) ProcessTable.signal(-child.pid, name)
      })

    const onGone = (exit: WorkerExit) => void Deferred.doneUnsafe(gone, Effect.succeed(exit))
    const begin = Effect.gen(function*() {
      return (yield* assign(program, request, onGone)) ??
        (yield* launch(program, request, user, yield* pipes.make(worker), onGone))
    })

    const { child, sources, standby } = yield* Effect.acquireRelease(
      Effect.onError(begin, () => folders.remove(worker)),
      ({ child }) =>
        signal(child, "SIGKILL").pipe(
          Effect.andThen(
            Effect.timeoutOption(Effect.interruptible(Effect.andThen(Deferred.await(ended), Deferred.await(cleared))), KILL_WAIT)
          )
        )
    )

    // Runs in parallel with the report of the exit, which returns the worker's job to the queue.
    yield* Deferred.await(gone).pipe(
      Effect.andThen(DetachedChildren.end(worker)),
      Effect.andThen(Effect.sync(() => void present.delete(worker))),
      Effect.andThen(groups.remove(worker)),
      Deferred.into(cleared),
      Effect.forkDetach
    )

    const lastLines = yield* followOutput(log, { endpoint: endpoint.id, worker, variables, mask }, sources)
    yield* Deferred.await(gone).pipe(
      Effect.flatMap((exit) => Effect.map(lastLines, (log): WorkerExit => ({ ...exit, log }))),
      Effect.tap(() => folders.remove(worker)),
      Effect.tap(() => Effect.ignore(Effect.try(() => pipes.remove(worker)))),
      Effect.tap(() => isStarted ? Effect.void : forget),
      Effect.flatMap((exit) => Deferred.succeed(ended, exit)),
      Effect.forkDetach
    )

    const handle: WorkerHandle = {
      id: worker,
      ...(standby ? { standby } : {}),
      exit: Deferred.await(ended),
      drain: signal(child, "SIGTERM"),
      kill: signal(child, "SIGKILL"),
      forget,
      resources: Effect.sync(() =>
        child.pid === undefined || child.exitCode !== null || child.signalCode !== null
          ? undefined
          : ProcessTable.resourcesOf(child.pid)
      )
    }
    isStarted = true
    return handle
  })

  const orphans = yield* Orphans.find({ records, pipes, folders, groups, log })

  const prepare: WorkerPool["Service"]["prepare"] = ({ source }) =>
    source.type === "handler" && existsSync(source.file) ? programOptions.entry.prepare(resolve(source.file)) : Effect.void

  const pool = WorkerPool.of({ supports: ["handler", "command"], prepare, start, orphans })
  return Context.make(WorkerPool, pool).pipe(
    Context.add(CodeArtifacts, CodeArtifacts.of({ freeze: frozen.freeze, retain: frozen.retain })),
    Context.add(CodeTransfer, CodeTransfer.of(frozen.transfer))
  )
})

/** The pool, and the store of the code that it runs. Fails when its records cannot be stored in `dataDir`. */
export const layer = (options: Options): Layer.Layer<WorkerPool | CodeArtifacts | CodeTransfer, PoolError> =>
  Layer.effectContext(layerOf(options))
