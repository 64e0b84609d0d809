/**
 * The platform is upgraded from earlier versions of its tables, under load (R1, R13). An ordinary run starts it on files of a few versions: the first;
 * one without the step that was inserted later; those whose next step adds the columns of backoffs, owners, concurrency keys and runs to jobs; the
 * one before the current version; and the current one. `pnpm chaos` starts it on all. packages/store-sqlite/test/Upgrade.long.test.ts runs the queue alone
 * on the files of all versions.
 */
import { reportChaos, SeededRandom } from "@stint/store-testing"
import { describe, expect, it, vi } from "vitest"
import * as Migrations from "../../../packages/store-sqlite/src/Migrations.ts"
import { SCHEMAS } from "../../../packages/store-sqlite/test/OldFiles.ts"
import { upgraded } from "./UpgradeScenario.ts"

const FEW = [
  "v1.sql",
  "v3.sql",
  "v4-without-trace.sql",
  "v10.sql",
  "v18.sql",
  "v19.sql",
  `v${Migrations.LATEST - 1}.sql`,
  `v${Migrations.LATEST}.sql`
]

// A platform mostly waits: for its start, for a backoff and for its end.
vi.setConfig({ maxConcurrency: 3 })

describe.concurrent("chaos: an upgrade under load", () => {
  it.for(SeededRandom.chaosMinutes() === undefined ? FEW : SCHEMAS)(
    "R1, R13: every job of the old file ends or keeps its end, after a kill -9 of the migration, and no caller sees an error: %s",
    { timeout: 240_000 },
    async (schema, context) => {
      const seed = SeededRandom.runSeed()
      const { counts, violations } = await upgraded({ schema, seed })
      reportChaos(context, counts)
      expect(violations, `seed ${seed}`).toEqual([])
      expect(counts["old jobs"]).toBeGreaterThan(50)
      expect(counts["new jobs"]).toBeGreaterThan(0)
    }
  )
})
