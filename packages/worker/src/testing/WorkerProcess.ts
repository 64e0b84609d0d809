/**
 * A worker in a separate process, for testing signals, exit codes, blocked threads and output.
 */
import { spawn } from "node:child_process"

/** Options for the process. */
export interface Options {
  /** The environment, in addition to `PATH`. */
  readonly env?: { readonly [name: string]: string }
  readonly args?: ReadonlyArray<string>
  readonly cwd?: string
}

/** How the process ended. */
export interface ProcessExit {
  /** Null when a signal ended the process. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A started process. */
export interface WorkerProcess {
  readonly pid: number | undefined
  readonly kill: (signal: NodeJS.Signals) => void
  /** Its standard output so far. */
  readonly stdout: () => string
  readonly ended: Promise<ProcessExit>
}

/** Runs a file with this Node. The caller kills the process if it does not exit. */
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
