/**
 * Workers as child processes of the platform: the embedded default.
 *
 * ```
 *   platform ---- Ctrl-C in its terminal reaches it alone, and it drains
 *     +-- worker      own session and process group; stdin closed, stdout and stderr read line by line
 *           +-- whatever it starts: gets what the group gets (SIGTERM, SIGKILL), and dies with the worker
 * ```
 *
 * It uses `node:child_process` and not `effect/process`: an exit there is a code, and this needs the signal too, and the record of the worker
 * has to be written in the same breath as it is started (see `WorkerRecords`).
 *
 * Left on disk, in `dataDir`: `workers/` (one record a running worker, see `OrphanSweep`) and `compile-cache/` (V8's code cache, which makes
 * later starts of a handler faster) and `bundles/` (one a handler, see `HandlerBundle`). The last two are safe to delete.
 */
import * as LogTail from "@stint/pool/LogTail"
import * as ParsedLogLine from "@stint/pool/ParsedLogLine"
import { NoCapacity, PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import { maskOf, WorkerLog } from "@stint/pool/WorkerLog"
import { type StartRequest, type WorkerHandle, WorkerPool } from "@stint/pool/WorkerPool"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { type ChildProcessByStdio, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { join, resolve } from "node:path"
import type { Readable } from "node:stream"
import * as HandlerEntryPoint from "./HandlerEntryPoint.ts"
import * as OrphanSweep from "./OrphanSweep.ts"
import * as ProcessTable from "./ProcessTable.ts"
import { spawnError, type WorkerCommand, workerCommandOf } from "./WorkerCommand.ts"
import { readLines } from "./WorkerOutput.ts"
import * as WorkerRecords from "./WorkerRecords.ts"

/** Where and how the pool starts its workers. */
export interface Options {
  /** Where records and the compile cache are kept. One platform at a time. */
  readonly dataDir: string
  /** Keep V8's code cache between starts. Default: true; costs some megabytes a handler and saves most of its compile time. */
  readonly compileCache?: boolean
  /**
   * Run handlers as bundles once they are made. Default: true; a bundle starts several times faster than hundreds of source files. False runs
   * them from their sources always.
   */
  readonly bundle?: boolean
  /**
   * Options of Node for handlers. Default: none. `--enable-source-maps` gives true lines in the stack traces of handlers that were compiled
   * before; TypeScript that runs as it is needs it not, and bundles have it.
   */
  readonly nodeOptions?: ReadonlyArray<string>
  /** How long workers of an earlier platform may take to finish their jobs before they are killed. Default: 5 minutes. */
  readonly orphanGrace?: Duration.Input
}

type Child = ChildProcessByStdio<null, Readable, Readable>

/** How long the pipes of a dead worker are read, for its last lines, while somebody else holds them open. */
const FINAL_OUTPUT_WAIT = "1 second"

/** How long a killed worker's end is waited for. Only a process that the system itself cannot end takes longer. */
const KILL_WAIT = Duration.seconds(5)

/** How long workers of an earlier platform may still take when this one stops. Its own have had their grace by then. */
const ORPHAN_SHUTDOWN_GRACE = Duration.seconds(5)

/** What a line says, without the form that loggers give it. */
const messageOf = (text: string): string => ParsedLogLine.parse({ stream: "stderr", text }).message

const layerOf = Effect.fnUntraced(function*(options: Options) {
  const dataDir = resolve(options.dataDir)
  const log = yield* WorkerLog
  const platform = ProcessTable.identityOf(process.pid) ?? null
  const programOptions = {
    compileCache: options.compileCache === false ? undefined : join(dataDir, "compile-cache"),
    nodeOptions: options.nodeOptions ?? [],
    entry: options.bundle === false ? HandlerEntryPoint.withoutBundles : yield* HandlerEntryPoint.make(join(dataDir, "bundles"))
  }
  const records = yield* Effect.mapError(WorkerRecords.make(dataDir), (cause) =>
    new PoolError({
      reason: new PoolUnavailable({
        problem: `its records cannot be kept in ${join(dataDir, "workers")} (${cause.message})`,
        hint: "Make the data folder writable, or use another one."
      })
    }))

  /** Starts the process and writes its record; `onExit` is called once, when it is gone. */
  const launch = (program: WorkerCommand, { endpoint, worker }: StartRequest, onExit: (child: Child, exit: WorkerExit) => void) =>
    Effect.callback<Child, PoolError>((resume) => {
      const refused = (error: Error) =>
        resume(Effect.fail(
          spawnError(program, endpoint.id, error) ??
            new PoolError({ reason: new NoCapacity({ problem: `the system says ${error.message}` }) })
        ))
      let child: Child
      try {
        child = spawn(program.path, program.args, {
          cwd: program.directory,
          env: program.environment,
          detached: true,
          stdio: ["ignore", "pipe", "pipe"],
          windowsHide: true
        })
      } catch (error) {
        return refused(error instanceof Error ? error : new Error(String(error)))
      }
      child.once("error", refused)
      const { pid } = child
      if (pid === undefined) return
      let unrecorded: unknown
      try {
        records.write({ worker, endpoint: endpoint.id, pid, identity: ProcessTable.identityOf(pid) ?? null, platform })
      } catch (error) {
        unrecorded = error
      }
      child.once("exit", (code, signal) => {
        // Its group is its own, and nobody is in it whom the worker did not start.
        ProcessTable.signal(-pid, "SIGKILL")
        onExit(
          child,
          code !== null
            ? { _tag: "Exited", code, log: [] }
            : { _tag: "Killed", signal: signal ?? "SIGKILL", outOfMemory: false, log: [] }
        )
      })
      child.once("spawn", () =>
        resume(
          unrecorded === undefined
            ? Effect.succeed(child)
            : Effect.as(
              Effect.logWarning(
                `Worker ${worker} cannot be recorded in ${
                  join(dataDir, "workers")
                }: if the platform is killed, it will not be found again.`,
                unrecorded
              ),
              child
            )
        ))
    })

  const start = Effect.fn("ProcessPool.start")(function*(request: StartRequest) {
    const { endpoint, worker } = request
    const program = yield* workerCommandOf(request, programOptions)
    const gone = yield* Deferred.make<WorkerExit>()
    const ended = yield* Deferred.make<WorkerExit>()

    /** Signals the whole group, as long as its number is the worker's. */
    const signal = (child: Child, name: "SIGTERM" | "SIGKILL") =>
      Effect.sync(() => {
        if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) ProcessTable.signal(-child.pid, name)
      })

    const child = yield* Effect.acquireRelease(
      launch(program, request, (_, exit) => Deferred.doneUnsafe(gone, Effect.succeed(exit))),
      (child) =>
        signal(child, "SIGKILL").pipe(
          Effect.andThen(Effect.timeoutOption(Effect.interruptible(Deferred.await(ended)), KILL_WAIT))
        )
    )

    const tail = LogTail.make()
    const mask = maskOf(request.variables)
    const readOutput = (stream: "stdout" | "stderr") =>
      Effect.forkDetach(readLines(child[stream], (line) =>
        Effect.suspend(() => {
          const text = mask(line)
          tail.add(text)
          return log.write({ endpoint: endpoint.id, worker, stream, text })
        })))
    // On their own, not in the scope: they end with the process, whose last lines are wanted also when the scope is what ends it.
    const readers = [yield* readOutput("stdout"), yield* readOutput("stderr")]
    yield* Deferred.await(gone).pipe(
      Effect.tap(() => Effect.timeoutOption(Fiber.awaitAll(readers), FINAL_OUTPUT_WAIT)),
      Effect.tap(() => Fiber.interruptAll(readers)),
      Effect.tap(() =>
        Effect.sync(() => {
          child.stdout.destroy()
          child.stderr.destroy()
        })
      ),
      Effect.tap(() => Effect.ignore(Effect.try(() => records.remove(worker)))),
      Effect.flatMap((exit) => Deferred.succeed(ended, { ...exit, log: tail.lines().map(messageOf) })),
      Effect.forkDetach
    )

    const handle: WorkerHandle = {
      id: worker,
      exit: Deferred.await(ended),
      drain: signal(child, "SIGTERM"),
      kill: signal(child, "SIGKILL")
    }
    return handle
  })

  const orphans = OrphanSweep.make(records, Duration.fromInputUnsafe(options.orphanGrace ?? "5 minutes"))
  const sweeping = yield* orphans.run.pipe(
    Effect.catchDefect((defect) => Effect.logError("Workers of an earlier run were not looked for.", defect)),
    Effect.forkScoped
  )
  yield* Effect.addFinalizer(() =>
    Effect.andThen(
      orphans.shortenGrace(ORPHAN_SHUTDOWN_GRACE),
      Effect.timeoutOption(Effect.interruptible(Fiber.await(sweeping)), Duration.sum(ORPHAN_SHUTDOWN_GRACE, KILL_WAIT))
    )
  )

  const prepare: WorkerPool["Service"]["prepare"] = ({ source }) =>
    source.type === "handler" && existsSync(source.file) ? programOptions.entry.prepare(resolve(source.file)) : Effect.void

  return WorkerPool.of({ supports: ["handler", "command"], prepare, start })
})

/** The pool. Fails when its records cannot be kept in `dataDir`. */
export const layer = (options: Options): Layer.Layer<WorkerPool, PoolError> => Layer.effect(WorkerPool, layerOf(options))
