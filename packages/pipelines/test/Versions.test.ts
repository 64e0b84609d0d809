import * as DefinitionFit from "@stint/contract/DefinitionFit"
import type { JournalEntry } from "@stint/contract/RunJournal"
import { CurrentJob } from "@stint/worker/CurrentJob"
import { TypeId } from "@stint/worker/Runnable"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { Building } from "../src/Building.ts"
import { Graph, Journal, Pipeline } from "../src/index.ts"
import * as JournalMemory from "../src/JournalMemory.ts"
import { PipelineTest } from "../src/testing/index.ts"

const Draft = Schema.Struct({ text: Schema.String })

/** A pipeline that waits between its steps, so that a new release finds it waiting. */
const letters = (write: Schema.Codec<unknown>) =>
  Pipeline.make("letters", { input: Schema.String })
    .step("write", () => ({ text: "Dear Ada" }), { output: write })
    .waitFor("approved", Schema.Json)

const first = letters(Draft).step("post", () => "posted").end(Schema.Unknown)

/** Starts `first`, lets it wait, and continues it with the pipeline of a new release. */
const upgraded = (next: NonNullable<PipelineTest.Options<never>["next"]>) =>
  Effect.gen(function*() {
    const run = yield* PipelineTest.start(first, "x", { next })
    yield* run.parked("approved")
    yield* run.event("approved")
    return yield* Effect.raceFirst(
      Effect.map(run.result, ({ output, status }) => ({ status, output })),
      Effect.map(run.held, (held) => ({ held }))
    )
  }).pipe(Effect.scoped, Effect.runPromise)

describe("a run and a new release of its pipeline", () => {
  it("continues when a step that it has not run has changed", async () => {
    const next = letters(Draft).step("post", () => 42, { output: Schema.Number }).end(Schema.Unknown)
    expect(await upgraded(next)).toEqual({ status: "COMPLETED", output: 42 })
  })

  it("continues when steps are added after those that it has recorded", async () => {
    const next = letters(Draft).step("stamp", () => 1).step("post", () => "posted by air").end(Schema.Unknown)
    expect(await upgraded(next)).toEqual({ status: "COMPLETED", output: "posted by air" })
  })

  it("waits when the output of a recorded step has another type, and names the step", async () => {
    const next = letters(Schema.Struct({ text: Schema.String, page: Schema.Number })).end(Schema.Unknown)
    expect(await upgraded(next)).toEqual({
      held: "The run has recorded the output of the node \"write\", whose type is different in the definition of the worker."
    })
  })

  it("waits when a recorded step was removed, and when its input has another type", async () => {
    const renamed = Pipeline.make("letters", { input: Schema.String })
      .step("draft", () => ({ text: "" }), { output: Draft }).waitFor("approved", Schema.Json).end(Schema.Unknown)
    expect(await upgraded(renamed)).toEqual({
      held: "The run has recorded the node \"write\", which the definition of the worker does not have."
    })
    const input = Pipeline.make("letters", { input: Schema.Number })
      .step("write", () => ({ text: "" }), { output: Draft }).waitFor("approved", Schema.Json).end(Schema.Unknown)
    expect(await upgraded(input)).toEqual({
      held: "The run began with an input whose type is different in the definition of the worker."
    })
  })

  it("continues after a retry has forgotten entries, so that their numbers have a gap", async () => {
    const GAP = 3
    const began: Array<string> = []
    const program = Effect.gen(function*() {
      const memory = yield* JournalMemory.make()
      const journal: Journal.Journal["Service"] = {
        ...memory.journal,
        write: ({ after, park, ...write }, definition) =>
          Effect.map(
            memory.journal.write({
              ...write,
              ...(after === undefined ? {} : { after: Math.max(0, after - GAP) }),
              ...(park === undefined ? {} : { park: { ...park, seen: park.seen - GAP } })
            }, definition),
            ({ entries, n, ...answer }) => ({
              ...answer,
              n: n + GAP,
              entries: entries.map((entry) => ({ ...entry, n: entry.n + GAP }))
            })
          )
      }
      const pipeline = Pipeline.make("gap", { input: Schema.Number })
        .step("a", (_, __, { path }) => void began.push(path))
        .sleep("nap", "10 millis")
        .step("b", (_, __, { path }) => began.push(path))
        .end(Schema.Number)
      yield* Effect.exit(pipeline.run({ id: "r", input: 1, attempt: 2 }, undefined)).pipe(
        Effect.provideService(Journal.Journal, journal),
        Effect.provideService(CurrentJob, { id: "r", input: 1 })
      )
      return yield* memory.ended("r")
    })
    expect(await Effect.runPromise(Effect.scoped(program))).toEqual({ status: "COMPLETED", output: 2 })
    expect(began).toEqual(["a", "b"])
  })

  it("compares graphs of workers that send neither inputs nor parts by their nodes alone", () => {
    const nodes = [{ address: "size", kind: "branch" }]
    const later = { nodes: [{ address: "size", kind: "branch", parts: ["zip"] }], input: "a" }
    expect(DefinitionFit.changes({ nodes }, later)).toEqual([])
    expect(DefinitionFit.changes(later, { nodes })).toEqual([])
  })
})

