/**
 * Tests both clients against the real server, over connections that are closed after any number of bytes.
 */
import { expect, layer } from "@effect/vitest"
import { createClient, type JobEvent } from "@stint/client"
import * as Client from "@stint/client-effect/Client"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "@stint/server-testing/ServerTest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"
import { CuttingProxy } from "./CuttingProxy.ts"

/** A proxy that closes one connection for each byte count in the list, after that many bytes, and leaves later connections open. */
const cutting = (platform: string, lengths: ReadonlyArray<number>) =>
  Effect.acquireRelease(
    Effect.promise(() => {
      const left = [...lengths]
      return CuttingProxy.start(platform, () => left.shift())
    }),
    (server) => Effect.promise(() => server[Symbol.asyncDispose]())
  )

const collected = async <A>(events: AsyncIterable<A>) => {
  const all: Array<A> = []
  for await (const event of events) all.push(event)
  return all
}

layer(layerServer(), { excludeTestServices: true })("a reader whose connections are lost", (it) => {
  it.effect(
    "receives every chunk once and in order, and the end, with both clients, for running and ended jobs",
    () =>
      Effect.gen(function*() {
        const server = yield* ServerTest
        const endpoint = yield* server.endpoint()
        const worker = yield* endpoint.worker()
        let cuts = 0

        const property = fc.asyncProperty(
          fc.array(fc.string({ unit: "grapheme", maxLength: 30 }), { minLength: 1, maxLength: 20 }),
          fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 8 }),
          fc.nat(),
          fc.boolean(),
          (outputs, lengths, at, isEnded) =>
            Effect.runPromise(Effect.scoped(Effect.gen(function*() {
              const [one, two] = [yield* cutting(server.baseUrl, lengths), yield* cutting(server.baseUrl, lengths.toReversed())]
              const client = createClient({ baseUrl: one.url, apiKey: ADMIN_KEY }).endpoint(endpoint.id)
              const { id } = yield* endpoint.run(null)
              yield* worker.next
              const middle = isEnded ? outputs.length : at % (outputs.length + 1)
              const finish = Effect.andThen(
                worker.stream(id, outputs.slice(middle)),
                worker.deliver(id, { output: [] }, "&isStream=true")
              )
              yield* worker.stream(id, outputs.slice(0, middle))
              if (isEnded) yield* finish
              const reading = yield* Effect.forkChild(Effect.all({
                promised: Effect.promise(() => collected(client.events(id))),
                streamed: Effect.promise(() => collected(client.job(id).stream())),
                effects: Effect.flatMap(
                  Client.endpoint(endpoint.id),
                  (ep) => Stream.runCollect(ep.events(id))
                ).pipe(Effect.provide(Client.layer({ baseUrl: two.url, apiKey: ADMIN_KEY })))
              }, { concurrency: 3 }))
              if (!isEnded) yield* finish
              const { effects, promised, streamed } = yield* Fiber.join(reading)
              expect(streamed).toEqual(outputs)
              for (const events of [promised, effects] as ReadonlyArray<ReadonlyArray<JobEvent>>) {
                expect(events.flatMap((event) => event._tag === "Chunk" ? [[event.number, event.output]] : []))
                  .toEqual(outputs.map((output, i) => [i + 1, output]))
                expect(events.filter(({ _tag }) => _tag === "End")).toHaveLength(1)
                expect(events.at(-1)).toMatchObject({ _tag: "End", job: { id, status: "COMPLETED" } })
              }
              cuts += one.cuts + two.cuts
            })))
        )
        yield* Effect.promise(() => fc.assert(property, { numRuns: 10 }))
        expect(cuts).toBeGreaterThan(15)
      }),
    60_000
  )

  it.effect("resumes in another process from the position of the last event", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const client = createClient({ baseUrl: server.baseUrl, apiKey: ADMIN_KEY }).endpoint(endpoint.id)
      const { id } = yield* endpoint.run(null)
      yield* worker.next
      yield* worker.stream(id, ["a", "b", "c"])
      let position: string | undefined
      yield* Effect.promise(async () => {
        for await (const event of client.events(id)) {
          position = event.position
          if (event._tag === "Chunk" && event.output === "b") return
        }
      })
      yield* worker.finish(id, null)
      const rest = yield* Effect.promise(() => collected(client.events(id, { after: position })))
      expect(rest.map(({ _tag }) => _tag)).toEqual(["Chunk", "End"])
      expect(yield* Effect.promise(() => collected(client.events(id, { after: rest.at(-1)?.position })))).toEqual([])
      expect((yield* endpoint.status(id)).status).toBe("COMPLETED")
    }))
})
