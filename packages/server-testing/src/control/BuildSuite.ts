/**
 * Tests the build operations of a server whose machine has no container engine. `packages/builder` tests the builds themselves.
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { BuildSettings } from "@stint/contract/Build"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { createHmac, randomUUID } from "node:crypto"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const settingsOf = expectJson(200, BuildSettings)
const repository = "https://git.example.com/team/words.git"

/** Registers the tests for builds. */
export const builds = (it: ServerIt): void => {
  it.effect("stores build settings for an endpoint that does not exist yet, and rejects a misspelled or invalid one", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const path = `/api/v1/endpoints/build-${randomUUID()}/build-settings`
      const put = (json: unknown) => call(path, { method: "PUT", json })
      yield* Effect.flatMap(call(path), expectProblem(404))
      const settings = { repository, ref: "main", context: "lab1", args: { A: "1" }, onPush: true }
      expect(yield* Effect.flatMap(put(settings), settingsOf)).toEqual(settings)
      for (
        const [json, words] of [
          [{ repository, contxt: "lab1" }, "contxt"],
          [{ repository: "https://ada:token@git.example.com/words.git" }, "Store the token as a secret"],
          [{ repository: "--upload-pack=evil" }, "Expected the address of a Git repository"],
          [{ repository, ref: "--output=/etc/passwd" }, "Expected the name of a branch or tag, or a commit"],
          [{ repository, context: "../.." }, "Expected a path relative to the repository's root"],
          [{ repository, dockerfile: "/etc/passwd" }, "Expected a path relative to the repository's root"]
        ] as const
      ) {
        expect((yield* Effect.flatMap(put(json), expectProblem(400))).error).toContain(words)
      }
      expect(yield* Effect.flatMap(call(path), settingsOf)).toEqual(settings)
      yield* Effect.flatMap(call("/api/v1/endpoints/no%20id/build-settings"), expectProblem(400))
    }))

  it.effect("refuses a build and gives the reason when the machine has no engine, and does not list the build", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const path = `/api/v1/endpoints/build-${randomUUID()}`
      yield* call(`${path}/build-settings`, { method: "PUT", json: { repository } })
      const refused = yield* Effect.flatMap(call(`${path}/builds`, { method: "POST" }), expectProblem(409))
      expect(refused.error).toBe("This platform cannot build: this machine has no container engine.")
      const { builds } = yield* Effect.flatMap(
        call(`${path}/builds`),
        expectJson(200, Schema.Struct({ builds: Schema.Array(Schema.Unknown) }))
      )
      expect(builds).toEqual([])
      for (
        const [method, rest] of [["GET", ""], ["GET", "/logs"], ["GET", "/log-events"], ["POST", "/cancel"], [
          "POST",
          "/deploy"
        ]] as const
      ) {
        yield* Effect.flatMap(call(`${path}/builds/1${rest}`, { method }), expectProblem(404))
      }
    }))

  it.effect("requires the scope deploy for builds, and a signature but no key for webhooks", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const path = `/api/v1/endpoints/build-${randomUUID()}`
      const secret = `hook-${randomUUID()}`
      const { secret: jobsKey } = yield* Effect.flatMap(
        call("/api/v1/keys", { method: "POST", json: { name: "jobs", endpoints: "all" } }),
        expectJson(201, NewKey)
      )
      yield* Effect.flatMap(call(`${path}/builds`, { method: "POST", authorization: `Bearer ${jobsKey}` }), expectProblem(403))
      yield* call(`/api/v1/secrets/${secret}`, { method: "PUT", json: { value: "the-webhook-secret" } })
      const body = { ref: "refs/heads/main", after: "c0ffee", repository: { default_branch: "main" } }
      const signature = createHmac("sha256", "the-webhook-secret").update(JSON.stringify(body)).digest("hex")
      const hook = (headers: Readonly<Record<string, string>>) =>
        call(`${path}/build-hook`, { method: "POST", json: body, authorization: null, headers })
      const signed = { "x-github-event": "push", "x-hub-signature-256": `sha256=${signature}` }
      // Without settings, with settings that lack a secret, and with a secret: only the last case accepts the signature.
      yield* Effect.flatMap(hook(signed), expectProblem(403))
      yield* call(`${path}/build-settings`, { method: "PUT", json: { repository } })
      yield* Effect.flatMap(hook(signed), expectProblem(403))
      yield* call(`${path}/build-settings`, { method: "PUT", json: { repository, webhookSecret: secret } })
      const refused = yield* Effect.flatMap(hook(signed), expectProblem(409))
      expect(refused.error).toContain("no container engine")
      yield* Effect.flatMap(hook({ ...signed, "x-hub-signature-256": `sha256=${"0".repeat(64)}` }), expectProblem(403))
      yield* Effect.flatMap(hook({ "x-github-event": "push" }), expectProblem(403))
      expect((yield* hook({ ...signed, "x-github-event": "ping" })).json).toEqual({
        reason: "The event \"ping\" starts no build: only pushes and releases do."
      })
    }))
}
