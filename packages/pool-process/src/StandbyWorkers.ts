/**
 * Processes that are started before they are needed: Node is running in them, with Stint and Effect loaded, so a worker's start costs only the import
 * of its handler.
 *
 * ```
 *   spawn --> loads the runtime --"ready"--> waiting --assignment--> "ok" --> imports the program: from here on, it is the worker
 *                                      |            |
 *                                      |            +--refused, or no response--> killed; the worker gets a new process
 *                                      +--the platform has ended, even by SIGKILL--> exits by itself
 * ```
 *
 * A standby has run no code but {@link PROGRAM} and the runtime chunk of a bundle: the modules of Stint and Effect that its handler uses
 * (`RuntimeChunk`). A module cannot be shared between bundles, so each standby loads the chunk of a program that was started recently. A worker with
 * another program may run in it, too, but loads its own modules. A standby knows no endpoint, key or secret until it is assigned. It serves one worker and
 * ends with it. The assignment contains what a new process would receive: working directory, environment and program.
 *
 * Node and the system's loader read some variables only when a process starts. A worker for which one of them differs gets a new process, as does
 * every worker while no standby is waiting. `/proc/<pid>/environ` still shows the standby's environment, so the worker's record contains the
 * standby's name.
 *
 * A standby is replaced after a pause, so that the next one does not compete with the start of the worker for the CPU.
 */
import { ENVIRONMENT_AT_START } from "@stint/contract/WorkerProtocol"
import type { OutputSource } from "@stint/pool/WorkerOutput"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { chmodSync, existsSync, renameSync, writeFileSync } from "node:fs"
import { Socket } from "node:net"
import { dirname, join } from "node:path"
import * as OutputPipes from "./OutputPipes.ts"
import * as ProcessTable from "./ProcessTable.ts"
import { runtimeIn } from "./RuntimeChunk.ts"
import type { WorkerCommand } from "./WorkerCommand.ts"
import type { BundlePermissions, WorkerUser } from "./WorkerUser.ts"

/** How long a standby may take to accept its assignment. After that, the worker gets a new process. */
const ACCEPT_LIMIT = "2 seconds"

/**
 * The program of a standby. Its arguments are the file descriptor of the connection to the platform, and the runtime chunk, if there is one. Text in
 * a file, because another user may be unable to read the platform's installation. A standby that cannot load the chunk waits without it.
 *
 * It loads the Node modules that a worker uses, but not with `import`, which reads all exports of `node:http` and therefore loads Node's HTTP
 * client twice.
 */
const PROGRAM = `
const [, , number, runtime] = process.argv
const descriptor = Number(number)
const { writeSync } = process.getBuiltinModule("node:fs")
const { pathToFileURL } = process.getBuiltinModule("node:url")
const { Socket } = process.getBuiltinModule("node:net")
for (const name of ["http", "async_hooks", "crypto", "os", "worker_threads", "child_process"]) process.getBuiltinModule("node:" + name)
if (runtime !== undefined) await import(pathToFileURL(runtime).href).catch(() => {})

const control = new Socket({ fd: descriptor })
const assignment = await new Promise((assigned) => {
  const exit = () => process.exit(0)
  let text = ""
  control.setEncoding("utf8")
  control.on("data", (part) => {
    text += part
    if (text.endsWith("\\n")) assigned(text)
  })
  control.on("error", exit)
  control.on("close", exit)
  writeSync(descriptor, "ready\\n")
})
control.removeAllListeners()
control.on("error", () => {})
const { directory, environment, program } = JSON.parse(assignment)
try {
  process.chdir(directory)
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, environment)
  globalThis[Symbol.for("${ENVIRONMENT_AT_START}")] = environment
  process.argv.splice(1, process.argv.length, program)
  writeSync(descriptor, "ok\\n")
} catch {
  // The user may not enter the folder, or the platform has ended.
  process.exit(1)
}
control.destroy()
await import(pathToFileURL(program).href)
`

/** The variables that are read only when a process starts. `NODE_ENV` is not one: only programs read it. */
const READ_AT_START = /^(?:NODE_(?!ENV$)|UV_|LD_|DYLD_|MALLOC_|GLIBC_|OPENSSL_|SSL_CERT_|ICU_|LANG|LC_|TZ)/