/** A pipeline of the property test. Types are indexes of `OUTPUTS`. */
interface Leaf {
  readonly kind: "step" | "run" | "eachStep" | "eachRun"
  readonly name: string
  readonly type: number
}

interface Fork {
  readonly kind: "all" | "branch"
  readonly name: string
  readonly parts: ReadonlyArray<{ readonly name: string; readonly nodes: ReadonlyArray<Shape> }>
}

type Shape = Leaf | Fork

const OUTPUTS: ReadonlyArray<Schema.Codec<unknown>> = [Schema.Json, Schema.String, Schema.Number]
const VALUES = [null, "text", 1]

const isFork = (shape: Shape): shape is Fork => shape.kind === "all" || shape.kind === "branch"

const target = (type: number) => ({
  [TypeId]: TypeId,
  name: `job${type}`,
  input: Schema.Json,
  output: OUTPUTS[type] ?? Schema.Json,
  streams: false
} as const)

const ENDPOINTS = Object.fromEntries(VALUES.map((value, type) => [`job${type}`, () => value]))

/** Adds the nodes. Each step records its path when it begins. */
const withNodes = (start: Building, nodes: ReadonlyArray<Shape>, began: (path: string) => void): Building =>
  nodes.reduce((builder, shape) => {
    if (isFork(shape)) {
      const parts = Object.fromEntries(
        shape.parts.map(({ name, nodes }) => [name, (inner: Building) => withNodes(inner, nodes, began)])
      )
      return shape.kind === "all"
        ? builder.all(shape.name, parts)
        : builder.branch(shape.name, () => shape.parts[0]?.name ?? "none", parts)
    }
    const { kind, name, type } = shape
    const run = (_value: unknown, _results: unknown, { path }: { readonly path: string }) => {
      began(path)
      return VALUES[type]
    }
    const output = OUTPUTS[type] ?? Schema.Json
    if (kind === "step") return builder.step(name, run, { output })
    if (kind === "run") return builder.select(() => 1).run(name, target(type))
    const list = builder.select(() => [1, 2])
    return kind === "eachStep" ? list.forEach(name, run, { output }) : list.forEach(name, target(type))
  }, start)

type Random = Pipeline.Pipeline<string, typeof Schema.Json, typeof Schema.Unknown, never>

/** The random names are not literals, so the builder is not typed. */
function typed(pipeline: unknown): Random
function typed(pipeline: unknown): unknown {
  return pipeline
}

const pipelineOf = (nodes: ReadonlyArray<Shape>, began: (path: string) => void): Random =>
  typed(withNodes(new Building("p", Schema.Json, [], new Set(["input"])), nodes, began).end(Schema.Unknown))

const leaf = (name: string): fc.Arbitrary<Shape> =>
  fc.record({
    kind: fc.constantFrom("step" as const, "run" as const, "eachStep" as const, "eachRun" as const),
    name: fc.constant(name),
    type: fc.nat(2)
  })

const shapes = (prefix: string, depth: number): fc.Arbitrary<ReadonlyArray<Shape>> =>
  fc.tuple(...["a", "b", "c"].map((letter) => node(`${prefix}${letter}`, depth))).chain((all) =>
    fc.integer({ min: 1, max: 3 }).map((count) => all.slice(0, count))
  )

const node = (name: string, depth: number): fc.Arbitrary<Shape> =>
  depth === 0 ? leaf(name) : fc.oneof({ weight: 3, arbitrary: leaf(name) }, {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constantFrom("all" as const, "branch" as const, "branch" as const),
      name: fc.constant(name),
      parts: fc.tuple(shapes(`${name}l`, depth - 1), shapes(`${name}r`, depth - 1)).map(([left, right]) => [
        { name: "left", nodes: left },
        { name: "right", nodes: right }
      ])
    })
  })

/** One edit that a release makes: to the node with this number, in text order. */
const edit = fc.record({
  at: fc.nat(5),
  what: fc.constantFrom("type", "kind", "fork", "remove", "before", "after", "part", "part"),
  type: fc.nat(2)
})

type Edit = typeof edit extends fc.Arbitrary<infer E> ? E : never

