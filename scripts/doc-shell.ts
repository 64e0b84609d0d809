/**
 * The shell of one page: a bash process that keeps its folder, variables and aliases from block to block. A background program runs until
 * the shell is disposed of.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync, readFileSync, watch, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Readable } from "node:stream"
import { setTimeout as sleep } from "node:timers/promises"
import { stripVTControlCharacters } from "node:util"

/** The exit code of a block, its output on both streams, and the command that failed. */
export interface Ended {
  readonly code: number
  readonly output: string
  readonly failed: string | undefined
}

/** A program that runs in the background. */
export interface Background {
  /** Its output so far. */
  readonly output: () => string
  readonly hasEnded: () => boolean
  /** Resolves to true when the output satisfies the condition, or to false when the program ends first or the timeout elapses. */
  readonly until: (isReached: (output: string) => boolean, timeoutMillis: number) => Promise<boolean>
  /** Sends SIGINT to the program, as Ctrl-C does. */
  readonly interrupt: () => void
}

/**
 * A block ends at its first failed command. The condition excludes the shell's own commands, which are not in a sourced file.
 */
const prologue = `
set -o pipefail
shopt -s expand_aliases
__failed=""
trap '__code=$?; if ((\${#BASH_SOURCE[@]})); then __failed=$BASH_COMMAND; return $__code; fi' ERR
`

export class DocShell implements AsyncDisposable {
  readonly #folder: string
  readonly #bash: ChildProcess
  readonly #exit: Promise<number>
  readonly #waiting = new Map<string, (words: ReadonlyArray<string>) => void>()
  readonly #groups: Array<number> = []
  #count = 0

  /** @param folder for the scripts and outputs of the blocks */
  constructor(options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; readonly folder: string }) {
    this.#folder = options.folder
    mkdirSync(options.folder, { recursive: true })
    this.#bash = spawn("bash", ["--noprofile", "--norc"], {
      cwd: options.cwd,
      env: options.env,
      // Its own process group, so that a block that takes too long can be ended together with its programs.
      detached: true,
      stdio: ["pipe", "ignore", "ignore", "pipe"]
    })
    this.#exit = new Promise((resolve) => {
      this.#bash.on("error", () => resolve(127))
      this.#bash.on("exit", (code) => resolve(code ?? 1))
    })
    const reports = this.#bash.stdio[3]
    if (!(reports instanceof Readable)) throw new Error("bash has no third stream.")
    let rest = ""
    reports.setEncoding("utf8").on("data", (text: string) => {
      const lines = `${rest}${text}`.split("\n")
      rest = lines.pop() ?? ""
      for (const line of lines) {
        const [key = "", ...words] = line.split(" ")
        this.#waiting.get(key)?.(words)
        this.#waiting.delete(key)
      }
    })
    this.#send(prologue)
  }

  #send(text: string): void {
    this.#bash.stdin?.write(`${text}\n`)
  }

  #report(key: string): Promise<ReadonlyArray<string>> {
    return new Promise((resolve) => this.#waiting.set(key, resolve))
  }

  #write(code: string) {
    this.#count += 1
    const file = join(this.#folder, `block-${this.#count}.sh`)
    const output = join(this.#folder, `output-${this.#count}`)
    const failed = join(this.#folder, `failed-${this.#count}`)
    writeFileSync(file, `${code}\n`)
    for (const one of [output, failed]) writeFileSync(one, "")
    return { key: String(this.#count), file, output, failed }
  }

  /** Runs a block to its end. A block that exceeds the timeout ends the shell. */
  async run(code: string, timeoutMillis = 240_000): Promise<Ended> {
    const { failed, file, key, output } = this.#write(code)
    const report = this.#report(key)
    this.#send(
      `__failed=""; . '${file}' >'${output}' 2>&1 </dev/null; __code=$?; printf '%s' "$__failed" >'${failed}'; echo "${key} $__code" >&3`
    )
    const timeout = AbortSignal.timeout(timeoutMillis)
    const late = new Promise<"late">((resolve) => timeout.addEventListener("abort", () => resolve("late")))
    const exit = this.#exit.then(() => "exit" as const)
    const result = await Promise.race([report.then(([code]) => Number(code)), exit, late])
    if (result === "late") {
      if (this.#bash.pid !== undefined) signal(this.#bash.pid, "SIGKILL")
      return { code: 124, output: read(output), failed: `no end within ${timeoutMillis / 1000} s` }
    }
    if (result === "exit") return { code: 1, output: read(output), failed: "the shell has ended" }
    return { code: result, output: read(output), failed: read(failed) || undefined }
  }

  /** Starts a block in the background. */
  async start(code: string): Promise<Background> {
    const { file, key, output } = this.#write(code)
    const started = this.#report(`started-${key}`)
    let hasEnded = false
    const ended = Promise.race([this.#report(key), this.#exit])
    const abort = new AbortController()
    void ended.finally(() => {
      hasEnded = true
      abort.abort()
    })
    // Job control gives the program a process group, which `interrupt` and the end of the page signal.
    this.#send(
      `set -m; { trap 'echo "${key}" >&3' EXIT; trap : INT TERM; . '${file}' >'${output}' 2>&1 </dev/null; } & set +m; echo "started-${key} $!" >&3`
    )
    const group = Number((await started)[0])
    this.#groups.push(group)
    return {
      output: () => read(output),
      hasEnded: () => hasEnded,
      until: (isReached, timeoutMillis) =>
        new Promise((resolve) => {
          const stop = AbortSignal.any([abort.signal, AbortSignal.timeout(timeoutMillis)])
          const check = () => {
            const result = isReached(read(output))
            if (!result && !stop.aborted && !hasEnded) return
            watcher.close()
            resolve(result)
          }
          const watcher = watch(output, check)
          stop.addEventListener("abort", check)
          check()
        }),
      interrupt: () => signal(group, "SIGINT")
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const group of this.#groups.toReversed()) {
      signal(group, "SIGTERM")
      // npm ends before the program that it started, which still has to stop its workers. So the whole group must have ended.
      for (let waited = 0; isRunning(group) && waited < 40_000; waited += 20) await sleep(20)
      signal(group, "SIGKILL")
    }
    this.#bash.stdin?.end()
    if (this.#bash.pid !== undefined) signal(this.#bash.pid, "SIGTERM")
    await this.#exit
  }
}

const read = (file: string) => stripVTControlCharacters(readFileSync(file, "utf8"))

/** Signals a process group. Returns false when it has ended. */
const signal = (group: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(-group, name)
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ESRCH") return false
    throw error
  }
}

const isRunning = (group: number) => signal(group, 0)