/** Whether a standby with this environment can run the program. */
export const fits = (
  program: Pick<WorkerCommand, "environment" | "isBundle">,
  environment: WorkerCommand["environment"]
): boolean =>
  program.isBundle &&
  Object.keys({ ...program.environment, ...environment }).every((name) =>
    !READ_AT_START.test(name) || program.environment[name] === environment[name]
  )

/** A standby that became the process of a worker. */
export interface AssignedStandby {
  readonly pid: number
  readonly child: ChildProcess
  readonly sources: Readonly<Record<"stdout" | "stderr", OutputSource>>
}

/** A waiting process. */
interface Standby extends AssignedStandby {
  readonly name: string
  /** The bundle whose runtime chunk it has loaded. */
  readonly bundle: string | undefined
  /** The connection over which it is assigned. */
  readonly control: Socket
  /** Completes with its next message; false when it has ended. */
  answer: Deferred.Deferred<boolean>
}

/** How to make standbys. */
export interface Options {
  /** The number of waiting standbys. 0: none are started. */
  readonly count: number
  /** The folder for the program, which `user` can read. */
  readonly folder: string
  readonly permissions: BundlePermissions
  /** The Node options for a handler that runs from its bundle. */
  readonly nodeOptions: ReadonlyArray<string>
  /** What workers inherit. */
  readonly environment: Readonly<Record<string, string>>
  readonly user: WorkerUser | undefined
  readonly pipes: OutputPipes.OutputPipes
  /** The pause between taking a standby and starting the next one. Default: 1 s, by which time most workers have started. */
  readonly replaceAfter?: Duration.Input
  /** The pause after a standby could not be started. Default: 1 min. */
  readonly retryAfter?: Duration.Input
}

/** The standbys that run as one user. */
export interface StandbyWorkers {
  /**
   * Makes a waiting standby the process of a worker. Undefined when none fits: the caller then starts a process. `record` is called before
   * the program runs.
   */
  readonly assign: (
    program: WorkerCommand,
    worker: string,
    record: (standby: { readonly pid: number; readonly name: string }) => void
  ) => Effect.Effect<AssignedStandby | undefined>
}

const spawnStandby = (
  name: string,
  file: string,
  bundle: string | undefined,
  output: OutputPipes.OpenPipes | undefined,
  options: Options
): Standby | undefined => {
  const { environment, nodeOptions, user } = options
  const descriptors = output?.descriptors ?? ["pipe" as const, "pipe" as const]
  const runtime = bundle === undefined ? [] : [runtimeIn(bundle)]
  const position = 1 + descriptors.length
  try {
    const child = spawn(process.execPath, [...nodeOptions, file, String(position), ...runtime], {
      cwd: "/",
      env: { ...environment, [OutputPipes.MARK]: name },
      detached: true,
      stdio: ["ignore", ...descriptors, "pipe"],
      windowsHide: true,
      ...(user === undefined ? {} : { uid: user.uid, gid: user.gid })
    })
    // The connection's `close` event also reports the end of the process.
    child.on("error", () => {})
    const control = child.stdio[position]
    if (child.pid === undefined || !(control instanceof Socket)) return undefined
    const sources = output?.sources ??
      { stdout: OutputPipes.sourceOf(child.stdout), stderr: OutputPipes.sourceOf(child.stderr) }
    const standby: Standby = { name, bundle, pid: child.pid, child, control, sources, answer: Deferred.makeUnsafe() }
    const answered = (well: boolean) => () => Deferred.doneUnsafe(standby.answer, Effect.succeed(well))
    control.on("error", answered(false))
    control.on("close", answered(false))
    control.on("data", answered(true))
    return standby
  } catch {
    return undefined
  } finally {
    output?.release()
  }
}

