/**
 * The pipes through which workers print, which outlive the platform.
 *
 * An anonymous pipe has only the platform as its reader. When the platform is killed, the worker's next line fails with EPIPE, which ends
 * most programs in the middle of a job. A worker of this pool therefore prints into named pipes in the data folder:
 *
 * ```
 *   while the platform runs       worker ==> w-1.out (named pipe) ==> platform
 *   after it was killed           worker ==> w-1.out ==> keeper ==> w-1.out.1000, w-1.out.1001 ...  (the newest 8 are kept)
 *   the next platform             ends the keeper, reads and removes these files, then reads the pipe itself
 *   no other platform in time     the keeper requests that the workers exit: it sends them SIGTERM
 * ```
 *
 * The worker inherits a read end of its own pipes, so that they always have a reader. The keeper is one `sh` per platform. It creates the
 * named pipes, because Node cannot, and otherwise waits for the end of its standard input, which means that the platform has ended. It reads the
 * pipes only after that. The normal path therefore has no additional process, copy or file, and a full pipe still slows down a worker that
 * prints faster than its lines can be stored (docs/decisions/0020-output-of-workers.md).
 *
 * Without `sh`, `mkfifo` and `dd`, or on a file system without named pipes, workers print into anonymous pipes.
 */
import { ENV_PREFIXES, WorkerVariable } from "@stint/contract/WorkerProtocol"
import type { WorkerLine } from "@stint/pool/WorkerLog"
import type { OutputSource } from "@stint/pool/WorkerOutput"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type ChildProcess, spawn } from "node:child_process"
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { Socket } from "node:net"
import { join } from "node:path"
import { Readable } from "node:stream"
import { StringDecoder } from "node:string_decoder"
import * as ProcessTable from "./ProcessTable.ts"

type OutputStream = WorkerLine["stream"]

/** The variable that contains a worker's id. */
export const MARK = `${ENV_PREFIXES[0]}${WorkerVariable.podId}`

/** The suffixes of the pipes. */
const STREAMS: Readonly<Record<OutputStream, string>> = { stdout: "out", stderr: "err" }

/**
 * The keeper's program. It receives one worker's name per line, creates the worker's pipes and replies with `ok` or `no`.
 *
 * At the end of its input it copies each pipe to files. `dd` ends a file after 256 reads of up to 4,096 bytes, so a file has at most 1 MiB.
 * `5<>` opens both ends, because opening only the read end of a pipe whose worker has exited would wait forever. If a pipe's files cannot be
 * written, for example because the disk is full, its output is read and discarded.
 *
 * The next platform ends the keeper. When none has done so after $2 seconds, the keeper sends SIGTERM to the workers: they would hold their
 * memory and their GPU for a platform that may never return. It reads the records before it waits, because the folder may be deleted meanwhile. A
 * worker whose platform was killed before it could write the record has pipes and no record. It also ends the processes that an exited worker left behind (see
 * `DetachedChildren`). It takes a worker's pid from its record, and checks the worker's id in the environment of the process, because the pid may
 * belong to another process by now. The environment of a process that was a standby contains the standby's name instead, which is the record's
 * `mark`. Without `/proc` it sends nothing.
 */
