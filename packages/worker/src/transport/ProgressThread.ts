/**
 * The main thread's side of progress that the heartbeat thread sends. The thread sends it at once, even while a handler blocks the main
 * thread (docs/spec/progress.md#reporting-progress).
 *
 * ```
 *   main thread                                      heartbeat thread
 *     open, update, end, abort  --- message port -->   one ProgressSender per job --> POST job-done
 *     logs, end of a job        <-- message port ---
 * ```
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { MessagePort } from "node:worker_threads"
import type { ProgressSender } from "./ProgressSender.ts"

/** Where a job's progress is sent. */
export interface ProgressAddress {
  readonly url: string
  readonly headers: { readonly [name: string]: string }
}

/** A message to the thread. `key` identifies the sender of a job. */
export type ProgressCommand =
  | {
    readonly key: number
    readonly command: "open"
    readonly address: ProgressAddress
    readonly interval: number
    /** Shared with the thread: 1 when the job has ended. The thread then sends no further value, even before it receives the next message. */
    readonly stopped: Int32Array
  }
  | { readonly key: number; readonly command: "update"; readonly text: string }
  | { readonly key: number; readonly command: "end" | "abort" }

/** A message from the thread. Without `message`, the job's last value is no longer in flight. */
export interface ProgressEvent {
  readonly key: number
  readonly level?: "DEBUG" | "WARN"
  readonly message?: string
}

export interface ProgressThread {
  /** Connects a new thread, which receives the returned port. The senders of the previous thread end. */
  readonly connect: () => MessagePort
  /** Opens the sender for a job. Returns undefined when no thread is connected. */
  readonly open: (
    address: ProgressAddress,
    interval: number,
    log: (level: "DEBUG" | "WARN", message: string) => void
  ) => ProgressSender | undefined
}

interface Open {
  readonly log: (level: "DEBUG" | "WARN", message: string) => void
  ended: (() => void) | undefined
}

/** Makes the main thread's side. The connection closes with the scope. */
export const make: Effect.Effect<ProgressThread, never, Scope.Scope> = Effect.gen(function*() {
  let port: MessagePort | undefined
  let keys = 0
  const open = new Map<number, Open>()

  const disconnect = () => {
    port?.close()
    port = undefined
    const ended = [...open.values()]
    open.clear()
    for (const one of ended) one.ended?.()
  }
  yield* Effect.addFinalizer(() => Effect.sync(disconnect))

  const received = ({ key, level, message }: ProgressEvent) => {
    const one = open.get(key)
    if (one === undefined) return
    if (level !== undefined && message !== undefined) return one.log(level, message)
    open.delete(key)
    one.ended?.()
  }

  return {
    connect: () => {
      disconnect()
      const { MessageChannel } = process.getBuiltinModule("node:worker_threads")
      const { port1, port2 } = new MessageChannel()
      port1.on("message", received)
      port1.unref()
      port = port1
      return port2
    },
    open: (address, interval, log) => {
      const connected = port
      if (connected === undefined) return undefined
      const key = ++keys
      const send = (command: ProgressCommand) => connected.postMessage(command)
      const stopped = new Int32Array(new SharedArrayBuffer(4))
      open.set(key, { log, ended: undefined })
      send({ key, command: "open", address, interval, stopped })
      return {
        update: (text) => send({ key, command: "update", text }),
        // Only the thread knows whether a value is in flight.
        isIdle: () => !open.has(key),
        end: (ended) => {
          const one = open.get(key)
          if (one === undefined) return ended()
          Atomics.store(stopped, 0, 1)
          one.ended = ended
          send({ key, command: "end" })
        },
        abort: () => {
          Atomics.store(stopped, 0, 1)
          if (open.delete(key)) send({ key, command: "abort" })
        }
      }
    }
  }
})
