/**
 * Pipelines in JSON: they run like those in TypeScript, and `check` reports each mistake with its location.
 */
import { expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { Ajv } from "ajv"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { globSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { describe } from "vitest"
import { check, formatPath } from "../src/file/FileCheck.ts"
import type { Catalog } from "../src/file/FileCheck.ts"
import { fileSchema } from "../src/file/FileSchema.ts"
import * as PipelineFile from "../src/file/PipelineFile.ts"
import { refOf } from "../src/Graph.ts"
import { Pipeline, StepKind } from "../src/index.ts"
import { PipelineTest } from "../src/testing/index.ts"

const Split = StepKind.make("words.split", {
  input: Schema.String,
  output: Schema.Array(Schema.String),
  options: Schema.Struct({ by: Schema.String }),
  run: (text, { by }) => text.split(by)
})

const Length = StepKind.make("words.length", {
  input: Schema.String,
  output: Schema.Int,
  run: async (word) => word.length
})

/** Its values are not JSON, so between the steps of a file they are encoded. */
const Later = StepKind.make("dates.later", {
  input: Schema.DateTimeUtcFromString,
  output: Schema.DateTimeUtcFromString,
  run: (date) => Effect.succeed(date)
})

/** A stream, whose chunks are not JSON. */
const Say = StepKind.makeStream("words.say", {
  input: Schema.String,
  output: Schema.DateTimeUtcFromString,
  options: Schema.Struct({ by: Schema.String }),
  run: async function*(text, { by }) {
    for (const day of text.split(by)) yield DateTime.makeUnsafe(`2026-11-${day}T00:00:00.000Z`)
  }
})

const Failing = StepKind.makeStream("words.failing", {
  input: Schema.String,
  output: Schema.String,
  run: (_, __, { attempt }) => attempt === 1 ? Stream.concat(Stream.make("a"), Stream.fail("broken pipe")) : Stream.make("a", "b")
})

const kinds = [Split, Length, Later, Say, Failing]

const catalog: Catalog = {
  kinds: new Map(kinds.map((kind) => [kind.name, PipelineFile.declarationOf(kind)])),
  endpoints: new Map([
    ["words-count", {
      input: {
        type: "object",
        properties: { words: { type: "array", items: { type: "string" } }, title: { type: "string" } },
        required: ["words"],
        additionalProperties: false
      },
      output: {
        type: "object",
        properties: { count: { type: "number" } },
        required: ["count"],
        additionalProperties: false
      }
    }],
    ["anything", {}]
  ])
}

const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false }

const words = {
  name: "words",
  input: text,
  steps: [
    { name: "split", use: "words.split", with: { by: " " }, input: "${input.text}" },
    { name: "lengths", use: "words.length", forEach: "${split}", concurrency: 2 },
    {
      name: "both",
      input: { words: "${split}" },
      all: {
        here: [{ name: "counted", run: "words-count" }],
        there: [{ name: "cool", sleep: "1 hour" }, { name: "again", use: "words.length", input: "${input.text}" }]
      }
    },
    { name: "asked", waitFor: { type: "string" }, key: "of ${input.text}", timeout: "2 hours" },
    { name: "end", run: "anything", input: { asked: "${asked}", both: "${both}", n: "${lengths[1]}", cost: "$${n}" } }
  ]
}

/** With a choice, a selection and compensations. */
const chosen = {
  name: "chosen",
  input: {
    type: "object",
    properties: { text: { type: "string" }, size: { enum: ["long", "short"] }, loud: { type: "boolean" } },
    required: ["text", "size", "loud"]
  },
  steps: [
    { name: "split", ...{ use: "words.split", with: { by: " " }, input: "${input.text}" }, undo: { run: "anything" } },
    {
      name: "size",
      branch: "${input.size}",
      parts: {
        long: [{ name: "count", run: "words-count", input: { words: "${split}" }, undo: { run: "anything" } }],
        short: []
      }
    },
    { select: { size: "${size}", text: "${input.text}" } },
    { name: "kept", branch: "${input.loud}", parts: { true: [{ select: "LOUD ${input.text}" }], other: [] }, otherwise: "other" },
    { name: "end", run: "anything" }
  ]
}

/** The mistakes in a file, as `PATH: MESSAGE`. */
const mistakes = (file: unknown): ReadonlyArray<string> => {
  const found = check(file, catalog)
  return Result.isSuccess(found) ? [] : found.failure.map(({ message, path }) => `${formatPath(path)}: ${message}`)
}

/** The file `words` with one step instead of its own. */
const step = (given: object) => ({ name: "words", input: text, steps: [{ name: "a", ...given }] })

const two = (first: object, second: object) => ({
  name: "words",
  input: text,
  steps: [{ name: "a", ...first }, { name: "b", ...second }]
})

const split = { use: "words.split", with: { by: " " }, input: "${input.text}" }

const say = { stream: "words.say", with: { by: " " }, input: "${input.text}" }

/** Files with one mistake each, the expected message, and whether the JSON Schema detects it too. */
const BROKEN: ReadonlyArray<readonly [title: string, file: unknown, message: string, schemaSees: boolean]> = [
  ["no steps", { name: "words", steps: [] }, "steps", true],
  ["no name", { steps: words.steps }, "name: Missing key.", true],
  ["an unknown key", { ...words, stps: [] }, "stps: There is no such key. Did you mean \"steps\"?", true],
  [
    "an unknown key of a step",
    step({ ...split, inputs: 1 }),
    "steps[0].inputs: There is no such key. Did you mean \"input\"?",
    true
  ],
  ["an invalid name", { ...words, steps: [{ ...split, name: "a.b" }] }, "steps[0].name: a name is 1 to 64 letters", true],
  [
    "an invalid name of a part",
    step({ all: { "x.y": [{ name: "b", run: "anything" }] } }),
    "steps[0].all.x.y: a name is 1 to 64 letters",
    true
  ],
  [
    "an unknown kind",
    step({ ...split, use: "words.splitt" }),
    "steps[0].use: There is no kind of step \"words.splitt\". Did you mean \"words.split\"?",
    true
  ],
  [
    "an unknown endpoint",
    step({ run: "words-cuont" }),
    "steps[0].run: There is no endpoint \"words-cuont\". Did you mean \"words-count\"? Add it to the endpoints",
    true
  ],
  [
    "a step that does nothing",
    step({ input: 1 }),
    "steps[0]: The step \"a\" needs exactly one of use, stream, run, all, branch, select, sleep, waitFor; it has none.",
    true
  ],
  [
    "a step that does two things",
    step({ ...split, sleep: "1 day" }),
    "steps[0]: The step \"a\" needs exactly one of use, stream, run, all, branch, select, sleep, waitFor; it has use and sleep.",
    true
  ],
  [
    "a setting that the step does not have",
    step({ sleep: "1 day", retry: 1 }),
    "steps[0].retry: A step with sleep has no retry; it may have no settings. Remove it.",
    true
  ],
  ["no duration", step({ sleep: "a while" }), "steps[0].sleep: expected a duration, for example \"30 seconds\".", true],
  ["a negative duration", step({ sleep: "-1 day" }), "steps[0].sleep: expected a duration, for example \"30 seconds\".", true],
  ["a missing option", step({ ...split, with: {} }), "steps[0].with.by: Missing key.", true],
  [
    "an unknown option",
    step({ ...split, with: { by: " ", bye: 1 } }),
    "steps[0].with.bye: \"words.split\" has no such option; it has by.",
    true
  ],
  ["a wrong option", step({ ...split, with: { by: 1 } }), "steps[0].with.by: Expected string", true],
  [
    "options of a kind without options",
    step({ use: "words.length", input: "x", with: { by: 1 } }),
    "steps[0].with.by: \"words.length\" has no such option; it has none.",
    true
  ],
  [
    "a name that is taken",
    { ...words, steps: [{ name: "a", ...split }, { name: "a", ...split }] },
    "steps[1].name: The name \"a\" is already used. Recorded results are identified by name: choose another one.",
    false
  ],
  [
    "the name input",
    { ...words, steps: [{ ...split, name: "input" }] },
    "steps[0].name: The name \"input\" is already used.",
    false
  ],
  [
    "a name that is taken inside a part",
    two(split, { all: { x: [{ name: "a", run: "anything" }] } }),
    "steps[1].all.x[0].name: The name \"a\" is already used.",
    false
  ],
  [
    "a later step",
    two({ use: "words.length", input: "${b}" }, split),
    "steps[0].input: There is no step \"b\" before this one. Here are ${input}.",
    false
  ],
  [
    "a member that does not exist",
    step({ ...split, input: "${input.txt}" }),
    "steps[0].input: input has no member \"txt\"; it has text.",
    false
  ],
  [
    "a member of a string",
    step({ ...split, input: "${input.text.length}" }),
    "steps[0].input: input.text has no member \"length\"; it has no members.",
    false
  ],
  [
    "an element of a string",
    step({ ...split, input: "${input.text[0]}" }),
    "steps[0].input: input.text has no elements; it has no members.",
    false
  ],
  [
    "no reference",
    step({ ...split, input: "${input text}" }),
    "steps[0].input: \"${input text}\" is not a reference. Write ${STEP}, ${STEP.member} or ${STEP[0]}; $${...} is the text itself.",
    false
  ],
  [
    "a value that does not fit",
    step({ use: "words.split", with: { by: " " } }),
    "steps[0]: The input of \"words.split\" is object with text, but must be string.",
    false
  ],
  [
    "a list instead of a string",
    two(split, { use: "words.length" }),
    "steps[1]: The input of \"words.length\" is array of string, but must be string.",
    false
  ],
  [
    "a member that does not fit",
    step({ run: "words-count", input: { words: ["a", 1] } }),
    "steps[0].input: The input at .words[] of \"words-count\" is 1, but must be string.",
    false
  ],
  [
    "a missing member",
    step({ run: "words-count", input: { title: "x" } }),
    "steps[0].input: The input at .words of \"words-count\" is missing; it must be array of string.",
    false
  ],
  [
    "a member that the step does not take",
    step({ run: "words-count", input: { words: [], titel: "x" } }),
    "steps[0].input: The input at .titel of \"words-count\" is not taken here; known are words, title.",
    false
  ],
  [
    "forEach over a string",
    step({ use: "words.length", forEach: "${input.text}" }),
    "steps[0].forEach: It is string, but must be a list.",
    false
  ],
  [
    "elements that do not fit",
    two(split, { use: "words.length", forEach: "${a}", input: { word: "${item}" } }),
    "steps[1].input: The input of \"words.length\" is object with word, but must be string.",
    false
  ],
  [
    "a priority that is too high",
    step({ run: "anything", priority: 1_001 }),
    "steps[0].priority: Expected a value between -1000 and 1000",
    true
  ],
  [
    "a priority that is not an integer",
    step({ run: "anything", priority: "high" }),
    "steps[0].priority: Expected number",
    true
  ],
  ["an empty tag", step({ run: "anything", tags: ["a", ""] }), "steps[0].tags[1]: Expected a value with a length", true],
  [
    "too many tags",
    step({ run: "anything", tags: Array.from({ length: 17 }, String) }),
    "steps[0].tags: Expected a value with a length of at most 16",
    true
  ],
  [
    "tags of a step that is not a job",
    step({ ...split, tags: ["a"] }),
    "steps[0].tags: A step with use has no tags; it may have with, input, forEach, concurrency, retry, timeout, undo. Remove it.",
    true
  ],
  [
    "concurrency without forEach",
    step({ ...split, concurrency: 2 }),
    "steps[0].concurrency: Only a step with forEach has a concurrency. Remove it, or add forEach.",
    false
  ],
  [
    "an output that does not fit",
    { ...step(split), output: { type: "number" } },
    "output: The value of the last step is array of string, but must be number.",
    false
  ],
  [
    "a step without a name",
    { ...words, steps: [split] },
    "steps[0]: The step has no name. Recorded results are identified by name: add one.",
    true
  ],
  [
    "a select with a name",
    step({ select: "x" }),
    "steps[0].name: A step with select has no name, because it is not recorded. Remove it.",
    true
  ],
  [
    "a select of a later step",
    { ...words, steps: [{ select: "${b}" }] },
    "steps[0].select: There is no step \"b\" before this one.",
    false
  ],
  ["a branch without parts", step({ branch: "x" }), "steps[0]: A step with branch needs parts", true],
  [
    "a branch for which there is no part",
    { ...chosen, steps: [{ name: "a", branch: "${input.size}", parts: { long: [] } }] },
    "steps[0].branch: It may be \"short\", but the parts are long. Add a part, or name one in otherwise.",
    false
  ],
  [
    "a boolean branch for which there is no part",
    { ...chosen, steps: [{ name: "a", branch: "${input.loud}", parts: { yes: [], true: [] } }] },
    "steps[0].branch: It may be \"false\", but the parts are yes, true.",
    false
  ],
  [
    "a branch by an object",
    step({ branch: "${input}", parts: { x: [] } }),
    "steps[0].branch: It is object with text, but must be string or number or boolean.",
    false
  ],
  [
    "an otherwise that names no part",
    step({ branch: "${input.text}", parts: { long: [], short: [] }, otherwise: "shrt" }),
    "steps[0].otherwise: There is no part \"shrt\". Did you mean \"short\"? The parts are long, short.",
    false
  ],
  [
    "a mistake inside a branch",
    step({ branch: "${input.text}", parts: { long: [{ name: "b", use: "words.lengt", input: "x" }] } }),
    "steps[0].parts.long[0].use: There is no kind of step \"words.lengt\".",
    true
  ],
  [
    "the output of a branch that does not fit",
    two({ branch: "${input.text}", parts: { x: [{ select: 1 }], y: [{ select: "y" }] } }, { use: "words.length" }),
    "steps[1]: The input of \"words.length\" is 1, but must be string.",
    false
  ],
  ["an undo of nothing", step({ ...split, undo: {} }), "steps[0].undo: It needs exactly one of use and run", true],
  [
    "an undo of an unknown endpoint",
    step({ ...split, undo: { run: "anythin" } }),
    "steps[0].undo.run: There is no endpoint \"anythin\". Did you mean \"anything\"?",
    false
  ],
  [
    "an undo that does not take the output",
    step({ ...split, undo: { use: "words.length" } }),
    "steps[0].undo: The input of \"words.length\" is array of string, but must be string.",
    false
  ],
  [
    "an undo of a sleep",
    step({ sleep: "1 day", undo: { run: "anything" } }),
    "steps[0].undo: A step with sleep has no undo; it may have no settings. Remove it.",
    true
  ],
  [
    "a stream of an unknown kind",
    step({ ...say, stream: "words.sya" }),
    "steps[0].stream: There is no kind of step \"words.sya\". Did you mean \"words.say\"?",
    true
  ],
  [
    "a stream of a kind that is not a stream",
    step({ ...say, stream: "words.split" }),
    "steps[0].stream: \"words.split\" is not a stream. Write \"use\" in place of \"stream\".",
    true
  ],
  [
    "a step that uses a kind of stream",
    step({ use: "words.say", with: { by: " " }, input: "${input.text}" }),
    "steps[0].use: \"words.say\" is a stream. Write \"stream\" in place of \"use\".",
    true
  ],
  [
    "an undo that uses a kind of stream",
    step({ ...split, undo: { use: "words.say", with: { by: " " } } }),
    "steps[0].undo.use: \"words.say\" is a stream. Write \"stream\" in place of \"use\".",
    false
  ],
  ["a stream with a missing option", step({ ...say, with: {} }), "steps[0].with.by: Missing key.", true],
  [
    "a stream for each element",
    step({ ...say, forEach: "${input.text}" }),
    "steps[0].forEach: A step with stream has no forEach; it may have with, input, retry, timeout. Remove it.",
    true
  ],
  [
    "a stream whose input does not fit",
    step({ ...say, input: "${input}" }),
    "steps[0].input: The input of \"words.say\" is object with text, but must be string.",
    false
  ],
  [
    "the list of a stream's chunks instead of a string",
    two(say, { use: "words.length" }),
    "steps[1]: The input of \"words.length\" is array of string, but must be string.",
    false
  ],
  [
    "two streams at the same time",
    step({
      input: "${input.text}",
      all: {
        x: [{ name: "b", ...say }],
        y: [{ name: "c", branch: "z", parts: { z: [{ name: "d", ...say }] } }]
      }
    }),
    "steps[0].all.y: The part \"x\" of \"a\" runs at the same time and also contains a stream.",
    false
  ],
  [
    "a JSON Schema that cannot be used",
    { ...step(split), input: { not: { type: "string" } } },
    "input: The JSON Schema cannot be used: ",
    false
  ]
]

/** The JSON Schema of a project's files, as an editor reads it. */
const compileSchema = (known: Catalog) => new Ajv({ allErrors: true, strictTuples: false }).compile(fileSchema(known))

const fits = compileSchema(catalog)

const NOTHING: Catalog = { kinds: new Map(), endpoints: new Map() }

const ROOT = resolve(import.meta.dirname, "../../..")

const readJson = (file: string) => JSON.parse(readFileSync(file, "utf8"))

/** What the package in a folder contributes. */
const catalogIn = (folder: string): Catalog => {
  const { endpoints, pipelines, stepKinds } = readJson(join(folder, "package.json")).stint.contributes
  const names = pipelines.map((file: string) => readJson(join(folder, file)).name)
  return {
    kinds: new Map(Object.entries(stepKinds)),
    endpoints: new Map([...names.map((name: string) => [name, {}]), ...Object.entries(endpoints)])
  }
}

/** The pipeline files of the examples. */
const EXAMPLES = globSync("examples/**/*.pipeline.json", { cwd: ROOT, exclude: ["**/node_modules"] }).map((name) => {
  const folder = dirname(join(ROOT, name))
  return { name, folder, file: readJson(join(ROOT, name)), catalog: catalogIn(folder) }
})

/** A pipeline file in the guide. */
const guideFile = (name: string) => {
  const guide = readFileSync(join(ROOT, "docs/learning/pipelines.md"), "utf8")
  return JSON.parse(guide.split(`<!-- file: ${name} -->`)[1]?.split("```")[1]?.replace(/^json/, "") ?? "")
}

/** The files that people copy. */
const PUBLISHED = [
  ...EXAMPLES,
  { name: "the file of the guide", file: guideFile("reminder.pipeline.json"), catalog: NOTHING }
]

describe("check", () => {
  it("accepts a file without mistakes", () => {
    expect(mistakes(words)).toEqual([])
    expect(mistakes(chosen)).toEqual([])
  })

  it.each(BROKEN)("names %s", (_, file, message) => {
    const found = mistakes(file)
    expect(found.join("\n")).toContain(message)
    expect(found).toHaveLength(1)
  })

  it("names all mistakes of a file", () => {
    expect(mistakes({ name: "words", steps: [{ name: "a", use: "x" }, { name: "a", run: "y" }] })).toHaveLength(3)
  })

  it("accepts any input and any output of endpoints that declare no schemas", () => {
    expect(mistakes({
      name: "words",
      steps: [{ name: "a", run: "anything" }, { name: "b", use: "words.length", input: "${a.any[3].thing}" }]
    })).toEqual([])
  })

  it("does not report a number that may not be finite as a mistake", () => {
    const { output } = PipelineFile.declarationOf(StepKind.make("n", { input: Schema.Json, output: Schema.Number, run: () => 1 }))
    const known = {
      kinds: new Map([["n", { output: output ?? {} }], ["int", { input: { type: "integer" } }]]),
      endpoints: new Map()
    }
    expect(Result.isSuccess(check({ name: "x", steps: [{ name: "a", use: "n" }, { name: "b", use: "int" }] }, known))).toBe(true)
  })
})

describe("the JSON Schema of pipeline files", () => {
  it("accepts a file without mistakes", () => {
    for (const file of [words, chosen]) {
      fits(file)
      expect(fits.errors).toBe(null)
    }
  })

  it.each(PUBLISHED)("accepts $name", ({ catalog, file }) => {
    const published = compileSchema(catalog)
    published(file)
    expect(published.errors).toBe(null)
    expect(check(file, catalog)).toEqual(Result.succeed(expect.anything()))
  })

  it.each(EXAMPLES)("is next to $name, as `stint pipelines schema` writes it today", ({ catalog, file, folder }) => {
    expect(readJson(join(folder, file.$schema))).toEqual(fileSchema(catalog))
  })

  it("refuses the file of the guide that has mistakes", () => {
    expect(compileSchema(NOTHING)(guideFile("wrong.pipeline.json"))).toBe(false)
  })

  it.each(BROKEN.filter(([, , , isSeen]) => isSeen))("refuses %s", (_, file) => {
    expect(fits(file)).toBe(false)
  })
})

describe("a pipeline in JSON", () => {
  it("has the definition of the same pipeline in TypeScript", () => {
    const typed = Pipeline.make("words", { input: Schema.String })
      .use("split", Split, { with: { by: " " } })
      .forEach("lengths", async (word) => word.length, { output: Schema.Int })
      .sleep("cool", "1 hour")
      .end(Schema.Array(Schema.Int))
    const file = PipelineFile.make({
      name: "words",
      input: { type: "string" },
      output: { type: "array", items: { type: "integer" } },
      steps: [
        { name: "split", use: "words.split", with: { by: " " } },
        { name: "lengths", use: "words.length", forEach: "${split}" },
        { name: "cool", sleep: "1 hour" }
      ]
    }, kinds)
    expect(refOf(file.definition)).toEqual(refOf(typed.definition))
  })

  it("has the definition of the same branch, selection and compensation in TypeScript", () => {
    const typed = Pipeline.make("sizes", { input: Schema.String })
      .use("split", Split, { with: { by: " " }, undo: () => {} })
      .select(({ split }) => ({ split }))
      .branch("size", ({ input }) => input === "" ? "short" : "long", {
        long: (p) => p.step("n", () => 1, { output: Schema.Int }),
        short: (p) => p.select(({ split }) => split)
      })
      .end(Schema.Unknown)
    const file = PipelineFile.make({
      name: "sizes",
      input: { type: "string" },
      steps: [
        { name: "split", use: "words.split", with: { by: " " }, undo: { use: "words.length" } },
        { select: { split: "${split}" } },
        { name: "size", branch: "long", parts: { long: [{ name: "n", use: "words.length" }], short: [] } }
      ]
    }, kinds)
    expect(refOf(file.definition)).toMatchObject({ undo: true, graph: { nodes: refOf(typed.definition).graph.nodes } })
  })

  const streamed = {
    name: "streamed",
    input: { type: "string" },
    steps: [{ name: "days", stream: "words.say", with: { by: " " } }, { name: "first", use: "words.length", input: "${days[0]}" }]
  }

  it("has the definition of the same stream in TypeScript", () => {
    const start = Pipeline.make("streamed", { input: Schema.String })
    const typed = start.use("days", Say, { with: { by: " " } })
      .select(({ days }) => DateTime.formatIso(days[0] ?? DateTime.makeUnsafe(0)))
      .use("first", Length)
      .end(Schema.Unknown)
    const Days = Handler.makeStream("days", { input: Schema.String, output: Schema.String, run: () => Stream.empty })
    const ofHandler = start.stream("days", Days).select(({ days }) => days[0] ?? "").use("first", Length).end(Schema.Unknown)
    const file = PipelineFile.make(streamed, kinds)
    expect(refOf(file.definition).graph.nodes[0]).toMatchObject({ address: "days", kind: "stream", output: expect.any(String) })
    expect(refOf(file.definition).graph.nodes).toEqual(refOf(typed.definition).graph.nodes)
    expect(refOf(file.definition).graph.nodes).toEqual(refOf(ofHandler.definition).graph.nodes)
    expect(mistakes(streamed)).toEqual([])
    fits(streamed)
    expect(fits.errors).toBe(null)
  })

  it.effect("sends the chunks of a stream as those of the run, also when its worker is killed", () =>
    Effect.gen(function*() {
      const days = ["2026-11-23T00:00:00.000Z", "2026-11-24T00:00:00.000Z"]
      const typed = Pipeline.make("streamed", { input: Schema.String })
        .use("days", Say, { with: { by: " " } })
        .step("first", (list) => list.map(DateTime.toEpochMillis).length)
        .end(Schema.Int)
      for (const when of ["before", "after"] as const) {
        const crash = { crash: ({ path }: { readonly path: string }, moment: string) => path === "days" && moment === when }
        const ofFile = yield* PipelineTest.run(PipelineFile.make(streamed, kinds), "23 24", crash)
        expect(ofFile).toMatchObject({ status: "COMPLETED", output: 24, chunks: days })
        expect(ofFile.activations).toBeGreaterThan(1)
        expect(yield* PipelineTest.run(typed, "23 24", crash)).toMatchObject({ status: "COMPLETED", output: 2, chunks: days })
      }
    }))

  it.effect("runs a failed stream again, does not send a chunk twice, and fails with its error", () =>
    Effect.gen(function*() {
      const again = PipelineFile.make({
        name: "x",
        steps: [{ name: "a", stream: "words.failing", retry: { times: 1, delay: "1 second" } }]
      }, kinds)
      const run = yield* PipelineTest.start(again, "")
      yield* run.parked("a")
      yield* TestClock.adjust("1 second")
      expect(yield* run.result).toMatchObject({ status: "COMPLETED", output: ["a", "b"], chunks: ["a", "b"] })
      const once = PipelineFile.make({ name: "x", steps: [{ name: "a", stream: "words.failing" }] }, kinds)
      expect(yield* PipelineTest.run(once, "")).toMatchObject({ status: "FAILED", error: "The step \"a\" failed: broken pipe" })
      expect((yield* PipelineTest.run(once, 1)).error).toMatch(/^The step "a" failed: The input does not fit: Expected string/)
    }))

  it("is refused when it uses a stream as a step, or another kind as a stream", () => {
    const file = (does: object) => ({ name: "x", steps: [{ name: "a", ...does }] })
    expect(() => PipelineFile.make(file({ use: "words.failing" }), kinds)).toThrow("\"words.failing\" is a stream.")
    expect(() => PipelineFile.make(file({ stream: "words.length" }), kinds)).toThrow("\"words.length\" is not a stream.")
  })

  it.effect("takes a branch, selects a value, and undoes its steps in reverse order after a failure", () =>
    Effect.gen(function*() {
      const undone: Array<unknown> = []
      const endpoints = {
        "words-count": (input: Schema.Json) => ({ count: Object(input).words.length }),
        anything: (input: Schema.Json) => {
          if (typeof input === "string" && input.startsWith("LOUD")) throw new Error("too loud")
          undone.push(input)
          return input
        }
      }
      const run = (input: { readonly text: string; readonly size: string; readonly loud: boolean }) =>
        PipelineTest.run(PipelineFile.make(chosen, kinds), input, {
          endpoints,
          crash: ({ kind }, when) => kind === "choice" && when === "after"
        })
      expect(yield* run({ text: "to be", size: "long", loud: false })).toMatchObject({
        status: "COMPLETED",
        output: { size: { count: 2 }, text: "to be" }
      })
      expect(yield* run({ text: "to be", size: "short", loud: false })).toMatchObject({
        status: "COMPLETED",
        output: { size: ["to", "be"], text: "to be" }
      })
      undone.length = 0
      expect(yield* run({ text: "to be", size: "long", loud: true })).toMatchObject({
        status: "FAILED",
        error: expect.stringContaining("too loud")
      })
      expect(undone).toEqual([{ count: 2 }, ["to", "be"]])
    }))

  it.effect("fails a branch whose value names none of its parts", () =>
    Effect.gen(function*() {
      const file = { name: "x", steps: [{ name: "a", branch: "${input}", parts: { yes: [] } }] }
      expect(yield* PipelineTest.run(PipelineFile.make(file, kinds), "constructor")).toMatchObject({
        status: "FAILED",
        error: expect.stringContaining("It chose \"constructor\", but its branches are yes.")
      })
    }))

  it.effect("runs every kind of step, even when its worker is killed", () =>
    Effect.gen(function*() {
      const run = yield* PipelineTest.start(PipelineFile.make(words, kinds), { text: "to be or" }, {
        endpoints: { "words-count": (input) => ({ count: Object(input).words.length }), anything: (input) => input },
        crash: ({ kind }, when) => kind === "step" && when === "after"
      })
      yield* run.parked("both.there.cool")
      yield* TestClock.adjust("1 hour")
      yield* run.parked("asked")
      yield* run.event("asked", { key: "of to be or", data: "yes" })
      expect(yield* run.result).toMatchObject({
        status: "COMPLETED",
        output: { asked: "yes", both: { here: { count: 3 }, there: 8 }, n: 2, cost: "${n}" }
      })
    }))

  it.effect("gives its jobs the priority and the tags of their step, if it has any", () =>
    Effect.gen(function*() {
      const urgent = { priority: -7, tags: ["urgent"] }
      const file = {
        name: "words",
        steps: [
          { name: "one", run: "anything", input: 1, ...urgent },
          { name: "two", run: "anything", input: [2, 3] },
          { name: "each", run: "anything", forEach: "${two}", ...urgent }
        ]
      }
      expect(mistakes(file)).toEqual([])
      fits(file)
      expect(fits.errors).toBe(null)
      const spawned: Array<unknown> = []
      yield* PipelineTest.run(PipelineFile.make(file, []), null, {
        endpoints: { anything: (input) => input },
        crash: ({ body, kind }, when) => {
          if (kind === "spawn" && when === "before") spawned.push(body)
          return false
        }
      })
      expect(spawned).toEqual([
        { endpoint: "anything", input: 1, ...urgent },
        { endpoint: "anything", input: [2, 3] },
        { endpoint: "anything", input: 2, ...urgent },
        { endpoint: "anything", input: 3, ...urgent }
      ])
    }))

  it.effect("passes values between its steps as JSON", () =>
    Effect.gen(function*() {
      const pipeline = PipelineFile.make({
        name: "dates",
        steps: [
          { name: "later", use: "dates.later" },
          { name: "text", use: "words.length", input: "at ${later}" }
        ]
      }, kinds)
      expect(yield* PipelineTest.run(pipeline, "2026-11-23T05:00:00.000Z")).toMatchObject({ status: "COMPLETED", output: 27 })
    }))

  it.effect("fails a step whose input does not fit, and names the place", () =>
    Effect.gen(function*() {
      const pipeline = PipelineFile.make({ name: "x", steps: [{ name: "a", use: "words.length" }] }, kinds)
      const { error, status } = yield* PipelineTest.run(pipeline, { no: "text" })
      expect(status).toBe("FAILED")
      expect(error).toMatch(/^The step "a" failed: The input does not fit: Expected string/)
    }))

  it("is refused when a kind is not loaded", () => {
    expect(() => PipelineFile.make(words, [Split])).toThrow("There is no kind of step \"words.length\". Loaded are words.split.")
  })
})

describe("a contributed kind", () => {
  const { options: _, ...withoutOptions } = PipelineFile.declarationOf(Split)
  const contributed = {
    package: "stint-plugin-words",
    name: "words.split",
    module: { Split, Length },
    export: "Split",
    declared: {}
  }

  it("is the export of its module", () => {
    expect(PipelineFile.activate({ ...contributed, declared: PipelineFile.declarationOf(Split) })).toBe(Split)
    expect(PipelineFile.activate({ ...contributed, declared: {} })).toBe(Split)
    const length = { ...contributed, name: "words.length", export: "Length", declared: PipelineFile.declarationOf(Length) }
    expect(PipelineFile.activate(length)).toBe(Length)
  })

  it.each([
    [
      { export: "Splitt" },
      "The package stint-plugin-words contributes the kind of step \"words.split\", but \"Splitt\" in its module is not one. It exports Split, Length."
    ],
    [{ export: "Length" }, "but \"Length\" in its module is \"words.length\"."],
    [
      { declared: { input: { type: "number" } } },
      "The package stint-plugin-words declares a different input of \"words.split\" than its module has. The package's author must run: stint plugins write"
    ],
    [
      { declared: { ...PipelineFile.declarationOf(Split), streams: true } },
      "The package stint-plugin-words declares a different form of \"words.split\" than its module has."
    ],
    [
      { declared: withoutOptions },
      "The package stint-plugin-words declares a different options of \"words.split\" than its module has."
    ]
  ])("is refused when the package declares another one: %j", (change, message) => {
    expect(() => PipelineFile.activate({ ...contributed, ...change })).toThrow(message)
  })

  it("has a name by which files can use it", () => {
    expect(() => StepKind.make("a b", { input: Schema.Json, output: Schema.Json, run: () => null })).toThrow(
      "\"a b\" is not a valid name for a kind of step."
    )
  })
})