const KEEPER = `
cd "$1" || exit 1
delay=$2
while read -r name; do
  if mkfifo -m 600 "./$name.out" "./$name.err"; then echo ok; else echo no; fi
done
keep() {
  exec 5<>"$1" 3<"$1" 5>&-
  n=1000
  while dd bs=4096 count=256 <&3 >"$1.$n" && [ -s "$1.$n" ]; do
    rm -f "$1.$((n - 8))"
    n=$((n + 1))
  done
  exec cat <&3 >/dev/null
}
for pipe in ./*.out ./*.err; do
  if [ -p "$pipe" ]; then keep "$pipe" & fi
done
is_worker() {
  tr '\\0' '\\n' <"/proc/$1/environ" | grep -qxF "${MARK}=$2"
}
leave() {
  kill -s TERM "$1"
  while is_worker "$1" "$2"; do sleep 1; done
  kill -s KILL -- "-$1"
}
end_rest() {
  for signal in TERM KILL; do
    found=$(grep -slzxF "${MARK}=$1" /proc/[0-9]*/environ)
    [ -n "$found" ] || return
    for file in $found; do
      file=\${file#/proc/}
      kill -s "$signal" "\${file%/environ}"
    done
    [ "$signal" = KILL ] || sleep 2
  done
}
abandon() {
  sleep "$delay"
  if [ -n "$2" ] && is_worker "$2" "$3"; then leave "$2" "$3"; fi
  end_rest "$1"
}
for record in ./*.json; do
  name=\${record#./}
  name=\${name%.json}
  pid=$(sed -n 's/^{[^{}]*"pid":\\([0-9]*\\).*/\\1/p' "$record")
  mark=$(sed -n 's/^{.*"mark":"\\([^"]*\\)".*/\\1/p' "$record")
  abandon "$name" "$pid" "\${mark:-$name}" &
done
for pipe in ./*.out; do
  name=\${pipe#./}
  name=\${name%.out}
  if [ -p "$pipe" ] && [ ! -e "./$name.json" ]; then abandon "$name" & fi
done
wait
`

/** Contains the identities of the keeper and its platform. */
const KEEPER_FILE = "keeper"

/** How long the keeper may take to create the pipes of one worker. After that, the worker prints into anonymous pipes. */
const CREATE_LIMIT = "2 seconds"

/** How often the next platform checks whether the keeper has ended, and for how long. */
const KEEPER_CHECK = "10 millis"
const KEEPER_CHECKS = 100

/** Files without a worker's record are removed at the start, unless they are newer than this, because their worker may be starting. */
const LEFTOVER_MILLIS = 60_000

const SEGMENT = /^(.+)\.(?:out|err)(?:\.\d+)?$/

/** The open pipes of a worker that is about to start. */
export interface OpenPipes {
  /** The file descriptors of the worker, starting at 1. */
  readonly descriptors: ReadonlyArray<number>
  /** Closes the platform's copies of the write ends. Call it once the worker has inherited them. */
  readonly release: () => void
  readonly sources: Readonly<Record<OutputStream, OutputSource>>
}

/** The pipes of one pool. */
export interface OutputPipes {
  /** The workers and standbys of earlier platforms that have pipes and no record. Empty while an earlier platform is still running. */
  readonly unrecorded: ReadonlySet<string>
  /** Creates and opens the named pipes of a new worker; undefined when there are none and the worker must print into anonymous pipes. */
  readonly make: (worker: string) => Effect.Effect<OpenPipes | undefined>
  /** Renames the pipes of a worker, even while they are open. Does nothing when there are none. */
  readonly rename: (from: string, to: string) => void
  /** What a worker of an earlier platform prints: first the files of the keeper, which are removed as they are read, then its pipe. */
  readonly resume: (worker: string, stream: OutputStream) => OutputSource
  /** Removes the pipes and files of a worker that has exited. */
  readonly remove: (worker: string) => void
}

const nameOf = (worker: string): string => encodeURIComponent(worker)

const namesIn = (folder: string): ReadonlyArray<string> => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** A stream of the read end of a pipe. Its end means that no process has the write end open. */
const streamOf = (descriptor: number): Readable => new Socket({ fd: descriptor, readable: true, writable: false })

/** The content of a pipe. Null: the pipe could not be created. */
export const sourceOf = (pipe: Readable | null): OutputSource => ({
  content: pipe ?? Readable.from([]),
  close: () => pipe?.destroy()
})

const openReadEnd = (path: string): number => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)

/** Reads files, removes each one after it was read, and then continues with the stream of a pipe. */
async function* inSequence(files: ReadonlyArray<string>, pipe: Readable | undefined): AsyncGenerator {
  for (const file of files) {
    yield readFileSync(file)
    rmSync(file, { force: true })
  }
  if (pipe !== undefined) yield* pipe
}

