/**
 * `stint pipelines run` starts a run and shows its nodes while it runs: in a terminal a tree that is updated in place, elsewhere a line for each
 * change.
 */
import { isTerminal } from "@stint/contract/Job"
import { escapeUnprintable } from "@stint/contract/PrintableText"
import type { PipelineGraph } from "@stint/contract/RunJournal"
import { progressOf } from "@stint/contract/RunProgress"
import { Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import process from "node:process"
import * as JobWait from "../client/JobWait.ts"
import { call } from "../client/PlatformClient.ts"
import type { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import * as PipelineProgress from "../output/PipelineProgress.ts"
import { allSteps } from "./PipelineSteps.ts"
import { readInput } from "./RunCommand.ts"
import { endpoint, json } from "./SharedFlags.ts"
import { submitFlags, submitOptions } from "./SubmitFlags.ts"

/** The time between two reads of a run, in milliseconds. A run with many steps takes longer to read, and is read less often. */
const INTERVAL = 400
const READ_SHARE = 4

const CONFLICT = 409

/** The result of one read; undefined while no worker has started the run. */
const look = Effect.fnUntraced(function*(endpoint: string, id: string, graphs: Map<string, PipelineGraph>) {
  const run = yield* allSteps(endpoint, id).pipe(
    Effect.catchIf(({ status }: CliFailure) => status === CONFLICT, () => Effect.succeed(undefined))
  )
  if (run === undefined) return undefined
  const hash = run.definition
  const graph = graphs.get(hash) ?? (yield* call((api) => api.runs.definition({ params: { endpoint, hash } })))
  graphs.set(hash, graph)
  return { ...run, nodes: progressOf(graph, run.steps, { isEnded: isTerminal(run.status) }) }
})

type Look = NonNullable<Effect.Success<ReturnType<typeof look>>>

/** Overwrites the lines that it drew last. */
const makeTree = () => {
  let height = 0
  return (lines: ReadonlyArray<string>) =>
    Effect.sync(() => {
      const [rows, columns] = [process.stdout.rows || 24, process.stdout.columns || 80]
      // Lines above the screen cannot be overwritten.
      const shown = lines.slice(0, Math.max(1, rows - 1)).map((line) => escapeUnprintable(line).slice(0, columns - 1))
      process.stdout.write(`${height === 0 ? "" : `\u001b[${height}A`}\u001b[0J${shown.join("\n")}\n`)
      height = shown.length
    })
}

const linesOf = ({ held, nodes, phase, status }: Look, now: number): ReadonlyArray<string> => [
  ...Output.table(PipelineProgress.tableOf(nodes, now)).split("\n"),
  `${status}${phase === "undoing" ? ", undoing" : ""}`,
  ...(held === undefined ? [] : [Output.inline(held)])
]

/** Follows the run until it is interrupted. */
const follow = Effect.fnUntraced(function*(
  endpoint: string,
  id: string,
  show: (before: Look | undefined, now: Look) => Effect.Effect<void>
) {
  const graphs = new Map<string, PipelineGraph>()
  let before: Look | undefined
  const update = Effect.gen(function*() {
    const found = yield* look(endpoint, id, graphs)
    if (found === undefined) return
    yield* show(before, found)
    before = found
  })
  const loop = Effect.gen(function*() {
    while (true) {
      const startedAt = yield* Clock.currentTimeMillis
      yield* update
      const took = (yield* Clock.currentTimeMillis) - startedAt
      yield* Effect.sleep(Math.max(INTERVAL, took * READ_SHARE))
    }
  })
  const ended = yield* Effect.raceFirst(JobWait.untilEnded({ endpoint, id }), loop)
  yield* update
  return { ended, last: () => before }
})

const changeLines = (before: Look | undefined, { held, nodes, phase }: Look): ReadonlyArray<string> => [
  ...PipelineProgress.changedSince(before?.nodes ?? [], nodes).map(({ kind, node, note, state }) =>
    Output.inline(`${node}  ${kind}  ${state}${note === undefined ? "" : `  ${note}`}`)
  ),
  ...(phase === before?.phase || phase === "doing" ? [] : ["The run is running its compensations."]),
  ...(held === undefined || held === before?.held ? [] : [Output.inline(held)])
]

/** `stint pipelines run`. Ends with exit code 1 unless the run completes. */
export const run = Command.make(
  "run",
  {
    endpoint,
    input: Flag.String("input").pipe(Flag.withDescription("The run's input, as JSON"), Flag.optional),
    inputFile: Flag.String("input-file").pipe(
      Flag.withDescription("A file with the run's input, as JSON; - reads standard input"),
      Flag.optional
    ),
    cancelOnInterrupt: Flag.Boolean("cancel-on-interrupt").pipe(
      Flag.withDescription("Ctrl-C cancels the run; by default, it continues"),
      Flag.withDefault(false)
    ),
    ...submitFlags,
    json
  },
  Effect.fnUntraced(function*({ cancelOnInterrupt, endpoint, input, inputFile, json, ...flags }) {
    const options = yield* submitOptions(flags)
    const value = yield* readInput(input, inputFile)
    const onInterrupt = { cancel: cancelOnInterrupt }
    const request = call((api) => api.jobs.run({ params: { endpoint }, payload: { ...options, input: value } }))
    const { id } = yield* JobWait.submit(endpoint, request, onInterrupt)
    yield* Output.message(`Run ${Output.inline(id)} of ${endpoint}`)
    const isTerminal = process.stdout.isTTY && !json
    const draw = makeTree()
    const show = (before: Look | undefined, now: Look) =>
      json
        ? Effect.void
        : isTerminal
        ? Effect.flatMap(Clock.currentTimeMillis, (time) => draw(linesOf(now, time)))
        : Effect.forEach(changeLines(before, now), Output.text, { discard: true })
    const { ended, last } = yield* JobWait.onInterrupt({ endpoint, id }, onInterrupt)(follow(endpoint, id, show))
    yield* Output.print(json, { ...ended, nodes: last()?.nodes ?? [] }, () => Output.job(ended))
    return yield* JobWait.requireCompleted(ended, { isPrinted: true })
  })
).pipe(
  Command.withDescription("Start a run of a pipeline and show its nodes until it has ended"),
  Command.withExamples([
    { command: "stint pipelines run gallery --input-file album.json", description: "Start a run and follow it" },
    {
      command: "stint pipelines run gallery --input '{}' --json",
      description: "Wait for the run, and print it with its nodes as JSON"
    }
  ])
)
