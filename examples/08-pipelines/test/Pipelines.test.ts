import { describe, expect, it } from "@effect/vitest"
import { Downloads } from "@stint/downloads"
import { DownloadsTest } from "@stint/downloads/testing"
import type { GuardedHttp } from "@stint/http-guard"
import { GuardedHttpTest } from "@stint/http-guard/testing"
import { PipelineTest } from "@stint/pipelines/testing"
import { UploadsTest } from "@stint/worker-uploads/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import sharp from "sharp"
import { Answer } from "../answer/Answer.ts"
import { Gallery } from "../gallery/Gallery.ts"
import { Order, Shop } from "../order/Order.ts"
import { Summary } from "../summary/Summary.ts"

/** A photo of one colour. */
const painted = (color: string): Uint8Array =>
  new TextEncoder().encode(
    `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><rect width="40" height="30" fill="${color}"/></svg>`
  )

const photos = {
  "https://photos.test/red.svg": painted("red"),
  "https://photos.test/blue.svg": painted("blue"),
  "https://photos.test/notes.txt": new TextEncoder().encode("no photo")
}

const album = (...names: ReadonlyArray<string>) => ({
  title: "Colors",
  photos: names.map((name) => new URL(`https://photos.test/${name}`)),
  width: 16
})

describe("the gallery", () => {
  /** The requests to the webhook. The first one is answered with 503. */
  const posted: Array<{ readonly url: string; readonly options: GuardedHttp.Options }> = []
  const webhook = GuardedHttpTest.layer((url, options) =>
    Effect.sync(() => ({ status: posted.push({ url: url.href, options }) === 1 ? 503 : 204 }))
  )
  const layers = Layer.mergeAll(DownloadsTest.layer(photos, { retries: 0 }), UploadsTest.layer, webhook)

  it.effect("uploads a thumbnail of each photo, although the worker is killed after each record", () =>
    Effect.gen(function*() {
      const run = yield* PipelineTest.start(Gallery, album("red.svg", "blue.svg"), { crash: (_, when) => when === "after" })
      const { activations, output } = yield* run.result
      const uploaded = yield* UploadsTest.uploaded
      expect(activations).toBeGreaterThan(1)
      expect(new Set(uploaded.map(({ key }) => key))).toEqual(new Set([`${run.id}/1.jpg`, `${run.id}/2.jpg`]))
      expect(output).toEqual({
        title: "Colors",
        thumbnails: ["1.jpg", "2.jpg"].map((name) => `https://uploads.test/${run.id}/${name}`)
      })
      for (const { bytes } of uploaded) {
        const { format, height, width } = yield* Effect.promise(() => sharp(bytes).metadata())
        expect({ format, height, width }).toEqual({ format: "jpeg", height: 12, width: 16 })
      }
    }).pipe(Effect.provide(layers)))

  it.effect("posts its page to the webhook, and again after an error, with the same key", () =>
    Effect.gen(function*() {
      posted.length = 0
      const run = yield* PipelineTest.start(Gallery, { ...album("red.svg"), notify: new URL("https://shop.test/hook") })
      yield* run.parked("notify[0]")
      yield* TestClock.adjust("1 second")
      const { output, status } = yield* run.result
      expect(status).toBe("COMPLETED")
      expect(posted.map(({ options, url }) => [url, options.method, options.headers?.["idempotency-key"]])).toEqual(
        [1, 2].map(() => ["https://shop.test/hook", "POST", `${run.id}/notify[0]`])
      )
      expect(JSON.parse(String(posted[1]?.options.body))).toEqual(output)
    }).pipe(Effect.provide(layers)))

  it.effect("posts nothing when the input names no webhook", () =>
    Effect.gen(function*() {
      posted.length = 0
      const { entries, status } = yield* PipelineTest.run(Gallery, album("red.svg"))
      expect(status).toBe("COMPLETED")
      expect(posted).toEqual([])
      expect(entries.filter(({ path }) => path.startsWith("notify["))).toEqual([])
    }).pipe(Effect.provide(layers)))

  it.effect.each(
    [
      ["notes.txt", "The photo cannot be read: "],
      ["gone.svg", "does not know https://photos.test/gone.svg"]
    ] as const
  )("fails with the reason when a photo cannot be fetched: %s", ([name, reason]) =>
    Effect.gen(function*() {
      const run = yield* PipelineTest.start(Gallery, album("red.svg", name))
      for (const seconds of [1, 2]) {
        yield* run.parked("fetch[1]")
        yield* TestClock.adjust(seconds * 1000)
      }
      const { error } = yield* run.result
      expect(error).toContain("The step \"fetch[1]\" failed: ")
      expect(error).toContain(reason)
      expect(yield* UploadsTest.uploaded).toEqual([])
    }).pipe(Effect.provide(layers)))

  it.effect("fetches no photo that is larger than 20 MB", () =>
    Effect.gen(function*() {
      const asked: Array<number | undefined> = []
      const http = GuardedHttpTest.layer((_, { maxBytes }) =>
        Effect.sync(() => {
          asked.push(maxBytes)
          return { body: painted("red") }
        })
      )
      const downloads = Layer.provide(Downloads.layerNoDeps(), http)
      yield* PipelineTest.run(Gallery, album("red.svg")).pipe(
        Effect.provide(Layer.mergeAll(downloads, UploadsTest.layer, webhook))
      )
      expect(asked).toEqual([20 * 1024 * 1024])
    }))
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