/** A running keeper. Responses are sent in the order of the requests. */
interface Keeper {
  readonly request: (name: string) => Effect.Effect<boolean>
  readonly stop: () => void
}

const startKeeper = (folder: string, abandonAfter: Duration.Duration): Keeper | undefined => {
  const waiting: Array<(created: boolean) => void> = []
  let child: ChildProcess
  try {
    child = spawn("sh", ["-c", KEEPER, "stint-output-keeper", folder, String(Duration.toSeconds(abandonAfter))], {
      // Its own session: Ctrl-C in the platform's terminal must not end it.
      detached: true,
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
      stdio: ["pipe", "pipe", "ignore"]
    })
  } catch {
    return undefined
  }
  let running = true
  const end = () => {
    running = false
    for (const resume of waiting.splice(0)) resume(false)
  }
  child.once("error", end)
  child.once("exit", end)
  child.stdin?.on("error", end)
  const decoder = new StringDecoder("utf8")
  child.stdout?.on("data", (data: Buffer) => {
    for (const reply of decoder.write(data).match(/ok|no/g) ?? []) waiting.shift()?.(reply === "ok")
  })
  try {
    record(folder, child.pid)
  } catch {
    // The next platform cannot end this keeper, and reads the pipes together with it.
  }
  // The keeper must not keep the platform's process running.
  child.unref()
  return {
    request: (name) =>
      Effect.callback<boolean>((resume) => {
        if (!running) return resume(Effect.succeed(false))
        waiting.push((created) => resume(Effect.succeed(created)))
        child.stdin?.write(`${name}\n`)
      }).pipe(Effect.timeoutOrElse({ duration: CREATE_LIMIT, orElse: () => Effect.succeed(false) })),
    stop: () => {
      // Not by closing its input: it would then read the pipes of a platform that starts at this moment.
      if (running && child.pid !== undefined) ProcessTable.signal(-child.pid, "SIGKILL")
      rmSync(join(folder, KEEPER_FILE), { force: true })
    }
  }
}

const Identities = Schema.fromJsonString(Schema.Struct({
  keeper: Schema.Struct({ pid: Schema.Int, start: Schema.String }),
  platform: Schema.Struct({ pid: Schema.Int, start: Schema.String })
}))
const decodeIdentities = Schema.decodeUnknownOption(Identities)

/** Records the keeper, so that the next platform can end it. */
const record = (folder: string, keeperPid: number | undefined): void => {
  const keeper = keeperPid === undefined ? undefined : ProcessTable.identityOf(keeperPid)
  const platform = ProcessTable.identityOf(process.pid)
  if (keeper !== undefined && platform !== undefined) {
    writeFileSync(join(folder, KEEPER_FILE), JSON.stringify({ keeper, platform }), { mode: 0o600 })
  }
}

/**
 * Ends the keeper that a killed platform left behind, so that only one process reads the pipes. Returns whether the earlier platform is still
 * running.
 */
const endEarlierKeeper = Effect.fnUntraced(function*(folder: string) {
  const text = yield* Effect.orElseSucceed(Effect.try(() => readFileSync(join(folder, KEEPER_FILE), "utf8")), () => "")
  const known = decodeIdentities(text)
  if (Option.isNone(known)) return false
  const { keeper, platform } = known.value
  if (ProcessTable.isRunning(platform)) return true
  if (!ProcessTable.isRunning(keeper)) return false
  const group = keeper.pid
  // A keeper that ends between its read and its write loses what it has read. So it is stopped while it waits for output, and continues if it has read
  // something before it stopped.
  for (let checks = 0; checks < KEEPER_CHECKS; checks++) {
    const before = ProcessTable.readsOf(group)
    const isWaiting = ProcessTable.isGroupWaiting(group)
    if (isWaiting) ProcessTable.signal(-group, "SIGSTOP")
    yield* Effect.sleep(KEEPER_CHECK)
    if (isWaiting && ProcessTable.isGroupWaiting(group) && ProcessTable.readsOf(group) === before) break
    ProcessTable.signal(-group, "SIGCONT")
  }
  ProcessTable.signal(-group, "SIGTERM")
  ProcessTable.signal(-group, "SIGCONT")
  for (let checks = 0; ProcessTable.isGroupRunning(group) && checks < KEEPER_CHECKS; checks++) yield* Effect.sleep(KEEPER_CHECK)
  return false
})

