/**
 * Runs a subject in a separate process, so that it shares neither heap nor event loop with the other subjects.
 *
 * ```
 *   benchmark   --{ jobs, lanes }-->   subject    one round; the process and its data remain for the next
 *               <-- { millis, cpu } -
 * ```
 */
import * as Schema from "effect/Schema"
import { type ChildProcess, fork } from "node:child_process"
import process from "node:process"

/** The load of one round. */
export interface Load {
  /** Number of jobs. */
  readonly jobs: number
  /** Number of jobs in flight. */
  readonly lanes: number
}

/** Called in the subject's process. `run` processes jobs and returns the milliseconds until the storage counts all of them as done. */
export const serveSubject = (run: (load: Load) => Promise<number>, end: () => Promise<void>): void => {
  const answer = async (load: Load) => {
    const before = process.cpuUsage()
    try {
      const millis = await run(load)
      const { system, user } = process.cpuUsage(before)
      process.send?.({ millis, cpuMicros: system + user })
    } catch (cause) {
      process.send?.({ failed: cause instanceof Error ? cause.stack : String(cause) })
    }
  }
  const exit = async () => {
    await end()
    process.exit(0)
  }
  process.on("message", (message: Load | "end") => void (message === "end" ? exit() : answer(message)))
  process.send?.("ready")
}

/** The figures of a round. */
interface Figures {
  /** Jobs per second. */
  readonly rate: number
  /** CPU time of the subject's process per job, in microseconds. Excludes a separate server. */
  readonly cpu: number
}

/** A running subject. */
export interface Running {
  readonly pid: number
  readonly round: (load: Load) => Promise<Figures>
  readonly end: () => Promise<void>
}

const nextMessage = (child: ChildProcess): Promise<unknown> =>
  new Promise((received, failed) => {
    const onExit = (code: number | null) => failed(new Error(`${child.spawnargs.slice(1).join(" ")} exited with code ${code}`))
    child.once("exit", onExit)
    child.once("message", (message) => {
      child.off("exit", onExit)
      received(message)
    })
  })

const decode = Schema.decodeUnknownSync(Schema.Struct({ millis: Schema.Number, cpuMicros: Schema.Number }))

/** Starts the process of a subject. `file` must call {@link serveSubject}. */
export const startSubject = async (file: string, args: ReadonlyArray<string>): Promise<Running> => {
  const child = fork(file, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] })
  await nextMessage(child)
  return {
    pid: child.pid ?? 0,
    round: async (load) => {
      child.send({ ...load })
      const answer = await nextMessage(child)
      if (typeof answer === "object" && answer !== null && "failed" in answer) throw new Error(String(answer.failed))
      const { cpuMicros, millis } = decode(answer)
      return { rate: load.jobs / (millis / 1000), cpu: cpuMicros / load.jobs }
    },
    end: async () => {
      // It has failed. The servers of the benchmark must be stopped nevertheless.
      if (!child.connected) return
      const ended = new Promise((gone) => child.once("exit", gone))
      child.send("end")
      await ended
    }
  }
}

/** The job input: 256 B of JSON. */
export const INPUT = { text: "x".repeat(256 - `{"text":""}`.length) }

/** The job output: 64 B of JSON. */
export const OUTPUT = { text: "y".repeat(64 - `{"text":""}`.length) }
