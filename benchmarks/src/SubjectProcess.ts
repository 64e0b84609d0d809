/**
 * A subject in a process of its own, so that it shares neither heap nor event loop with those it is compared with.
 *
 * ```
 *   benchmark   --{ jobs, lanes }-->   subject    one round; the process and its data stay for the next
 *               <-- { millis, cpu } -
 * ```
 */
import * as Schema from "effect/Schema"
import { type ChildProcess, fork } from "node:child_process"
import process from "node:process"

/** What one round asks for. */
export interface Load {
  /** How many jobs go through. */
  readonly jobs: number
  /** How many are on their way at once. */
  readonly lanes: number
}

/** In the subject's process: `run` puts jobs through and returns the milliseconds until its storage says that all are done. */
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
  const leave = async () => {
    await end()
    process.exit(0)
  }
  process.on("message", (message: Load | "end") => void (message === "end" ? leave() : answer(message)))
  process.send?.("ready")
}

/** What a round came to. */
interface Figures {
  /** Jobs a second. */
  readonly rate: number
  /** Microseconds of processor that the subject's process took for a job. A server that it talks to is not in it. */
  readonly cpu: number
}

/** A subject that is up. */
export interface Running {
  readonly round: (load: Load) => Promise<Figures>
  readonly end: () => Promise<void>
}

const nextMessage = (child: ChildProcess): Promise<unknown> =>
  new Promise((heard, failed) => {
    const onExit = (code: number | null) => failed(new Error(`${child.spawnargs.slice(1).join(" ")} ended with ${code}`))
    child.once("exit", onExit)
    child.once("message", (message) => {
      child.off("exit", onExit)
      heard(message)
    })
  })

const decode = Schema.decodeUnknownSync(Schema.Struct({ millis: Schema.Number, cpuMicros: Schema.Number }))

/** Starts the process of a subject: a file that calls {@link serveSubject}. */
export const startSubject = async (file: string, args: ReadonlyArray<string>): Promise<Running> => {
  const child = fork(file, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] })
  await nextMessage(child)
  return {
    round: async (load) => {
      child.send({ ...load })
      const answer = await nextMessage(child)
      if (typeof answer === "object" && answer !== null && "failed" in answer) throw new Error(String(answer.failed))
      const { cpuMicros, millis } = decode(answer)
      return { rate: load.jobs / (millis / 1000), cpu: cpuMicros / load.jobs }
    },
    end: async () => {
      const ended = new Promise((gone) => child.once("exit", gone))
      child.send("end")
      await ended
    }
  }
}

/** What goes in: 256 B of JSON. */
export const INPUT = { text: "x".repeat(256 - `{"text":""}`.length) }

/** What comes out: 64 B of JSON. */
export const OUTPUT = { text: "y".repeat(64 - `{"text":""}`.length) }
