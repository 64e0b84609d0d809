/**
 * `stint pipelines` shows the runs of pipelines, sends them events, draws pipelines, and checks pipeline files (`PipelineFileCommands.ts`).
 */
import { nodeStates } from "@stint/contract/NodeStates"
import type { RunSteps } from "@stint/contract/RunSteps"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as PlatformClient from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { stepTable } from "../output/StepText.ts"
import { check, schema } from "./PipelineFileCommands.ts"
import { diff, list, newestDefinition, show } from "./PipelineListCommands.ts"
import { run } from "./PipelineRunCommand.ts"
import { allSteps, printStep } from "./PipelineSteps.ts"
import { duration, endpoint, json, toMillis } from "./SharedFlags.ts"

const { call } = PlatformClient

const runId = Argument.String("run").pipe(Argument.withDescription("Id of the run: the id of its job"))

const stepsText = ({ definition, held, next, phase, run, status, steps }: RunSteps): string =>
  [
    Output.field("run", Output.inline(run)),
    Output.field("status", phase === "undoing" ? `${status}, undoing` : status),
    Output.field("graph", Output.inline(definition)),
    ...(held === undefined ? [] : [Output.field("held", held)]),
    "",
    steps.length === 0 ? "No steps." : stepTable(steps),
    ...(next === undefined ? [] : ["", `More: repeat the command with --after ${next}`])
  ].join("\n")

const steps = Command.make(
  "steps",
  {
    endpoint,
    run: runId,
    after: Flag.Int("after").pipe(Flag.withDescription("Only steps after this number of steps"), Flag.optional),
    limit: Flag.Int("limit").pipe(Flag.withDescription("Number of steps, 1 to 1000; default 200"), Flag.optional),
    step: Flag.String("step").pipe(
      Flag.withDescription("Show the input, the output and the attempts of this step, e.g. charge or thumbnail[3]"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ after, endpoint, json, limit, run, step }) {
    if (Option.isSome(step)) return yield* printStep({ endpoint, run, wanted: step.value, json })
    const query = {
      ...(Option.isSome(after) ? { after: after.value } : {}),
      ...(Option.isSome(limit) ? { limit: limit.value } : {})
    }
    const page = yield* call((api) => api.runs.steps({ params: { endpoint, id: run }, query }))
    yield* Output.print(json, page, stepsText)
  })
).pipe(
  Command.withDescription("Show what a run has recorded and what it waits for; times are UTC"),
  Command.withExamples([
    { command: "stint pipelines steps gallery 0f8fad5b-d9cb-469f-a165-70867728950e", description: "All steps, one in each row" },
    {
      command: "stint pipelines steps gallery 0f8fad5b-d9cb-469f-a165-70867728950e --step charge",
      description: "One step with its input, its output and its attempts"
    }
  ])
)

const decodeData = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

const event = Command.make(
  "event",
  {
    endpoint,
    name: Argument.String("name").pipe(Argument.withDescription("Name of the event")),
    key: Flag.String("key").pipe(Flag.withDescription("The key that the run waits for, e.g. an order number"), Flag.optional),
    data: Flag.String("data").pipe(Flag.withDescription("JSON that the run receives; default: null"), Flag.optional),
    id: Flag.String("id").pipe(
      Flag.withDescription("With the same id, a repeated command sends the event only once"),
      Flag.optional
    ),
    ttl: duration("ttl").pipe(
      Flag.withDescription("How long the event is kept when no run waits for it; default 7d"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ data, endpoint, id, json, key, name, ttl }) {
    const value = Option.isNone(data) ? undefined : yield* Effect.mapError(
      decodeData(data.value),
      () =>
        new CliFailure({
          message: `--data is not JSON: ${data.value}`,
          hint: "Quote it for the shell, for example --data '{\"by\":\"Ada\"}' or --data '\"yes\"'.",
          code: "invalid-option"
        })
    )
    const payload = {
      name,
      ...(Option.isSome(key) ? { key: key.value } : {}),
      ...(value === undefined ? {} : { data: value }),
      ...(Option.isSome(id) ? { id: id.value } : {}),
      ...(Option.isSome(ttl) ? { ttlMs: toMillis(ttl.value) } : {})
    }
    const receipt = yield* call((api) => api.runs.sendEvent({ params: { endpoint }, payload }))
    yield* Output.print(json, receipt, ({ delivered, duplicate }) => {
      if (duplicate === true) return "Nothing was sent: the platform already had an event with this id."
      return delivered === null
        ? `No run of "${endpoint}" waits for this event. It is kept for the next run that does.`
        : `Delivered to run ${Output.inline(delivered)}.\nSee it: stint pipelines steps ${endpoint} ${Output.inline(delivered)}`
    })
  })
).pipe(
  Command.withDescription("Send an event to the run that waits for it"),
  Command.withExamples([
    { command: "stint pipelines event orders approved --key 4711 --data '{\"by\":\"Ada\"}'", description: "Approve one order" }
  ])
)

