/**
 * Tests the Effect client on a mock platform.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Client from "@stint/client-effect/Client"
import * as ClientTest from "@stint/client-effect/testing/ClientTest"
import { mockPlatform } from "@stint/client/testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { Days, Thumbnail, UnreadableImage } from "./TestHandlers.ts"

const photo = new URL("https://example.com/photo.jpg")
const day = 86_400_000

describe("the Effect client on a mock platform", () => {
  const layer = ClientTest.layer({
    thumbnail: ClientTest.handler(
      Thumbnail,
      ({ url, width }) =>
        width === 1 ? Effect.fail(new UnreadableImage({ url, at: new Date(0) })) : Effect.succeed({ url, taken: new Date(day) })
    ),
    days: ClientTest.handler(Days, ({ from }) => Stream.make(from, new Date(from.getTime() + day))),
    refused: ClientTest.handler(
      { ...Days, name: "refused", error: UnreadableImage },
      ({ from }) => Stream.concat(Stream.make(from), Stream.fail(new UnreadableImage({ url: photo, at: from })))
    )
  })

  it.effect("encodes and decodes with the Schemas of the mocked handlers", () =>
    Effect.gen(function*() {
      const thumbnail = yield* Client.endpoint(Thumbnail)
      expect(yield* thumbnail.runSync({ url: photo, width: 64 })).toEqual({ url: photo, taken: new Date(day) })
      const declared = yield* Effect.flip(thumbnail.runSync({ url: photo, width: 1 }))
      expect(declared).toBeInstanceOf(UnreadableImage)
      const days = yield* Client.endpoint(Days)
      expect(yield* Stream.runCollect(days.stream({ from: new Date(0) }))).toEqual([new Date(0), new Date(day)])
      expect(yield* days.runSync({ from: new Date(0) })).toHaveLength(2)
      const refused = yield* Client.endpoint({ ...Days, error: UnreadableImage }, "refused")
      expect(yield* Effect.flip(Stream.runDrain(refused.stream({ from: new Date(0) })))).toBeInstanceOf(UnreadableImage)
    }).pipe(Effect.provide(layer)))

  it.effect("cancels the job of an interrupted wait, if enabled", () =>
    Effect.gen(function*() {
      const platform = mockPlatform({ never: () => new Promise(() => {}) })
      yield* Effect.gen(function*() {
        const never = yield* Client.endpoint("never")
        const waiting = yield* Effect.forkChild(never.runSync(null, { cancelOnInterrupt: true }))
        yield* Effect.promise(async () => {
          while (platform.jobs().length === 0) await new Promise((next) => setTimeout(next, 1))
        })
        yield* Fiber.interrupt(waiting)
        expect(platform.jobs()).toMatchObject([{ status: "CANCELLED" }])
      }).pipe(Effect.provide(ClientTest.layerOf(platform)))
    }))
})
