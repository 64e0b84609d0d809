/**
 * Runs a program on this machine, and reads its output line by line.
 */
import { MAX_SECRET_BYTES } from "@stint/contract/Secret"
import * as Effect from "effect/Effect"
import { type ChildProcess, spawn } from "node:child_process"
import process from "node:process"
import { StringDecoder } from "node:string_decoder"

/** A program to run. */
export interface ProgramRequest {
  readonly command: string
  readonly args: ReadonlyArray<string>
  readonly cwd?: string
  /** Variables in addition to those of this process, which are passed on without the platform's own. */
  readonly env?: Readonly<Record<string, string>>
  /** Masks secrets in each line before it is cut, because a partial secret would not be found. */
  readonly mask?: (text: string) => string
  /** Receives each masked line of both outputs. */
  readonly onLine?: (line: string) => void
  /** The time between SIGTERM and SIGKILL when the effect is interrupted. Milliseconds. Default: 5 s. */
  readonly stopGraceMs?: number
}

/** How a program ended. */
export interface ProgramEnd {
  /** Undefined when a signal ended the program. */
  readonly code: number | undefined
  readonly signal: string | undefined
  /** Its whole standard output, at most {@link MAX_OUTPUT} characters. */
  readonly output: string
  /** The last lines of both outputs, masked. */
  readonly tail: ReadonlyArray<string>
  /** Set when the program could not be started. */
  readonly error?: string
}

/** The maximum standard output that is kept, in characters: enough for the names of a million files. */
const MAX_OUTPUT = 64 * 1024 * 1024

/** The number of last lines that are kept. */
const TAIL_LINES = 40

/** Longer lines are cut. Characters. */
const MAX_LINE = 4_000

/** The maximum length of a masked form of a secret. JSON encodes a byte with up to 6 characters. */
const LONGEST_SECRET = 6 * MAX_SECRET_BYTES

/** The maximum number of characters that are read from an unfinished line. The rest is dropped. */
const MAX_OPEN = 2 * LONGEST_SECRET

/** The default of `stopGraceMs`. */
const STOP_GRACE = 5_000

/** The variables of this process, without the platform's own: they may contain its key. */
const inherited = (): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) =>
      value === undefined || name.startsWith("STINT_") ? [] : [[name, value]]
    )
  )

/** Splits chunks into masked lines. A carriage return ends a line, too: progress bars overwrite their line. */
const lineSplitter = (onLine: (line: string) => void, mask: (text: string) => string) => {
  const decoder = new StringDecoder("utf8")
  let open = ""
  let isDropped = false
  const cut = (text: string) => `${text.slice(0, MAX_LINE)} [cut]`
  const append = (text: string) => {
    if (isDropped) return
    open += text
    if (open.length <= MAX_OPEN) return
    // The last characters may be a part of a secret.
    onLine(cut(mask(open).slice(0, -LONGEST_SECRET)))
    isDropped = true
  }
  const finish = () => {
    const line = isDropped ? "" : mask(open).trimEnd()
    if (line !== "") onLine(line.length > MAX_LINE ? cut(line) : line)
    open = ""
    isDropped = false
  }
  return {
    push: (chunk: Buffer) => {
      const [rest = "", ...lines] = decoder.write(chunk).split(/[\r\n]/)
      append(rest)
      for (const line of lines) {
        finish()
        append(line)
      }
    },
    end: () => {
      append(decoder.end())
      finish()
    }
  }
}

/**
 * Runs the program, and ends it together with its child processes when the platform is killed: the standard input is a pipe that only the
 * platform holds open.
 */
const WITH_PLATFORM =
  `exec 3<&0 </dev/null; (cat <&3; kill -TERM 0) >/dev/null 2>&1 & "$@" 3<&-; code=$?; kill $! 2>/dev/null; exit $code`

/** The exit code of a shell for a program that does not exist. */
const NO_PROGRAM = 127

/** Signals the program and its child processes, which form a separate process group. */
const signalGroup = (child: ChildProcess, signal: NodeJS.Signals): void => {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // The group has ended.
  }
}

/** Runs a program until it has ended. Interruption stops the program, and waits until it has ended. */
export const run = (
  { args, command, cwd, env, mask = (text) => text, onLine, stopGraceMs = STOP_GRACE }: ProgramRequest
): Effect.Effect<ProgramEnd> =>
  Effect.callback<ProgramEnd>((resume) => {
    let output = ""
    const tail: Array<string> = []
    const keep = (line: string) => {
      tail.push(line)
      if (tail.length > TAIL_LINES) tail.shift()
      onLine?.(line)
    }
    const end = (rest: Partial<ProgramEnd>): ProgramEnd => ({ code: undefined, signal: undefined, ...rest, output, tail })
    const child = spawn("/bin/sh", ["-c", WITH_PLATFORM, "stint-build", command, ...args], {
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...inherited(), ...env },
      ...(cwd === undefined ? {} : { cwd })
    })
    const out = lineSplitter(keep, mask)
    const err = lineSplitter(keep, mask)
    child.stdin.on("error", () => undefined)
    child.stdout.on("data", (chunk: Buffer) => {
      if (output.length < MAX_OUTPUT) output += chunk.toString("utf8")
      out.push(chunk)
    })
    child.stderr.on("data", err.push)
    child.once("error", (error) => resume(Effect.succeed(end({ error: error.message }))))
    const closed = new Promise<void>((done) => {
      child.once("error", () => done())
      child.once("close", (code, signal) => {
        out.end()
        err.end()
        resume(Effect.succeed(end({
          code: code ?? undefined,
          signal: signal ?? undefined,
          ...(code === NO_PROGRAM ? { error: tail.at(-1) ?? `${command} does not exist` } : {})
        })))
        done()
      })
    })
    return Effect.promise(async () => {
      signalGroup(child, "SIGTERM")
      const timer = setTimeout(() => {
        signalGroup(child, "SIGKILL")
        // A process that left the group may keep the outputs open forever.
        child.stdout.destroy()
        child.stderr.destroy()
      }, stopGraceMs)
      await closed
      clearTimeout(timer)
    })
  })

/** Whether a program is installed. */
export const isInstalled = (command: string): Effect.Effect<boolean> =>
  Effect.map(run({ command, args: ["--version"] }), ({ error }) => error === undefined)
