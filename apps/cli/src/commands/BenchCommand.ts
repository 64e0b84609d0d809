/**
 * `stint bench cold-start` measures how long the first request to an endpoint without workers takes, by part
 * (docs/operations/cold-starts.md#measure-an-endpoint).
 */
import { CliError, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import process from "node:process"
import * as ColdStarts from "../bench/ColdStarts.ts"
import type { Figure } from "../bench/Figures.ts"
import * as Output from "../output/Output.ts"
import { readInput } from "./RunCommand.ts"
import { endpoint, json } from "./SharedFlags.ts"
import { splitWords } from "./ShellWords.ts"

const MEANING: Readonly<Record<string, string>> = {
  queue: "until the platform requested a worker",
  pull: "until its image was on the machine",
  create: "until its process or container existed",
  start: "until its first call: Node, imports, fitness checks",
  setup: "its setup",
  prepare: "until it asked for a job",
  take: "until it took the job"
}

/** The maximum number of runs, so that a typo does not keep an endpoint busy for days. */
const MAX_RUNS = 1_000

const row = (name: string, figure: Figure | undefined, meaning: string): ReadonlyArray<ReadonlyArray<string>> =>
  figure === undefined ? [] : [[name, String(figure.median), String(figure.min), String(figure.max), meaning]]

/** Formats the figures as text. */
export const format = (measured: ColdStarts.Measured, against: ReadonlyArray<string>): string => {
  const { bare, execution, parts, request, standbys, wait } = ColdStarts.summaryOf(measured)
  const count = measured.runs.length
  const rows = [
    ["PART", "MEDIAN", "MIN", "MAX", ""],
    ...Object.entries(parts).flatMap(([phase, figure]) => row(phase, figure, MEANING[phase] ?? "")),
    ...row("wait", wait, "total: the job's delayTime"),
    ...row("execution", execution, "the handler, including the transfer of the job and its result"),
    ...row("request", request, "from the submission to the result, as the caller sees it"),
    ...row("bare", bare, against.join(" "))
  ]
  const ratio = request === undefined || bare === undefined || bare.median === 0
    ? []
    : [`A cold request takes ${(request.median / bare.median).toFixed(1)} times as long as the bare program.`]
  return [
    `${count} cold ${count === 1 ? "start" : "starts"} of ${measured.endpoint}, in milliseconds`,
    "",
    Output.table(rows),
    "",
    `Workers that started in a standby process: ${standbys} of ${count}`,
    ...ratio
  ].join("\n")
}

const coldStart = Command.make(
  "cold-start",
  {
    endpoint,
    input: Flag.String("input").pipe(Flag.withDescription("The jobs' input, as JSON; default: {}"), Flag.optional),
    inputFile: Flag.String("input-file").pipe(
      Flag.withDescription("A file with the jobs' input, as JSON; - reads standard input"),
      Flag.optional
    ),
    runs: Flag.Int("runs").pipe(
      Flag.withAlias("n"),
      Flag.withDescription(`The number of cold starts, 1 to ${MAX_RUNS}; default 10`),
      Flag.withDefault(10),
      Flag.mapEffect((runs) =>
        runs >= 1 && runs <= MAX_RUNS
          ? Effect.succeed(runs)
          : Effect.fail(
            new CliError.InvalidValue({ option: "runs", value: String(runs), expected: `1 to ${MAX_RUNS}`, kind: "flag" })
          )
      )
    ),
    against: Flag.String("against").pipe(
      Flag.withDescription("A program on this machine to compare with; default: Node, which starts and exits"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ against, endpoint, input, inputFile, json, runs }) {
    const isGiven = Option.isSome(input) || Option.isSome(inputFile)
    const value = isGiven ? yield* readInput(input, inputFile) : {}
    const program = Option.match(against, { onNone: () => [process.execPath, "-e", "0"], onSome: splitWords })
    const measured = yield* ColdStarts.measure({ endpoint, input: value, runs, against: program })
    yield* Output.print(
      json,
      { ...measured, against: program, summary: ColdStarts.summaryOf(measured) },
      () => format(measured, program)
    )
  })
).pipe(
  Command.withDescription("Measure the cold starts of an endpoint that scales to zero, by part"),
  Command.withExamples([
    {
      command: "stint bench cold-start hello --input '{\"name\":\"Ada\"}'",
      description: "Ten cold requests, against a bare Node"
    },
    {
      command: "stint bench cold-start llm -n 5 --against \"podman run --rm --network=none localhost/llm:1 -e 0\"",
      description: "Compare an image with a bare container of it"
    }
  ])
)

/** `stint bench`. */
export const bench = Command.make("bench").pipe(
  Command.withDescription("Measure an endpoint"),
  Command.withSubcommands([coldStart])
)
