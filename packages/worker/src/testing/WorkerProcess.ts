/**
 * A worker as a process of its own, for tests of what only a process shows: signals, exit codes, blocked threads, output.
 */
import { spawn } from "node:child_process"

/** How the process is started. */
export interface Options {
  /** The whole environment, apart from what Node needs to find its way. */
  readonly env?: { readonly [name: string]: string }
  readonly args?: ReadonlyArray<string>
  readonly cwd?: string
}

/** How the process ended. */
export interface ProcessExit {
  /** Null where a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A process that was started. */
export interface WorkerProcess {
  readonly pid: number | undefined
  readonly kill: (signal: NodeJS.Signals) => void
  /** What it has written to standard output so far. */
  readonly stdout: () => string
  readonly ended: Promise<ProcessExit>
}

/** Runs a file with this Node. Its user kills it in the end, if it does not end by itself. */
export const start = (file: string, options: Options = {}): WorkerProcess => {
  const child = spawn(process.execPath, [file, ...options.args ?? []], {
    cwd: options.cwd,
    env: { PATH: process.env["PATH"], ...options.env },
    stdio: ["ignore", "pipe", "pipe"]
  })
  let stdout = ""
  let stderr = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text
  })
  return {
    pid: child.pid,
    kill: (signal) => void child.kill(signal),
    stdout: () => stdout,
    ended: new Promise((resolve, reject) => {
      child.on("error", reject)
      child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }))
    })
  }
}
