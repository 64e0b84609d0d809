import { describe, expect, it } from "@effect/vitest"
import { PipelineTest } from "@stint/pipelines/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { Answer } from "../Answer.ts"
import * as Gallery from "../Gallery.ts"
import { Order, Shop } from "../Order.ts"
import { Summary } from "../Summary.ts"

describe("the gallery", () => {
  it.effect("uploads a thumbnail of each photo once, although the worker is killed after each upload", () => {
    const uploads: Array<string> = []
    const photos = Layer.effect(
      Gallery.Photos,
      Effect.map(Gallery.Photos, (photos) => ({
        ...photos,
        upload: (key: string, bytes: Uint8Array) => Effect.as(Effect.sync(() => uploads.push(key)), `small:${bytes.length > 0}`)
      }))
    ).pipe(Layer.provide(Gallery.layer))
    return Effect.gen(function*() {
      const result = yield* PipelineTest.run(Gallery.Gallery, { title: "Colors", photos: ["red", "blue", "gold"], width: 32 }, {
        crash: ({ path }, when) => path.startsWith("thumbnail[") && when === "after"
      })
      expect(result.output).toEqual({ title: "Colors", thumbnails: ["small:true", "small:true", "small:true"] })
      // A photo whose thumbnail was being uploaded when the worker was killed is uploaded again under the same key.
      expect(new Set(uploads)).toEqual(new Set([0, 1, 2].map((index) => `${uploads[0]?.split("/")[0]}/thumbnail[${index}]`)))
    }).pipe(Effect.provide(photos))
  })

  it.effect("fails with the name of the photo that cannot be read", () =>
    Effect.gen(function*() {
      const run = yield* PipelineTest.start(Gallery.Gallery, { title: "Colors", photos: ["red", "no color"], width: 32 })
      for (const seconds of [1, 2]) {
        yield* run.parked("thumbnail[1]")
        yield* TestClock.adjust(seconds * 1000)
      }
      expect((yield* run.result).error).toContain("The step \"thumbnail[1]\" failed: no color is not a color that can be painted")
    }).pipe(Effect.provide(Gallery.layer)))
})

describe("the order", () => {
  const log: Array<string> = []
  const shop = Layer.succeed(Shop, {
    reserve: (item) => Effect.sync(() => ({ reservation: `${log.push(`reserve ${item}`)}` })),
    release: () => Effect.sync(() => void log.push("release")),
    charge: (cents) => Effect.sync(() => ({ payment: `${log.push(`charge ${cents}`)}` })),
    refund: () => Effect.sync(() => void log.push("refund")),
    ship: (item) => Effect.sync(() => `${item} ${log.push("ship")}`)
  })
  const order = { id: "4711", item: "tea", cents: 350 }

  it.effect("ships when a person approves", () =>
    Effect.gen(function*() {
      log.length = 0
      const run = yield* PipelineTest.start(Order, order)
      yield* run.parked("approval")
      yield* run.event("approval", { key: "4711", data: { approved: true, by: "Ada" } })
      expect((yield* run.result).output).toBe("tea 3")
      expect(log).toEqual(["reserve tea", "charge 350", "ship"])
    }).pipe(Effect.provide(shop)))

  it.effect("takes the payment and the reservation back after a week without an answer", () =>
    Effect.gen(function*() {
      log.length = 0
      const run = yield* PipelineTest.start(Order, order)
      yield* run.parked("approval")
      yield* TestClock.adjust("7 days")
      expect((yield* run.result).error).toBe("The step \"approval\" failed: No event \"approval\" arrived within 7d.")
      expect(log).toEqual(["reserve tea", "charge 350", "refund", "release"])
    }).pipe(Effect.provide(shop)))
})

it.effect("the summary counts words over all paragraphs", () =>
  Effect.gen(function*() {
    const { output } = yield* PipelineTest.run(Summary, { text: "To be\n\nor not\n\nto be" })
    expect(output).toEqual({ to: 2, be: 2, or: 1, not: 1 })
  }))

it.effect("the answer streams its words", () =>
  Effect.gen(function*() {
    const result = yield* PipelineTest.run(Answer, { question: "why?" })
    expect(result).toMatchObject({ output: "You asked: why?", chunks: ["You ", "asked: ", "why?"] })
  }))
