/**
 * Tests the operations on the model cache. `packages/models` tests downloads.
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { ModelCache, ModelDownload, ModelRemoval } from "@stint/contract/Model"
import * as Effect from "effect/Effect"
import { randomUUID } from "node:crypto"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"
import { TestModels } from "../TestModels.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const PATH = "/api/v1/models"
const COMMIT = "a".repeat(40)
const CONTENT = Buffer.alloc(1_000, 7)

const cacheOf = expectJson(200, ModelCache)
const startedOf = expectJson(202, ModelDownload)
const removedOf = expectJson(200, ModelRemoval)

const cache = Effect.gen(function*() {
  const { call } = yield* ServerTest
  return yield* Effect.flatMap(call(PATH), cacheOf)
})

const pull = Effect.fnUntraced(function*(model: string) {
  const { call } = yield* ServerTest
  return yield* Effect.flatMap(call(PATH, { json: { model } }), startedOf)
})

/** Waits until `wanted` is true for the download of this model, and returns the download. */
const download = (model: string, wanted: (one: ModelDownload) => boolean) =>
  until(
    Effect.map(cache, ({ downloads }) => downloads.find((one) => one.model === model)),
    (one) => one !== undefined && wanted(one)
  )

/** Registers the tests for models. */
export const models = (it: ServerIt): void => {
  it.effect("downloads a model, shows its progress and its endpoints, and removes it once it is no longer being downloaded", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const hub = yield* (yield* TestModels).hub
      const model = `acme/m-${randomUUID()}`
      hub.models.set(model, { commit: COMMIT, files: { "model.safetensors": { content: CONTENT, lfs: true } } })
      const source = { type: "command", command: ["nothing"] } as const
      const users = [yield* endpoint({ source, model }), yield* endpoint({ source, model: `${model}@${COMMIT}` })].map(({ id }) =>
        id
      )
      yield* endpoint({ source, model: `${model}@other` })

      let open = () => {}
      hub.faults.gate = new Promise((resolve) => {
        open = resolve
      })
      expect(yield* pull(model)).toMatchObject({ model, state: "downloading" })
      expect(yield* download(model, ({ totalBytes }) => totalBytes !== undefined)).toEqual({
        model,
        state: "downloading",
        receivedBytes: 0,
        totalBytes: CONTENT.length
      })
      const remove = call(`${PATH}/${model}`, { method: "DELETE" })
      expect((yield* Effect.flatMap(remove, expectProblem(409))).error).toBe(
        `The model ${model} cannot be removed: it is being downloaded.`
      )
      open()
      hub.faults.gate = undefined

      const found = yield* until(
        Effect.map(
          cache,
          ({ downloads, models }) =>
            downloads.some((one) => one.model === model) ? undefined : models.find((one) => one.model === model)
        ),
        (one) => one !== undefined
      )
      expect(found).toMatchObject({ commit: COMMIT, revisions: ["main"], files: 1, bytes: CONTENT.length, workers: 0 })
      expect(found?.endpoints.toSorted()).toEqual(users.toSorted())
      expect(yield* Effect.flatMap(remove, removedOf)).toEqual({ freedBytes: CONTENT.length })
      expect((yield* Effect.flatMap(remove, expectProblem(404))).error).toBe(`The model ${model} is not in the cache.`)
    }))

  it.effect("lists why a download failed", () =>
    Effect.gen(function*() {
      const model = `acme/m-${randomUUID()}`
      yield* pull(model)
      const failed = yield* download(model, ({ state }) => state === "failed")
      expect(failed?.reason).toMatch(`The model ${model} cannot be downloaded: the hub responded with status 401`)
      expect((yield* cache).models.filter((one) => one.model === model)).toEqual([])
    }))

  it.effect("rejects ids that would name another folder, unknown members, and a key without the scope deploy", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      for (const json of [{ model: "../etc" }, { model: "acme/a--b" }, { model: "whisper" }, { model: "acme/a", tokn: "t" }]) {
        yield* Effect.flatMap(call(PATH, { json }), expectProblem(400))
      }
      for (const id of ["acme/a--b", "acme%2Fwhisper/main", "acme/%2E%2E%2Fetc", "acme/whisper@main"]) {
        yield* Effect.flatMap(call(`${PATH}/${id}`, { method: "DELETE" }), expectProblem(400))
      }
      const { secret } = yield* Effect.flatMap(
        call("/api/v1/keys", { json: { name: "jobs", endpoints: "all" } }),
        expectJson(201, NewKey)
      )
      yield* Effect.flatMap(call(PATH, { authorization: `Bearer ${secret}` }), expectProblem(403))
    }))
}
