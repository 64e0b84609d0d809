/**
 * Tests both clients against the real server, over real sockets. The tests act as the workers.
 */
import { expect, layer } from "@effect/vitest"
import { CallError, createClient, JobCancelledError, type JobEvent, JobFailedError } from "@stint/client"
import * as Client from "@stint/client-effect/Client"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "@stint/server-testing/ServerTest"
import { type Settings, type TestEndpoint, until } from "@stint/server-testing/TestEndpoint"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { FetchHttpClient } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Stream from "effect/Stream"
import * as PromiseCodec from "../src/PromiseCodec.ts"
import { Days, Quiet, Thumbnail, UnreadableImage } from "./TestHandlers.ts"

const photo = new URL("https://example.com/photo.jpg")
const small = new URL("https://example.com/small.jpg")

const EXCEPTION = JSON.stringify({
  error_type: "RangeError",
  error_message: "too wide",
  error_traceback: "at line 1",
  hostname: "box",
  worker_id: "w",
  runpod_version: "1"
})

/** An endpoint of the server, a worker, and both clients. The server ends long polls after 300 ms. */
const open = (settings: Settings = {}) =>
  Effect.gen(function*() {
    const server = yield* ServerTest
    const endpoint = yield* server.endpoint(settings)
    const worker = yield* endpoint.worker()
    const options = { baseUrl: server.baseUrl, apiKey: ADMIN_KEY }
    const seen: Array<string> = []
    const fetch = (input: string | URL | Request, init?: RequestInit) => {
      const url = input instanceof Request ? input.url : String(input)
      seen.push(url)
      return globalThis.fetch(input, init)
    }
    /** Waits until the client has repeated a long poll. */
    const askedAgain = (operation: string) =>
      Effect.suspend(() => {
        const before = seen.length
        return until(
          Effect.sync(() => seen.slice(before).filter((url) => url.includes(`/${operation}/`)).length),
          (count) => count >= 2
        )
      })
    /** Waits until the clients have sent that number of requests. */
    const asked = (operation: string, times: number) =>
      until(Effect.sync(() => seen.filter((url) => url.includes(`/${operation}/`)).length), (count) => count >= times)
    return {
      endpoint,
      worker,
      options,
      asked,
      askedAgain,
      client: createClient({ ...options, fetch }),
      layer: Layer.fresh(Client.layer(options)).pipe(Layer.merge(Layer.succeed(FetchHttpClient.Fetch, fetch)))
    }
  })

const jobsOf = ({ health }: TestEndpoint) =>
  Effect.map(health, ({ jobs }) => jobs.completed + jobs.failed + jobs.inProgress + jobs.inQueue)

/** The reason for a rejected promise. */
const rejection = (start: () => Promise<unknown>): Effect.Effect<unknown> =>
  Effect.promise(() => start().then((value) => `fulfilled with ${JSON.stringify(value)}`, (error: unknown) => error))

const promise = <A>(start: (signal: AbortSignal) => Promise<A>) => Effect.promise(start)

