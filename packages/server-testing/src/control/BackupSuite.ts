/**
 * Tests who may back up a platform. The archive itself is tested where the platform is composed (apps/cli/test).
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const decodeKey = expectJson(201, NewKey)

/** Registers the tests for backups. */
export const backups = (it: ServerIt): void => {
  it.effect("only an admin key may back up the platform, because the archive contains its secrets", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const backup = (authorization?: string | null) =>
        server.call("/api/v1/backup", { method: "POST", ...(authorization === undefined ? {} : { authorization }) })
      const keyWith = (scope: string) =>
        Effect.flatMap(
          server.call("/api/v1/keys", {
            json: { name: scope, scopes: [scope], ...(scope === "deploy" || scope === "admin" ? {} : { endpoints: "all" }) }
          }),
          decodeKey
        )
      yield* Effect.flatMap(backup(null), expectProblem(401))
      for (const scope of ["jobs", "worker", "deploy"]) {
        const { secret } = yield* keyWith(scope)
        yield* Effect.flatMap(backup(`Bearer ${secret}`), expectProblem(403))
      }
      const { secret } = yield* keyWith("admin")
      for (const authorization of [undefined, `Bearer ${secret}`]) {
        const problem = yield* Effect.flatMap(backup(authorization), expectProblem(409))
        expect(problem.error).toContain("in memory")
      }
    }))
}