/**
 * Opens the pipes in `folder`. `isRecorded` returns whether the worker with this encoded name has a record; files of other workers are leftovers.
 * `abandonAfter`: how long the workers wait for the next platform after this one has ended.
 */
export const make = Effect.fnUntraced(function*(
  folder: string,
  isRecorded: (name: string) => boolean,
  abandonAfter: Duration.Duration
): Effect.fn.Return<OutputPipes, never, Scope.Scope> {
  const isShared = yield* endEarlierKeeper(folder)
  const unrecorded = new Set<string>()
  for (const name of namesIn(folder)) {
    const [, worker] = SEGMENT.exec(name) ?? []
    if (worker === undefined || isRecorded(worker)) continue
    if (!isShared) unrecorded.add(worker)
    const file = join(folder, name)
    yield* Effect.ignore(Effect.try(() => {
      if (Date.now() - statSync(file).mtimeMs > LEFTOVER_MILLIS) rmSync(file, { force: true })
    }))
  }
  const keeper = process.platform === "win32" ? undefined : startKeeper(folder, abandonAfter)
  yield* Effect.addFinalizer(() => Effect.sync(() => keeper?.stop()))
  const pathOf = (worker: string, stream: OutputStream) => join(folder, `${nameOf(worker)}.${STREAMS[stream]}`)

  /** Throws when the pipes cannot be opened. */
  const open = (worker: string): OpenPipes => {
    const opened: Array<number> = []
    try {
      const [out, err] = [pathOf(worker, "stdout"), pathOf(worker, "stderr")]
      const reads = [openReadEnd(out), openReadEnd(err)] as const
      opened.push(...reads)
      // Each pipe has a reader now, so opening the write ends does not wait.
      const writes = [openSync(out, constants.O_WRONLY), openSync(err, constants.O_WRONLY)] as const
      return {
        descriptors: [...writes, ...reads],
        release: () => {
          for (const descriptor of writes) closeSync(descriptor)
        },
        sources: { stdout: sourceOf(streamOf(reads[0])), stderr: sourceOf(streamOf(reads[1])) }
      }
    } catch (error) {
      for (const descriptor of opened) closeSync(descriptor)
      throw error
    }
  }

  return {
    unrecorded,
    make: Effect.fnUntraced(function*(worker) {
      const created = keeper !== undefined && (yield* keeper.request(nameOf(worker)))
      return created ? yield* Effect.orElseSucceed(Effect.try(() => open(worker)), () => undefined) : undefined
    }),
    rename: (from, to) => {
      for (const stream of ["stdout", "stderr"] as const) {
        if (existsSync(pathOf(from, stream))) renameSync(pathOf(from, stream), pathOf(to, stream))
      }
    },
    resume: (worker, stream) => {
      const path = pathOf(worker, stream)
      const prefix = `${nameOf(worker)}.${STREAMS[stream]}.`
      const files = namesIn(folder).filter((name) => name.startsWith(prefix))
        .sort((a, b) => Number(a.slice(prefix.length)) - Number(b.slice(prefix.length)))
        .map((name) => join(folder, name))
      let pipe: Readable | undefined
      try {
        pipe = streamOf(openReadEnd(path))
      } catch {
        // The worker prints into an anonymous pipe, which its platform closed when it ended.
      }
      return { content: inSequence(files, pipe), close: () => pipe?.destroy() }
    },
    remove: (worker) => {
      const prefix = `${nameOf(worker)}.`
      for (const name of namesIn(folder)) {
        if (name.startsWith(prefix) && SEGMENT.test(name)) rmSync(join(folder, name), { force: true })
      }
    }
  }
})