layer(layerServer({ limits: { maxWaitMs: 300 } }), { excludeTestServices: true })("client", (it) => {
  it.effect("runSync encodes and decodes with the handler's Schemas, and waits longer than one long poll with one job", () =>
    Effect.gen(function*() {
      const { askedAgain, client, endpoint, layer, worker } = yield* open()
      yield* Effect.gen(function*() {
        const thumbnail = yield* Client.endpoint(Thumbnail, endpoint.id)
        const waiting = yield* Effect.forkChild(thumbnail.runSync({ url: photo, width: 64 }))
        const job = yield* worker.next
        expect(job.input).toEqual({ url: photo.href, width: 64 })
        yield* askedAgain("status-sync")
        yield* worker.finish(job.id, { url: small.href, taken: "2026-01-02T03:04:05.000Z" })
        expect(yield* Fiber.join(waiting)).toEqual({ url: small, taken: new Date("2026-01-02T03:04:05.000Z") })
        expect(yield* jobsOf(endpoint)).toBe(1)
      }).pipe(Effect.provide(layer))

      const thumbnail = client.endpoint(PromiseCodec.make(Thumbnail), endpoint.id)
      const waiting = yield* Effect.forkChild(promise(() => thumbnail.runSync({ url: photo, width: 64 })))
      const job = yield* worker.next
      expect(job.input).toEqual({ url: photo.href, width: 64 })
      yield* askedAgain("status-sync")
      yield* worker.finish(job.id, { url: small.href })
      expect(yield* Fiber.join(waiting)).toEqual({ url: small })
      expect(yield* jobsOf(endpoint)).toBe(2)
    }))

  it.effect("fails with declared failures, JobFailed for exceptions, and JobCancelled for cancelled jobs", () =>
    Effect.gen(function*() {
      const { client, endpoint, layer, worker } = yield* open()
      const declared = JSON.stringify({ _tag: "UnreadableImage", url: photo.href, at: "2026-01-02T03:04:05.000Z" })
      const unreadable = new UnreadableImage({ url: photo, at: new Date("2026-01-02T03:04:05.000Z") })
      const end = (error: string) => Effect.flatMap(worker.next, (job) => worker.deliver(job.id, { error }))
      const stop = Effect.flatMap(worker.next, (job) => endpoint.cancel(job.id))
      yield* Effect.gen(function*() {
        const thumbnail = yield* Client.endpoint(Thumbnail, endpoint.id)
        const failing = Effect.flip(thumbnail.runSync({ url: photo, width: 64 }))
        const ends = <A, E, R>(by: Effect.Effect<A, E, R>) =>
          Effect.map(Effect.all([failing, by], { concurrency: 2 }), ([error]) => error)

        const first = yield* ends(end(declared))
        expect(first).toBeInstanceOf(UnreadableImage)
        expect(first).toMatchObject({ url: unreadable.url, at: unreadable.at })

        const second = yield* ends(end(EXCEPTION))
        expect(second).toBeInstanceOf(Client.JobFailed)
        expect(second).toMatchObject({
          message: expect.stringMatching(/^Job .+ of ".+" FAILED: RangeError: too wide$/),
          exception: {
            type: "RangeError",
            message: "too wide",
            traceback: "at line 1",
            hostname: "box",
            workerId: "w",
            version: "1"
          }
        })

        const third = yield* ends(end("just words"))
        expect(third).toMatchObject({ _tag: "JobFailed", error: "just words", exception: undefined })

        expect(yield* ends(stop)).toBeInstanceOf(Client.JobCancelled)
      }).pipe(Effect.provide(layer))

      const thumbnail = client.endpoint(PromiseCodec.make(Thumbnail), endpoint.id)
      const failing = rejection(() => thumbnail.runSync({ url: photo, width: 64 }))
      const [first] = yield* Effect.all([failing, end(declared)], { concurrency: 2 })
      expect(first).toBeInstanceOf(JobFailedError)
      expect(first).toMatchObject({ declared: { _tag: "UnreadableImage", url: unreadable.url }, exception: undefined })
      expect(first).toHaveProperty("cause", expect.any(UnreadableImage))
      const [second] = yield* Effect.all([failing, end(EXCEPTION)], { concurrency: 2 })
      expect(second).toMatchObject({ name: "JobFailedError", declared: undefined, exception: { type: "RangeError" } })
      const [third] = yield* Effect.all([failing, stop], { concurrency: 2 })
      expect(third).toBeInstanceOf(JobCancelledError)
    }))

  it.effect("does not send an invalid input, and fails with Mismatch for an invalid output", () =>
    Effect.gen(function*() {
      const { client, endpoint, layer, worker } = yield* open()
      const wrong = { url: photo, width: 0 }
      yield* Effect.gen(function*() {
        const thumbnail = yield* Client.endpoint(Thumbnail, endpoint.id)
        const error = yield* Effect.flip(thumbnail.run(wrong))
        expect(error.reason).toMatchObject({ _tag: "Invalid", problems: [{ path: ["width"] }] })
        expect(error.message).toContain("was not sent")
        expect(yield* jobsOf(endpoint)).toBe(0)

        const handle = yield* thumbnail.run({ url: photo, width: 1 })
        yield* worker.finish((yield* worker.next).id, { href: "x" })
        const mismatch = yield* Effect.flip(handle.result)
        expect(mismatch).toMatchObject({
          _tag: "ClientError",
          job: handle.id,
          reason: { _tag: "Mismatch", problems: [{ path: ["url"] }] }
        })
      }).pipe(Effect.provide(layer))

      const thumbnail = client.endpoint(PromiseCodec.make(Thumbnail), endpoint.id)
      const error = yield* rejection(() => thumbnail.run(wrong))
      expect(error).toBeInstanceOf(CallError)
      expect(error).toMatchObject({ reason: { _tag: "Invalid", problems: [{ path: ["width"] }] } })
      expect(yield* jobsOf(endpoint)).toBe(1)
      const handle = yield* promise(() => thumbnail.run({ url: photo, width: 1 }))
      yield* worker.finish((yield* worker.next).id, { href: "x" })
      expect(yield* rejection(() => handle.result())).toMatchObject({ reason: { _tag: "Mismatch" }, job: handle.id })
    }))

  it.effect("decodes a missing output as an empty object with a Schema, and returns undefined without one", () =>
    Effect.gen(function*() {
      const { client, endpoint, layer, worker } = yield* open()
      const quiet = yield* Effect.provide(Client.endpoint(Quiet, endpoint.id), layer)
      const { id } = yield* quiet.run("hush")
      yield* worker.deliver((yield* worker.next).id, {})
      expect(yield* quiet.result(id)).toEqual({})
      expect(yield* promise(() => client.endpoint(PromiseCodec.make(Quiet), endpoint.id).result(id))).toEqual({})
      expect(yield* promise(() => client.endpoint(endpoint.id).result(id))).toBeUndefined()
    }))

  it.effect("reads a job's status, progress and result by its handle, and cancels and retries it", () =>
    Effect.gen(function*() {
      const { client, endpoint, layer, worker } = yield* open()
      const byName = yield* Effect.provide(Client.endpoint(endpoint.id), layer)
      const handle = yield* byName.run({ n: 1 })
      expect(yield* handle.status).toEqual({ id: handle.id, status: "IN_QUEUE" })
      yield* worker.next
      yield* worker.progress(handle.id, "half")
      expect(yield* handle.status).toMatchObject({ status: "IN_PROGRESS", output: "half" })
      yield* worker.deliver(handle.id, { error: "no" })
      expect(yield* Effect.flip(handle.retry.pipe(Effect.andThen(handle.retry)))).toMatchObject({ reason: { _tag: "Conflict" } })
      yield* worker.finish((yield* worker.next).id, 2)
      expect(yield* handle.result).toBe(2)
      expect(yield* handle.cancel).toEqual({ id: handle.id, status: "COMPLETED" })

      const endpointOf = client.endpoint(endpoint.id)
      const second = yield* promise(() => endpointOf.run({ n: 2 }))
      expect(yield* promise(() => endpointOf.job(second.id).status())).toMatchObject({ status: "IN_QUEUE" })
      expect(yield* promise(() => second.cancel())).toEqual({ id: second.id, status: "CANCELLED" })
      expect(yield* promise(() => endpointOf.health())).toMatchObject({ jobs: { completed: 1 } })
      yield* promise(() => endpointOf.run({ n: 3 }))
      expect(yield* promise(() => endpointOf.purgeQueue())).toEqual({ removed: 1, status: "completed" })
      expect(yield* byName.purgeQueue).toEqual({ removed: 0, status: "completed" })
      expect(yield* byName.health).toMatchObject({ jobs: { inQueue: 0 } })
      const event = { name: "approved", key: "7", data: { by: "Ada" }, id: "approval-17" }
      expect(yield* promise(() => endpointOf.sendEvent(event))).toEqual({ delivered: null })
      expect(yield* byName.sendEvent(event)).toEqual({ delivered: null, duplicate: true })
    }))

  it.effect("streams every chunk in order until the job ends, and fails after the last chunk of a failed job", () =>
    Effect.gen(function*() {
      const { asked, client, endpoint, layer, worker } = yield* open()
      let decoders = 0
      const dates = Array.from({ length: 40 }, (_, n) => new Date(n * 86_400_000))
      const work = (end: { readonly output?: null; readonly error?: string }) =>
        Effect.gen(function*() {
          const job = yield* worker.next
          decoders += 1
          yield* worker.stream(job.id, dates.slice(0, 10).map((date) => date.toISOString()))
          // Send the other chunks while the clients read the first ones.
          yield* asked("events", decoders)
          yield* worker.stream(job.id, dates.slice(10).map((date) => date.toISOString()))
          yield* worker.deliver(job.id, end)
        })
      const days = yield* Effect.provide(Client.endpoint(Days, endpoint.id), layer)
      const [read] = yield* Effect.all([
        Effect.provide(Stream.runCollect(days.stream({ from: dates[0]! })), layer),
        work({ output: null })
      ], {
        concurrency: 2
      })
      expect(read).toEqual(dates)

      const seen: Array<Date> = []
      const failing = days.stream({ from: dates[0]! }).pipe(
        Stream.runForEach((date) => Effect.sync(() => seen.push(date))),
        Effect.flip,
        Effect.provide(layer)
      )
      const [error] = yield* Effect.all([failing, work({ error: "late" })], { concurrency: 2 })
      expect(error).toMatchObject({ _tag: "JobFailed", error: "late" })
      expect(seen).toEqual(dates)

      const collect = async (chunks: AsyncIterable<Date>) => {
        const all: Array<Date> = []
        try {
          for await (const one of chunks) all.push(one)
          return { all, error: undefined }
        } catch (error) {
          return { all, error }
        }
      }
      const promised = client.endpoint(PromiseCodec.make(Days), endpoint.id)
      const [first] = yield* Effect.all([promise(() => collect(promised.stream({ from: dates[0]! }))), work({ output: null })], {
        concurrency: 2
      })
      expect(first).toEqual({ all: dates, error: undefined })
      const handle = yield* promise(() => promised.run({ from: dates[0]! }))
      const [second] = yield* Effect.all([promise(() => collect(handle.stream())), work({ error: "late" })], { concurrency: 2 })
      expect(second.all).toEqual(dates)
      expect(second.error).toBeInstanceOf(JobFailedError)
    }))

  it.effect("sends all events to every reader, with decoded chunks, and the job's failure at the end", () =>
    Effect.gen(function*() {
      const { client, endpoint, layer, worker } = yield* open()
      const day = new Date(86_400_000)
      const days = yield* Effect.provide(Client.endpoint(Days, endpoint.id), layer)
      const { id } = yield* days.run({ from: day })
      const handle = client.endpoint(PromiseCodec.make(Days), endpoint.id).job(id)
      const read = async () => {
        const all: Array<JobEvent<Date>> = []
        for await (const event of handle.events()) all.push(event)
        return all
      }
      const reading = yield* Effect.forkChild(
        Effect.all([Stream.runCollect(days.events(id)), promise(read), promise(read)], { concurrency: 3 })
      )
      yield* worker.next
      yield* worker.progress(id, "half")
      yield* worker.stream(id, [day.toISOString()])
      yield* worker.deliver(id, { error: "late" })
      for (const events of yield* Fiber.join(reading)) {
        expect(events.filter(({ _tag }) => _tag === "Chunk")).toEqual([
          { _tag: "Chunk", position: expect.any(String), attempt: 1, number: 1, output: day }
        ])
        expect(events.at(-1)).toMatchObject({ _tag: "End", job: { id, status: "FAILED", error: "late" } })
        expect(events).toContainEqual({
          _tag: "Status",
          position: expect.any(String),
          attempt: 1,
          status: "IN_PROGRESS",
          workerId: worker.id
        })
      }
    }))

  it.effect("cancels the job of an abandoned wait only if enabled", () =>
    Effect.gen(function*() {
      const { client, endpoint, layer, worker } = yield* open()
      const byName = yield* Effect.provide(Client.endpoint(endpoint.id), layer)
      for (const cancelOnInterrupt of [false, true]) {
        for (const wait of [byName.runSync(1, { cancelOnInterrupt }), Stream.runDrain(byName.stream(1, { cancelOnInterrupt }))]) {
          const waiting = yield* Effect.forkChild(wait)
          const { id } = yield* worker.next
          yield* Fiber.interrupt(waiting)
          expect((yield* byName.status(id)).status).toBe(cancelOnInterrupt ? "CANCELLED" : "IN_PROGRESS")
        }
      }
      // Taking only some chunks also abandons the stream.
      const enough = yield* Effect.forkChild(
        byName.stream(1, { cancelOnInterrupt: true }).pipe(Stream.take(1), Stream.runCollect)
      )
      const taken = yield* worker.next
      yield* worker.stream(taken.id, ["one"])
      expect(yield* Fiber.join(enough)).toEqual(["one"])
      expect((yield* byName.status(taken.id)).status).toBe("CANCELLED")

      const promised = client.endpoint(endpoint.id)
      for (const cancelOnAbort of [false, true]) {
        const drain = async (signal: AbortSignal) => {
          for await (const _ of promised.stream(1, { signal, cancelOnAbort })) continue
        }
        const waits: ReadonlyArray<(signal: AbortSignal) => Promise<unknown>> = [
          (signal) => promised.runSync(1, { signal, cancelOnAbort }),
          drain
        ]
        for (const wait of waits) {
          const controller = new AbortController()
          const given = new Error("enough")
          const gone = yield* Deferred.make<unknown>()
          void wait(controller.signal).catch((error: unknown) => Effect.runSync(Deferred.succeed(gone, error)))
          const { id } = yield* worker.next
          controller.abort(given)
          expect(yield* Deferred.await(gone)).toBe(given)
          expect((yield* byName.status(id)).status).toBe(cancelOnAbort ? "CANCELLED" : "IN_PROGRESS")
        }
      }
      const leave = async () => {
        for await (const chunk of promised.stream(1, { cancelOnAbort: true })) return chunk
        return undefined
      }
      const left = yield* Effect.forkChild(promise(leave))
      const last = yield* worker.next
      yield* worker.stream(last.id, ["one"])
      expect(yield* Fiber.join(left)).toBe("one")
      expect((yield* byName.status(last.id)).status).toBe("CANCELLED")
    }))

  it.effect("names the host and the endpoint in errors for a wrong key, an unknown endpoint and an unknown job", () =>
    Effect.gen(function*() {
      const { client, endpoint, options } = yield* open()
      const stranger = createClient({ ...options, apiKey: "someone-elses-key" })
      const errors = [
        [yield* rejection(() => stranger.endpoint(endpoint.id).run(1)), { _tag: "Unauthorized", status: 401 }],
        [yield* rejection(() => createClient({ baseUrl: options.baseUrl }).endpoint(endpoint.id).run(1)), {
          _tag: "Unauthorized",
          status: 401
        }],
        [yield* rejection(() => client.endpoint("no-such-endpoint").health()), { _tag: "NotFound", what: "endpoint" }],
        [yield* rejection(() => client.endpoint(endpoint.id).result("no-such-job")), { _tag: "NotFound", what: "job" }],
        [yield* rejection(() => createClient({ ...options, baseUrl: `${options.baseUrl}/elsewhere` }).endpoint("x").health()), {
          _tag: "NotFound",
          what: "address"
        }]
      ] as const
      for (const [error, reason] of errors) {
        expect(error).toMatchObject({ name: "CallError", reason })
        expect(String(error)).toContain(`at ${options.baseUrl}`)
        expect(String(error)).not.toContain("someone-elses-key")
      }
      const provided = Effect.provide(
        Client.endpoint(endpoint.id),
        Client.layer({ ...options, apiKey: Redacted.make("someone-elses-key") })
      )
      const refused = yield* Effect.flip(Effect.flatMap(provided, (one) => one.runSync(1)))
      expect(refused).toMatchObject({ _tag: "ClientError", reason: { _tag: "Unauthorized" }, endpoint: endpoint.id })
    }))

  it.effect("reads the platform's URL and the key from the environment", () =>
    Effect.gen(function*() {
      const { endpoint, options } = yield* open()
      const provider = ConfigProvider.fromUnknown({ STINT_URL: `${options.baseUrl}/v2/`, STINT_API_KEY: ADMIN_KEY })
      const health = Effect.flatMap(Client.endpoint(endpoint.id), (one) => one.health).pipe(
        Effect.provide(Client.layerConfig),
        Effect.provideService(ConfigProvider.ConfigProvider, provider)
      )
      expect(yield* health).toMatchObject({ jobs: { completed: 0 } })
      const missing = Effect.provideService(
        Effect.flip(Effect.provide(Client.Client, Client.layerConfig)),
        ConfigProvider.ConfigProvider,
        ConfigProvider.fromUnknown({})
      )
      expect(String(yield* missing)).toContain("STINT_API_KEY")
    }))
})
