/**
 * Type tests for connections. The compiler checks this file; `WrongConnections.long.test.ts` checks the messages.
 */
import { Handler } from "@stint/worker"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { describe, expect, expectTypeOf, it } from "vitest"
import { Pipeline } from "../src/index.ts"

const Album = Schema.Struct({ title: Schema.String, photos: Schema.Array(Schema.String) })
const start = Pipeline.make("gallery", { input: Album })

class Photos extends Context.Service<Photos, { readonly list: (album: string) => Effect.Effect<ReadonlyArray<string>> }>()(
  "test/Photos"
) {}

class Mail extends Context.Service<Mail, { readonly send: Effect.Effect<void> }>()("test/Mail") {}

const Thumbnail = Handler.make("thumbnail", {
  input: Schema.Struct({ url: Schema.String }),
  output: Schema.Struct({ taken: Schema.Date }),
  run: () => Effect.map(Photos, () => ({ taken: new Date(0) }))
})

const Words = Handler.makeStream("words", { input: Schema.String, output: Schema.String, run: (text) => Stream.make(text) })

type ValueOf<B> = B extends { readonly "~value": () => infer Value } ? Value : never
type ServicesOf<B> = B extends { readonly "~services": () => infer R } ? R : never

describe("the types of a pipeline", () => {
  it("gives a step the value before it and the results by name", () => {
    const pipeline = start
      .step("list", async (album) => {
        expectTypeOf(album).toEqualTypeOf<typeof Album.Type>()
        return album.photos.length
      })
      .step("double", (count, results, context) => {
        expectTypeOf(count).toEqualTypeOf<number>()
        expectTypeOf(results).toEqualTypeOf<{ readonly input: typeof Album.Type; readonly list: number }>()
        expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>()
        return Effect.succeed({ twice: count * 2 })
      })
      .step("time", () => new Date(0), { output: Schema.Date })
    expectTypeOf<ValueOf<typeof pipeline>>().toEqualTypeOf<Date>()
  })

  it("shows the services of the steps, but not those of the jobs", () => {
    const pipeline = start
      .step("list", ({ title }) => Effect.flatMap(Photos, (photos) => photos.list(title)))
      .step("url", (photos) => ({ url: photos[0] ?? "" }), {
        undo: (output) => {
          expectTypeOf(output).toEqualTypeOf<{ url: string }>()
          return Effect.flatMap(Mail, ({ send }) => send)
        }
      })
      .run("thumbnail", Thumbnail)
    expectTypeOf<ServicesOf<typeof pipeline>>().toEqualTypeOf<Photos | Mail>()
    expectTypeOf<ValueOf<typeof pipeline>>().toEqualTypeOf<{ readonly taken: Date }>()
  })

  it("connects lists, parts, choices, waits and streams", () => {
    const pipeline = start
      .select(({ input }) => input.photos.map((url) => ({ url })))
      .forEach("thumbnail", Thumbnail, { concurrency: 4 })
      .forEach("year", ({ taken }) => taken.getFullYear())
      .all("extras", {
        first: (p) => p.step("pick", (years) => years[0] ?? 0),
        all: (p) => p.sleep("nap", "1 second")
      })
      .branch("size", ({ year }) => year.length > 10 ? "large" : "small", {
        large: (p) => p.step("zip", ({ all }) => all.length),
        small: (p) => p.step("plain", ({ first }) => `${first}`)
      })
      .waitFor("approved", Schema.Boolean, { key: ({ input }) => input.title, timeout: "7 days", onTimeout: () => false })
      .step("text", (approved, { size }) => `${approved} ${size}`)
      .stream("words", Words)
      .stream("letters", async function*(words) {
        yield words.length
      })
    expectTypeOf<ValueOf<typeof pipeline>>().toEqualTypeOf<ReadonlyArray<number>>()
    const complete = pipeline.end(Schema.Array(Schema.Number))
    expectTypeOf(complete.name).toEqualTypeOf<"gallery">()
    // A pipeline can run another pipeline as an endpoint.
    const outer = Pipeline.make("outer", { input: Album }).run("inner", complete)
    expectTypeOf<ValueOf<typeof outer>>().toEqualTypeOf<ReadonlyArray<number>>()
  })
})

describe("streams", () => {
  const words = async function*() {
    yield "a"
  }

  it("cannot be in two parts that run at the same time", () => {
    expect(() =>
      start.all("both", {
        a: (p) => p.stream("first", words),
        b: (p) => p.branch("choice", () => "yes", { yes: (q) => q.all("inner", { c: (r) => r.stream("second", words) }) }),
        d: (p) => p.step("third", () => 1)
      })
    ).toThrow("Pipeline \"gallery\": the parts \"a\" and \"b\" of \"both\" run at the same time and both contain a stream.")
  })

  it("can be in one part, in each part of a choice, and one after the other", () => {
    start.all("both", { a: (p) => p.stream("first", words).stream("next", words), b: (p) => p.step("second", () => 1) })
      .branch("choice", (): "yes" | "no" => "yes", { yes: (p) => p.stream("third", words), no: (p) => p.stream("fourth", words) })
  })
})

describe("names", () => {
  it("also rejects a taken or invalid name when the pipeline is made", () => {
    const list = start.step("list", () => 1)
    // @ts-expect-error the name is taken
    expect(() => list.step("list", () => 1)).toThrow("Pipeline \"gallery\": the name \"list\" is already used.")
    // @ts-expect-error `input` is the name of the run's input
    expect(() => list.sleep("input", "1 second")).toThrow("is already used")
    expect(() => list.step("no spaces", () => 1)).toThrow("\"no spaces\" is not a valid step name.")
    expect(() => list.all("parts", { "a.b": (p) => p })).toThrow("\"a.b\" is not a valid step name.")
    expect(() => start.select(({ input }) => input.photos).forEach("each", () => 1, { concurrency: 0 })).toThrow(
      "the concurrency of \"each\" is 0"
    )
  })
})
