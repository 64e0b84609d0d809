/** The cuts of the WAL detect a store that acknowledges a job before its commit. A test that stays green here could not detect such a bug. */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { vi } from "vitest"
import { cutWal } from "./WalCuts.ts"

vi.mock(import("../src/GroupCommit.ts"), async (original) => {
  const { make } = await original()
  return {
    make: (transactions) => {
      let late: (() => void) | undefined
      const commitNow = () => {
        late?.()
        late = undefined
      }
      return make({
        ...transactions,
        begin: () => {
          commitNow()
          transactions.begin()
        },
        commit: () => {
          late = transactions.commit
          setTimeout(() => {
            try {
              commitNow()
            } catch {
              // The database was already closed.
            }
          })
        }
      })
    }
  }
})

describe("R12: planted bugs", () => {
  it.live("a job that is acknowledged before its commit is missing after a cut", () =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(cutWal(60))
      assert.isTrue(Exit.isFailure(exit))
      assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "STINT_PROPERTY_SEED=")
    }))
})
