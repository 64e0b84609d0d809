/**
 * What does not compile, and what has which type. The test runner runs none of it; the compiler checks it.
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
  it("has its input, output and failures, and needs nothing that the handler needs", () => {
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

  it("refuses a wrong input", () => {
    void Effect.gen(function*() {
      const thumbnail = yield* Client.endpoint(Thumbnail)
      // @ts-expect-error a URL, not its text
      yield* thumbnail.runSync({ url: "https://example.com", width: 64 })
      // @ts-expect-error no width
      yield* thumbnail.run({ url })
      // @ts-expect-error a key that the Schema does not know
      yield* thumbnail.runSync({ url, width: 64, height: 64 })
      // @ts-expect-error an option that there is not
      yield* thumbnail.runSync({ url, width: 64 }, { idempotency: "key" })
    })
  })

  it("of one that streams has chunks, and a list for an output; one that does not stream has no chunks", () => {
    type Of<A> = A extends Effect.Effect<infer E, infer _, infer _> ? E : never
    const days = Client.endpoint(Days)
    expectTypeOf<ReturnType<Of<typeof days>["stream"]>>().toEqualTypeOf<Stream.Stream<Date, Problems>>()
    expectTypeOf<ReturnType<Of<typeof days>["runSync"]>>().toEqualTypeOf<Effect.Effect<ReadonlyArray<Date>, Problems>>()
    const thumbnail = Client.endpoint(Thumbnail)
    expectTypeOf<ReturnType<Of<typeof thumbnail>["stream"]>>().toEqualTypeOf<Stream.Stream<never, UnreadableImage | Problems>>()
  })

  it("is the same for Promises, by the handler itself", () => {
    const thumbnail = client.endpoint(PromiseCodec.make(Thumbnail))
    expectTypeOf(thumbnail).toEqualTypeOf<
      PromiseEndpoint<{ readonly url: URL; readonly width: number }, { readonly url: URL; readonly taken?: Date }, never>
    >()
    // @ts-expect-error a URL, not its text
    void (() => thumbnail.runSync({ url: "https://example.com", width: 64 }))
    void (async () => {
      for await (const day of client.endpoint(PromiseCodec.make(Days)).stream({ from: new Date() })) {
        expectTypeOf(day).toEqualTypeOf<Date>()
      }
    })
  })

  it("and by its type alone it speaks JSON", () => {
    const thumbnail = client.endpoint<typeof Thumbnail>("thumbnail")
    expectTypeOf(thumbnail.runSync).parameter(0).toEqualTypeOf<{ readonly url: string; readonly width: number }>()
    expectTypeOf(thumbnail.runSync).returns.resolves.toEqualTypeOf<{ readonly url: string; readonly taken?: string }>()
    expectTypeOf(client.endpoint<typeof Days>("days").job("j").result).returns.resolves.toEqualTypeOf<ReadonlyArray<string>>()
    // @ts-expect-error a number, not its text
    void (() => thumbnail.runSync({ url: "https://example.com", width: "64" }))
  })
})

describe("an endpoint by its name", () => {
  it("is JSON, unless its caller says more", () => {
    expectTypeOf(client.endpoint("hello")).toEqualTypeOf<PromiseEndpoint<Json, Json | undefined, Json>>()
    const countdown = client.endpoint<{ readonly from: number }, ReadonlyArray<number>>("countdown")
    expectTypeOf(countdown.run).returns.resolves.toEqualTypeOf<PromiseJob<ReadonlyArray<number>, number>>()
    // @ts-expect-error a number, not its text
    void (() => countdown.run({ from: "3" }))
    // @ts-expect-error a function is no JSON
    void (() => client.endpoint("hello").run(() => 1))
    const json = Client.endpoint("hello")
    expectTypeOf<Effect.Success<typeof json>>().toEqualTypeOf<Client.Endpoint<Json, Json | undefined, Json>>()
    const named = Client.endpoint<{ readonly from: number }, number>("countdown")
    expectTypeOf<Effect.Error<typeof named>>().toEqualTypeOf<never>()
  })
})
