/**
 * Runs commands in the process of the test, with their own environment, output and exit code. Much faster than a process per command; tests of
 * signals, startup and the terminal use `PlatformProcess.ts`.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Command } from "effect/cli"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { command } from "../src/Cli.ts"
import { Environment } from "../src/config/SettingNames.ts"
import * as ErrorOutput from "../src/output/ErrorOutput.ts"
import { teardown } from "../src/Signals.ts"

export interface Finished {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

export interface Options {
  readonly env: Readonly<Record<string, string>>
  readonly stdin?: string
  /** Interrupts the command, as Ctrl-C does, once this is true of its output on standard error. */
  readonly interruptWhen?: (stderr: string) => boolean
}

const program = Command.runWith(command, { version: "0" })

const lines = (text: ReadonlyArray<string>): string => text.map((line) => `${line}\n`).join("")

/** Runs a command to its end. */
export const runCommand = async (args: ReadonlyArray<string>, { env, interruptWhen, stdin = "" }: Options): Promise<Finished> => {
  const stdout: Array<string> = []
  const stderr: Array<string> = []
  const captured: Console.Console = {
    ...console,
    log: (text) => stdout.push(String(text)),
    error: (text) => stderr.push(String(text))
  }
  const input = Stdio.layerTest({ stdin: Stream.succeed(new TextEncoder().encode(stdin)) })
  const fiber = Effect.runFork(
    program(args).pipe(
      Effect.provide(input),
      Effect.provide([NodeServices.layer, ErrorOutput.layer(args)]),
      Effect.provideService(Console.Console, captured),
      Effect.provideService(Environment, env),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
    )
  )
  if (interruptWhen !== undefined) {
    const isDue = () => fiber.pollUnsafe() !== undefined || interruptWhen(lines(stderr))
    while (!isDue()) await new Promise((next) => setImmediate(next))
    fiber.interruptUnsafe()
  }
  const exit = await Effect.runPromise(Fiber.await(fiber))
  let code = -1
  teardown(exit, (found) => (code = found))
  return { code, stdout: lines(stdout), stderr: lines(stderr) }
}