/** Starts the standbys, and replaces those that were taken or have ended. Closing the scope kills the waiting ones. */
export const make = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<StandbyWorkers, never, Scope.Scope> {
  const { count, environment, folder, permissions, pipes } = options
  if (count === 0) return { assign: () => Effect.succeed(undefined) }
  const file = join(folder, "standby.mjs")
  const standbys = new Set<Standby>()
  /** The bundles of the programs that were started last, the latest one first. Not more than there are standbys. */
  const recent: Array<string> = []
  /** Opened when a standby is missing. */
  const missing = Latch.makeUnsafe()

  const discard = (standby: Standby) => {
    ProcessTable.signal(-standby.pid, "SIGKILL")
    for (const source of Object.values(standby.sources)) source.close()
    pipes.remove(standby.name)
  }
  yield* Effect.addFinalizer(() => Effect.sync(() => standbys.forEach(discard)))

  /** Renamed into place, because a standby of another platform may read the file. */
  const writeProgram = Effect.try(() => {
    const unfinished = `${file}.${randomUUID()}`
    writeFileSync(unfinished, PROGRAM, { mode: permissions.file })
    chmodSync(unfinished, permissions.file)
    renameSync(unfinished, file)
  })

  const remember = (bundle: string) => {
    const position = recent.indexOf(bundle)
    if (position >= 0) recent.splice(position, 1)
    recent.unshift(bundle)
    recent.splice(count)
  }

  /** The bundle for the next standby: the one with the fewest standbys, and among those the latest. Undefined for a generic standby. */
  const nextBundle = (): string | undefined => {
    const waiting = (bundle: string) => Array.from(standbys).filter((standby) => standby.bundle === bundle).length
    return recent.filter((bundle) => existsSync(runtimeIn(bundle))).sort((a, b) => waiting(a) - waiting(b))[0]
  }

  /** Starts a standby, and completes when it is ready for an assignment. Returns false when it ended before that. */
  const startOne = Effect.gen(function*() {
    if (!existsSync(file)) yield* writeProgram
    const name = `standby-${randomUUID()}`
    const output = yield* pipes.make(name)
    const standby = spawnStandby(name, file, nextBundle(), output, options)
    if (standby === undefined) return false
    const discarded = Effect.sync(() => discard(standby))
    if (!(yield* Effect.onInterrupt(Deferred.await(standby.answer), () => discarded))) {
      yield* discarded
      return false
    }
    standby.answer = Deferred.makeUnsafe()
    standby.control.once("close", () => {
      if (!standbys.delete(standby)) return
      discard(standby)
      missing.openUnsafe()
    })
    standbys.add(standby)
    return true
  }).pipe(Effect.orElseSucceed(() => false))

  const keepFull = Effect.gen(function*() {
    // An earlier version of Stint may have written another program.
    yield* Effect.ignore(writeProgram)
    while (true) {
      yield* missing.close
      if (standbys.size >= count) {
        yield* missing.await
        yield* Effect.sleep(options.replaceAfter ?? "1 second")
      } else if (!(yield* startOne)) {
        const pause = Duration.fromInputUnsafe(options.retryAfter ?? "1 minute")
        yield* Effect.logWarning(
          `A standby process could not be started. Workers start without one; trying again in ${Duration.format(pause)}.`
        )
        yield* Effect.sleep(pause)
      }
    }
  })
  yield* Effect.forkScoped(keepFull)

  return {
    assign: Effect.fnUntraced(function*(program, worker, record) {
      const path = program.args.at(-1)
      if (path === undefined || !fits(program, environment)) return undefined
      const bundle = dirname(path)
      remember(bundle)
      const waiting = Array.from(standbys)
      const standby = waiting.find((one) => one.bundle === bundle) ?? waiting.find((one) => one.bundle === undefined) ??
        waiting[0]
      if (standby === undefined) return undefined
      standbys.delete(standby)
      missing.openUnsafe()
      const { control, name, pid } = standby
      const { directory, environment: variables } = program
      const assigned = Effect.try(() => {
        pipes.rename(name, worker)
        record({ pid, name })
        control.write(`${JSON.stringify({ directory, environment: variables, program: path })}\n`)
      }).pipe(Effect.andThen(Deferred.await(standby.answer)), Effect.orElseSucceed(() => false))
      const accepted = yield* Effect.timeoutOrElse(Effect.interruptible(assigned), {
        duration: ACCEPT_LIMIT,
        orElse: () => Effect.succeed(false)
      })
      if (accepted) return standby
      discard(standby)
      pipes.remove(worker)
      return undefined
    })
  }
})
