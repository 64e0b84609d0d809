/**
 * Tests the responses about builds that only a machine with a container engine returns. The builds are stand-ins: `packages/builder` tests real ones.
 */
import { expect, layer } from "@effect/vitest"
import { BuildMissing, failed } from "@stint/builder/BuildError"
import { Builds } from "@stint/builder/Builds"
import { Build, type BuildLogLine, BuildSettings } from "@stint/contract/Build"
import { EndpointSpec } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import { Release } from "@stint/contract/Release"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { layer as layerServer, ServerTest } from "../src/ServerTest.ts"
import { expectJson, expectProblem } from "../src/WireClient.ts"

const settings = Schema.decodeUnknownSync(BuildSettings)({ repository: "https://git.example.com/team/words.git", ref: "main" })

const decodeSpec = Schema.decodeUnknownSync(EndpointSpec)

const NOW = 1_790_000_000_000

const LINES: ReadonlyArray<BuildLogLine> = [
  { number: 1, time: NOW, text: "Cloning the repository." },
  { number: 2, time: NOW + 1, text: "Cloned commit c0ffee." }
]

/**
 * Build 1 has succeeded and build 2 is running. Other builds do not exist, and a repository called `refused` is refused. The endpoint `plain`
 * has no settings.
 */
const stub = Layer.sync(Builds, () => {
  const build = (endpoint: EndpointId, number: number, createdBy = "ada"): Build => ({
    endpoint,
    number,
    state: number === 1 ? "succeeded" : "running",
    createdAt: NOW,
    createdBy,
    trigger: "manual",
    settings,
    warnings: []
  })
  const find = (endpoint: EndpointId, number: number, createdBy?: string) =>
    number > 2 ? Effect.fail(new BuildMissing({ endpoint, number })) : Effect.succeed(build(endpoint, number, createdBy))
  return {
    settings: (endpoint) =>
      endpoint === "plain" ? Effect.fail(new BuildMissing({ endpoint, number: undefined })) : Effect.succeed(settings),
    saveSettings: (_, { repository }) =>
      repository.includes("refused") ? Effect.fail(failed("This platform builds nothing.", "Start Docker.")) : Effect.void,
    start: ({ createdBy, endpoint, message, ref = settings.ref }) =>
      Effect.succeed({
        ...build(endpoint, 2, createdBy),
        settings: { ...settings, ...(ref === undefined ? {} : { ref }) },
        ...(message === undefined ? {} : { message })
      }),
    cancel: (endpoint, number, by) =>
      Effect.map(
        find(endpoint, number),
        (found) => number === 1 ? found : { ...found, state: "cancelled" as const, reason: `Cancelled by ${by}.` }
      ),
    deploy: (endpoint, number, by) =>
      Effect.flatMap(
        find(endpoint, number),
        () =>
          number === 2 ?
            Effect.fail(failed("Build 2 has no image: it is running.", "Wait until it has succeeded.")) :
            Effect.succeed({
              endpoint,
              number: 3,
              createdAt: NOW,
              createdBy: by,
              settings: decodeSpec({ id: endpoint, source: { type: "container", image: "registry.example.com/words" } }),
              state: "rolling" as const
            })
      ),
    get: find,
    list: (endpoint) => Effect.succeed([build(endpoint, 2), build(endpoint, 1)]),
    hasSucceeded: () => Effect.succeed(true),
    log: (_, number, after, limit) =>
      Effect.succeed(number > 2 ? [] : LINES.filter((line) => line.number > after).slice(0, limit)),
    forget: (_, remove) => remove
  }
})

const BuildLog = Schema.Struct({ lines: Schema.Array(Schema.Unknown), cursor: Schema.Int, more: Schema.Boolean })

/** Registers the tests. */
export const builtResponses = (): void => {
  layer(layerServer({ builds: stub }), { excludeTestServices: true })("builds on a machine with an engine", (it) => {
    it.effect("POST builds: returns the build that the body requests, with the key that started it", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest
        const json = { ref: "v2", message: "for the demonstration" }
        const started = yield* Effect.flatMap(call("/api/v1/endpoints/words/builds", { json }), expectJson(201, Build))
        expect(started).toMatchObject({
          endpoint: "words",
          number: 2,
          state: "running",
          message: json.message,
          settings: { ref: "v2" }
        })
        expect(started.createdBy).toBe("the platform's API key")
      }))

    it.effect("GET builds, GET a build and its log: follows a running build by the cursor", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest
        const path = "/api/v1/endpoints/words/builds"
        const list = yield* Effect.flatMap(call(path), expectJson(200, Schema.Struct({ builds: Schema.Array(Build) })))
        expect(list.builds.map(({ number }) => number)).toEqual([2, 1])
        expect(yield* Effect.flatMap(call(`${path}/1`), expectJson(200, Build))).toMatchObject({ number: 1, state: "succeeded" })
        const log = (rest: string) => Effect.flatMap(call(`${path}/${rest}`), expectJson(200, BuildLog))
        expect(yield* log("2/logs?limit=1")).toEqual({ lines: [LINES[0]], cursor: 1, more: true })
        expect(yield* log("2/logs?after=2")).toEqual({ lines: [], cursor: 2, more: true })
        expect(yield* log("1/logs")).toEqual({ lines: LINES, cursor: 2, more: false })
        const events = yield* call(`${path}/1/log-events`)
        expect([events.status, events.text]).toEqual([200, expect.stringContaining("Cloned commit c0ffee.")])
      }))

    it.effect("POST cancel and deploy: returns the cancelled build, and the release of an image", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest
        const post = (rest: string) => call(`/api/v1/endpoints/words/builds/${rest}`, { method: "POST" })
        expect(yield* Effect.flatMap(post("2/cancel"), expectJson(200, Build))).toMatchObject({
          state: "cancelled",
          reason: "Cancelled by the platform's API key."
        })
        expect(yield* Effect.flatMap(post("1/deploy"), expectJson(201, Release))).toMatchObject({
          number: 3,
          createdBy: "the platform's API key"
        })
        expect((yield* Effect.flatMap(post("2/deploy"), expectProblem(409))).error).toContain("has no image")
        yield* Effect.flatMap(post("3/deploy"), expectProblem(404))
      }))

    it.effect("DELETE an endpoint: removes the build settings of an endpoint that no build has created yet", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest
        const remove = (id: string) => call(`/api/v1/endpoints/${id}`, { method: "DELETE" })
        expect(yield* remove("never-built")).toMatchObject({ status: 204, text: "" })
        yield* Effect.flatMap(remove("plain"), expectProblem(404))
        yield* Effect.flatMap(remove("no%20id"), expectProblem(404))
      }))

    it.effect("PUT build-settings: says why the platform cannot build", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest
        const problem = yield* Effect.flatMap(
          call("/api/v1/endpoints/words/build-settings", {
            method: "PUT",
            json: { repository: "https://git.example.com/refused.git" }
          }),
          expectProblem(409)
        )
        expect(problem).toMatchObject({ error: "This platform builds nothing.", hint: "Start Docker." })
      }))
  })
}
