/**
 * Type tests for both clients. The compiler checks this file; nothing happens at run time.
 */
import { createClient } from "@stint/client"
import type { PromiseEndpoint, PromiseJob } from "@stint/client"
import * as Client from "@stint/client-effect/Client"
import type { Json } from "@stint/contract/Json"
import * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import { describe, expectTypeOf, it } from "vitest"
import * as PromiseCodec from "../src/PromiseCodec.ts"
import { Days, type Images, Thumbnail, type UnreadableImage } from "./TestHandlers.ts"

type Problems = Client.ClientError | Client.JobFailure

const client = createClient({ baseUrl: "http://platform.test" })
const url = new URL("https://example.com/photo.jpg")

describe("an endpoint typed by a handler", () => {
  it("has the handler's input, output and failures, and does not require its services", () => {
    const program = Effect.gen(function*() {
      const thumbnail = yield* Client.endpoint(Thumbnail)
      expectTypeOf(thumbnail.runSync).parameter(0).toEqualTypeOf<{ readonly url: URL; readonly width: number }>()
      return yield* thumbnail.runSync({ url, width: 64 })
    })
    expectTypeOf<Effect.Success<typeof program>>().toEqualTypeOf<{ readonly url: URL; readonly taken?: Date }>()
    expectTypeOf<Effect.Error<typeof program>>().toEqualTypeOf<UnreadableImage | Problems>()
    expectTypeOf<Effect.Services<typeof program>>().toEqualTypeOf<Client.Client>()
    expectTypeOf<Effect.Services<typeof program>>().not.toEqualTypeOf<Client.Client | Images>()
  })

  it("rejects an input of another type", () => {
    void Effect.gen(function*() {
      const thumbnail = yield* Client.endpoint(Thumbnail)
      // @ts-expect-error a string instead of a URL
      yield* thumbnail.runSync({ url: "https://example.com", width: 64 })
      // @ts-expect-error width is missing
      yield* thumbnail.run({ url })
      // @ts-expect-error an unknown key
      yield* thumbnail.runSync({ url, width: 64, height: 64 })
      // @ts-expect-error an unknown option
      yield* thumbnail.runSync({ url, width: 64 }, { idempotency: "key" })
    })
  })

  it("has chunks and a list as output if the handler streams, and no chunks otherwise", () => {
    type Of<A> = A extends Effect.Effect<infer E, infer _, infer _> ? E : never
    const days = Client.endpoint(Days)
    expectTypeOf<ReturnType<Of<typeof days>["stream"]>>().toEqualTypeOf<Stream.Stream<Date, Problems>>()
    expectTypeOf<ReturnType<Of<typeof days>["runSync"]>>().toEqualTypeOf<Effect.Effect<ReadonlyArray<Date>, Problems>>()
    const thumbnail = Client.endpoint(Thumbnail)
    expectTypeOf<ReturnType<Of<typeof thumbnail>["stream"]>>().toEqualTypeOf<Stream.Stream<never, UnreadableImage | Problems>>()
  })

  it("has the same types for promises, with a codec", () => {
    const thumbnail = client.endpoint(PromiseCodec.make(Thumbnail))
    expectTypeOf(thumbnail).toEqualTypeOf<
      PromiseEndpoint<{ readonly url: URL; readonly width: number }, { readonly url: URL; readonly taken?: Date }, never>
    >()
    // @ts-expect-error a string instead of a URL
    void (() => thumbnail.runSync({ url: "https://example.com", width: 64 }))
    void (async () => {
      for await (const day of client.endpoint(PromiseCodec.make(Days)).stream({ from: new Date() })) {
        expectTypeOf(day).toEqualTypeOf<Date>()
      }
    })
  })

  it("has JSON types with the handler's type alone", () => {
    const thumbnail = client.endpoint<typeof Thumbnail>("thumbnail")
    expectTypeOf(thumbnail.runSync).parameter(0).toEqualTypeOf<{ readonly url: string; readonly width: number }>()
    expectTypeOf(thumbnail.runSync).returns.resolves.toEqualTypeOf<{ readonly url: string; readonly taken?: string }>()
    expectTypeOf(client.endpoint<typeof Days>("days").job("j").result).returns.resolves.toEqualTypeOf<ReadonlyArray<string>>()
    // @ts-expect-error a string instead of a number
    void (() => thumbnail.runSync({ url: "https://example.com", width: "64" }))
  })
})

describe("an endpoint called by name", () => {
  it("has JSON types, unless the caller specifies others", () => {
    expectTypeOf(client.endpoint("hello")).toEqualTypeOf<PromiseEndpoint<Json, Json | undefined, Json>>()
    const countdown = client.endpoint<{ readonly from: number }, ReadonlyArray<number>>("countdown")
    expectTypeOf(countdown.run).returns.resolves.toEqualTypeOf<PromiseJob<ReadonlyArray<number>, number>>()
    // @ts-expect-error a string instead of a number
    void (() => countdown.run({ from: "3" }))
    // @ts-expect-error a function is not JSON
    void (() => client.endpoint("hello").run(() => 1))
    const json = Client.endpoint("hello")
    expectTypeOf<Effect.Success<typeof json>>().toEqualTypeOf<Client.Endpoint<Json, Json | undefined, Json>>()
    const named = Client.endpoint<{ readonly from: number }, number>("countdown")
    expectTypeOf<Effect.Error<typeof named>>().toEqualTypeOf<never>()
  })
})