const edited = (nodes: ReadonlyArray<Shape>, { at, type, what }: Edit, index: number): ReadonlyArray<Shape> => {
  let number = 0
  const visit = (list: ReadonlyArray<Shape>): ReadonlyArray<Shape> =>
    list.flatMap((shape): ReadonlyArray<Shape> => {
      const isHere = number++ === at
      const inner = isFork(shape)
        ? { ...shape, parts: shape.parts.map((part) => ({ ...part, nodes: visit(part.nodes) })) }
        : shape
      if (!isHere) return [inner]
      const added: Shape = { kind: "step", name: `new${index}`, type }
      switch (what) {
        case "remove":
          return []
        case "before":
          return [added, inner]
        case "after":
          return [inner, added]
        case "type":
          return [isFork(inner) ? inner : { ...inner, type }]
        case "kind":
          return [
            isFork(inner) ? { ...added, name: inner.name } : { ...inner, kind: inner.kind === "eachRun" ? "eachStep" : "eachRun" }
          ]
        case "fork":
          return [isFork(inner) ? { ...inner, kind: inner.kind === "all" ? "branch" : "all" } : inner]
        default:
          return [
            isFork(inner)
              ? { ...inner, parts: inner.parts.map((part, index) => index === type ? { ...part, name: "other" } : part) }
              : inner
          ]
      }
    })
  return visit(nodes)
}

/** Whether every entry meets a node that matches: a walk through both trees by the names of the entry's path. */
const meets = (
  [name, part, ...rest]: ReadonlyArray<string>,
  entry: JournalEntry,
  own: ReadonlyArray<Shape>,
  other: ReadonlyArray<Shape>
): boolean => {
  const was = own.find((one) => one.name === name)
  const is = other.find((one) => one.name === name)
  if (was === undefined || is === undefined || was.kind !== is.kind) return false
  if (!isFork(was) || !isFork(is)) return !isFork(was) && !isFork(is) && was.type === is.type
  if (part === undefined) return is.parts.some((one) => JSON.stringify(entry.body) === JSON.stringify({ branch: one.name }))
  const [before, after] = [was, is].map(({ parts }) => parts.find((one) => one.name === part)?.nodes ?? [])
  return meets(rest, entry, before ?? [], after ?? [])
}

const fits = (entries: ReadonlyArray<JournalEntry>, own: ReadonlyArray<Shape>, other: ReadonlyArray<Shape>): boolean =>
  entries.every((entry) => meets(entry.path.split(".").map((name) => name.replace(/[[~].*$/, "")), entry, own, other))

const RUNS = Number(process.env["STINT_PROPERTY_RUNS"] ?? 250)

describe("random pairs of definitions", () => {
  it("fit exactly when each recorded entry meets a node that matches, and then no recorded step begins again", async () => {
    const seen = { continued: 0, held: 0 }
    await fc.assert(
      fc.asyncProperty(
        shapes("n", 2),
        fc.array(edit, { minLength: 1, maxLength: 2 }),
        fc.nat(5),
        fc.constantFrom("before" as const, "after" as const),
        async (own, edits, crashAt, moment) => {
          const other = edits.reduce(edited, own)
          const began: Array<string> = []
          const built = pipelineOf(other, (path) => void began.push(path))
          let recorded: ReadonlyArray<JournalEntry> | undefined
          let entries = (): ReadonlyArray<JournalEntry> => []
          const next: typeof built = {
            ...built,
            run: (job, emit) => {
              recorded ??= [...entries()]
              return built.run(job, emit)
            }
          }
          let records = 0
          const outcome = await Effect.gen(function*() {
            const run = yield* PipelineTest.start(pipelineOf(own, () => {}), null, {
              endpoints: ENDPOINTS,
              next,
              crash: (_, when) => when === moment && records++ === crashAt
            })
            entries = run.entries
            return yield* Effect.raceFirst(Effect.map(run.result, ({ status }) => status), Effect.as(run.held, "HELD"))
          }).pipe(Effect.scoped, Effect.runPromise)
          // The first release has run to its end.
          if (recorded === undefined) return
          const isFit = fits(recorded, own, other)
          const graphs = [pipelineOf(own, () => {}), built].map(({ definition }) => Graph.graphOf(definition))
          const [before = expect.fail(), after = expect.fail()] = graphs
          expect(DefinitionFit.met(recorded, DefinitionFit.changes(before, after)).length === 0).toBe(isFit)
          expect(outcome).toBe(isFit ? "COMPLETED" : "HELD")
          const done = new Set(recorded.filter(({ kind }) => kind === "step").map(({ path }) => path))
          expect(isFit ? began.filter((path) => done.has(path)) : began).toEqual([])
          seen[isFit ? "continued" : "held"]++
        }
      ),
      { numRuns: RUNS }
    )
    // The generator must not produce only one kind.
    expect(Math.min(seen.continued, seen.held)).toBeGreaterThan(RUNS / 20)
  })
})