const HASH = /^[0-9a-f]{64}$/

const graph = Command.make(
  "graph",
  {
    endpoint,
    definition: Argument.String("hash-or-run").pipe(
      Argument.withDescription("Hash of a definition, or id of a run; default: the newest definition"),
      Argument.optional
    ),
    svg: Flag.String("svg").pipe(Flag.withDescription("Write an SVG picture to this file; - is standard output"), Flag.optional),
    json
  },
  Effect.fnUntraced(function*({ definition, endpoint, json, svg }) {
    const run = Option.isNone(definition) || HASH.test(definition.value) ? undefined : yield* allSteps(endpoint, definition.value)
    const hash = run?.definition ?? Option.getOrUndefined(definition) ?? (yield* newestDefinition(endpoint))
    const found = yield* call((api) => api.runs.definition({ params: { endpoint, hash } }))
    if (json) return yield* Output.print(json, found, () => "")
    const marks = new Map([...nodeStates(run?.steps ?? [])].map(([address, state]) => [address, { state }] as const))
    // Loaded here, because no other command draws a graph.
    if (Option.isNone(svg)) {
      const { toMermaid } = yield* Effect.promise(() => import("@stint/pipelines/Mermaid"))
      return yield* Output.text(toMermaid(found, marks).trimEnd())
    }
    const { toSvg } = yield* Effect.promise(() => import("@stint/pipelines/Svg"))
    const picture = toSvg(found, marks)
    if (svg.value === "-") return yield* Output.text(picture.trimEnd())
    const fs = yield* FileSystem.FileSystem
    yield* Effect.mapError(
      fs.writeFileString(svg.value, picture),
      ({ message }) => new CliFailure({ message: `${svg.value} cannot be written: ${message}`, hint: "" })
    )
    yield* Output.message(`Wrote ${Output.inline(svg.value)}.`)
  })
).pipe(
  Command.withDescription("Draw a pipeline as a Mermaid diagram or an SVG picture; for a run, with the state of its nodes"),
  Command.withExamples([
    { command: "stint pipelines graph gallery", description: "Paste it into a mermaid block, for example of a README" },
    { command: "stint pipelines graph gallery --svg gallery.svg", description: "A picture" }
  ])
)

/** `stint pipelines` and its subcommands. */
export const pipelines = Command.make("pipelines").pipe(
  Command.withDescription("Pipelines: runs (run, steps, event), definitions (list, show, graph, diff) and files (check, schema)"),
  Command.withSubcommands([
    list.pipe(Command.provide(PlatformClient.layer)),
    show.pipe(Command.provide(PlatformClient.layer)),
    run.pipe(Command.provide(PlatformClient.layer)),
    steps.pipe(Command.provide(PlatformClient.layer)),
    event.pipe(Command.provide(PlatformClient.layer)),
    graph.pipe(Command.provide(PlatformClient.layer)),
    diff.pipe(Command.provide(PlatformClient.layer)),
    check,
    schema
  ])
)
