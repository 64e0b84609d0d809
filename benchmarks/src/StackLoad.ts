/**
 * Measures stacks in turn, and prints the figures of each operation.
 *
 * All stacks run throughout. A measurement starts only after the previous stack has finished all its jobs. With few cores, the CPU time of the
 * whole stack per request is the better figure (Linux only). It includes the execution of the job, even for `run`, because the stack executes
 * accepted jobs while it accepts more.
 */
import * as Schema from "effect/Schema"
import { fork } from "node:child_process"
import process from "node:process"
import { setTimeout as pause } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import type { Operation, Stack } from "./HttpStacks.ts"
import { type Load, Measurement } from "./PeerMessages.ts"
import { startCost } from "./ProcessUsage.ts"
import { formatFigure, median, ratioOf, tableOf } from "./Rounds.ts"

const settle = async (stack: Stack): Promise<void> => {
  const until = performance.now() + 60_000
  while (await stack.left() > 0) {
    if (performance.now() > until) throw new Error(`${stack.name} did not finish its jobs within 60 s`)
    await pause(20)
  }
}

/** The figures of one stack and operation in one round. */
interface Figures {
  readonly perSecond: number
  readonly donePerSecond: number
  readonly p50: number
  readonly p99: number
  readonly micros: number
}

const startLoad = () => {
  const child = fork(fileURLToPath(import.meta.resolve("./peers-load.ts")), [], {
    stdio: ["ignore", "inherit", "inherit", "ipc"]
  })
  const run = (request: Load): Promise<Measurement> =>
    new Promise((received, failed) => {
      const onExit = () => failed(new Error("the load generator exited"))
      child.once("exit", onExit)
      child.once("message", (message) => {
        child.off("exit", onExit)
        received(Schema.decodeUnknownSync(Measurement)(message))
      })
      child.send(request)
    })
  return {
    measure: async (stack: Stack, operation: Operation, connections: number, millis: number): Promise<Figures> => {
      const costOf = startCost(stack.pids)
      const started = performance.now()
      const measured = await run({ host: stack.host, path: stack.path(operation), connections, millis })
      await settle(stack)
      const seconds = (performance.now() - started) / 1000
      return {
        perSecond: measured.requests / measured.millis * 1000,
        donePerSecond: measured.requests / seconds,
        p50: measured.p50,
        p99: measured.p99,
        micros: costOf(measured.requests).cpuMicros
      }
    },
    end: () => {
      if (child.connected) child.disconnect()
    }
  }
}

/** What is measured. */
interface Comparison {
  readonly operations: ReadonlyArray<Operation>
  readonly connections: ReadonlyArray<number>
  readonly rounds: number
  /** The duration of each measurement. */
  readonly millis: number
}

/** Starts the stacks, measures them in turn, prints a table for each operation and number of connections, and ends the stacks. */
export const compareStacks = async (
  starts: ReadonlyArray<() => Promise<Stack | ReadonlyArray<Stack>>>,
  { connections, millis, operations, rounds }: Comparison
): Promise<void> => {
  const stacks: Array<Stack> = []
  const figures = new Map<string, Array<Figures>>()
  const of = (stack: Stack, operation: Operation, callers: number): Array<Figures> => {
    const key = `${stack.name} ${operation} ${callers}`
    const all = figures.get(key) ?? []
    figures.set(key, all)
    return all
  }
  const load = startLoad()
  try {
    for (const start of starts) stacks.push(...[await start()].flat())
    // The first requests compile the code of the stacks.
    for (const stack of stacks) for (const operation of operations) await load.measure(stack, operation, 16, millis)
    for (let round = 0; round < rounds; round++) {
      for (const operation of operations) {
        for (const callers of connections) {
          for (const stack of stacks) {
            of(stack, operation, callers).push(await load.measure(stack, operation, callers, millis))
          }
        }
      }
    }
  } finally {
    load.end()
    for (const stack of stacks) await stack.end()
  }

  const [first] = stacks
  if (first === undefined) return
  const head = ["", "requests/s", "range", "Stint's ratio", "done/s", "p50 ms", "Stint's ratio", "p99 ms", "stack µs"]
  for (const operation of operations) {
    for (const callers of connections) {
      const base = of(first, operation, callers)
      const rows = stacks.map((stack) => {
        const own = of(stack, operation, callers)
        const all = (pick: (one: Figures) => number) => own.map(pick)
        const ratio = (pick: (one: Figures) => number) => stack === first ? "1.00x" : ratioOf(own.map(pick), base.map(pick))
        const rates = all((one) => one.perSecond)
        return [
          stack.name,
          formatFigure(median(rates)),
          `${formatFigure(Math.min(...rates))} - ${formatFigure(Math.max(...rates))}`,
          ratio((one) => one.perSecond),
          formatFigure(median(all((one) => one.donePerSecond))),
          formatFigure(median(all((one) => one.p50))),
          ratio((one) => one.p50),
          formatFigure(median(all((one) => one.p99))),
          formatFigure(median(all((one) => one.micros)))
        ]
      })
      process.stdout.write(
        `${operation}, ${callers} connections (${rounds} rounds, Node ${process.versions.node})\n\n${
          tableOf([head, ...rows])
        }\n\n`
      )
    }
  }
}
