/**
 * Each scenario of Faults.long.test.ts, and those of other long tests that return the rules that they break, runs against a platform with a planted
 * bug (fixtures/plants.ts) and must report the broken rule. A scenario that stays green here could not
 * detect such a bug.
 */
import { missing } from "@stint/store-postgres/testing"
import { join } from "node:path"
import process from "node:process"
import { pathToFileURL } from "node:url"
import { describe, expect, it, vi } from "vitest"
import {
  cancels,
  cutReaders,
  frozenWorkers,
  killedWorkers,
  type ScenarioOptions,
  type ScenarioResult,
  storm
} from "./FaultScenarios.ts"
import { outages } from "./OutageScenario.ts"
import { killedRuns } from "./PipelineScenario.ts"
import { FIXTURES } from "./PlatformProcess.ts"
import { terminated } from "./ShutdownScenario.ts"
import { soak } from "./SoakScenario.ts"
import { upgraded } from "./UpgradeScenario.ts"
import { webhooks } from "./WebhookScenario.ts"

interface Planted {
  /** The name of the bug in fixtures/plants.ts. */
  readonly bug: string
  readonly rule: string
  readonly what: string
  /** A part of a violation's text, for a rule that the scenario checks in several ways. */
  readonly says?: string
  /** Why the scenario cannot run here; undefined: it can. */
  readonly lacks?: string | undefined
  readonly run: (options: ScenarioOptions) => Promise<ScenarioResult>
}

const planted: ReadonlyArray<Planted> = [
  { bug: "R1", rule: "R1", what: "an acknowledged job is not stored", run: (options) => storm({ ...options, millis: 6_000 }) },
  {
    bug: "R1, migration",
    rule: "R1",
    what: "a migration hides the waiting jobs from workers",
    says: "waiting for job waiting-1 to end",
    run: (options) => upgraded({ ...options, schema: "v18.sql", limitMs: 10_000 })
  },
  {
    bug: "R1, interrupted",
    rule: "R1",
    what: "a migration that is killed stays incomplete",
    says: "duplicate column",
    // With this seed, the kill comes in the middle of the migration.
    run: (options) => upgraded({ ...options, schema: "v1.sql", seed: 1, limitMs: 10_000 })
  },
  {
    bug: "R2",
    rule: "R2",
    what: "a worker without the lease may write",
    run: (options) => frozenWorkers({ ...options, rounds: 2 })
  },
  { bug: "R2, twice", rule: "R2", what: "an ended job ends again", run: (options) => frozenWorkers({ ...options, rounds: 1 }) },
  { bug: "R3", rule: "R3", what: "idempotency keys are ignored", run: (options) => storm({ ...options, millis: 4_000 }) },
  // Long enough for a kill of a worker that holds a job, also on a busy machine.
  {
    bug: "R5",
    rule: "R5",
    what: "a lost lease does not return the job",
    run: (options) => storm({ ...options, millis: 12_000 })
  },
  {
    bug: "R5",
    rule: "R6",
    what: "the job of a killed worker stays there",
    run: (options) => killedWorkers({ ...options, rounds: 1 })
  },
  {
    bug: "R7",
    rule: "R7",
    what: "the database counts as gone after the first failed attempt to connect",
    lacks: missing,
    run: (options) => outages({ ...options, rounds: 1 })
  },
  { bug: "R8", rule: "R8", what: "stop signals are not sent", run: (options) => cancels({ ...options, count: 1 }) },
  {
    bug: "R8, nodes",
    rule: "R8",
    what: "a node ignores what the other nodes say",
    lacks: missing,
    run: (options) => cancels({ ...options, count: 4, nodes: 3 })
  },
  {
    bug: "R2",
    rule: "R2",
    what: "a worker without the lease may write through any of three nodes",
    lacks: missing,
    run: (options) => frozenWorkers({ ...options, rounds: 2, nodes: 3 })
  },
  { bug: "R9", rule: "R9", what: "some chunks are missing", run: (options) => cutReaders({ ...options, rounds: 1 }) },
  {
    bug: "R10",
    rule: "R10",
    what: "a failed delivery counts as delivered",
    run: (options) => webhooks({ ...options, jobs: 60, limitMs: 12_000 })
  },
  { bug: "R13", rule: "R13", what: "a shutdown kills running jobs", run: terminated },
  {
    bug: "R14",
    rule: "R14",
    what: "a continued run runs its recorded steps again",
    says: "began again",
    run: (options) => killedRuns({ ...options, millis: 5_000 })
  },
  {
    bug: "R15, memory",
    rule: "R15",
    what: "the platform keeps every job in memory",
    says: "memory of the platform",
    run: (options) => soak({ ...options, minutes: 1 })
  },
  {
    bug: "R15, descriptors",
    rule: "R15",
    what: "some jobs leave a file open",
    says: "descriptors of the platform",
    run: (options) => soak({ ...options, minutes: 1 })
  },
  {
    bug: "R15, database",
    rule: "R15",
    what: "jobs stay in the database after their retention",
    says: "used size of the database",
    run: (options) => soak({ ...options, minutes: 1 })
  }
]

// Each scenario mostly waits for leases and process starts, so two of them run at a time.
vi.setConfig({ maxConcurrency: 2 })

describe.concurrent("chaos: planted bugs between real processes", () => {
  it.for(planted)("$rule: the scenario detects that $what", { timeout: 240_000 }, async (plant, context) => {
    const { bug, lacks, rule, run, says = "" } = plant
    if (lacks !== undefined) context.skip(lacks)
    const preload = pathToFileURL(join(FIXTURES, "planted.ts")).href
    const begun = performance.now()
    const { counts, violations } = await run({ env: { NODE_OPTIONS: `--import=${preload}`, PLANTED_BUG: bug } })
    const seconds = Math.round((performance.now() - begun) / 1_000)
    const caught = violations.filter((violation) => violation.rule === rule && violation.text.includes(says))
    process.stdout.write(`planted ${bug}: ${caught.length} violations of ${rule} within ${seconds} s: ${caught[0]?.text}\n`)
    expect(caught, JSON.stringify({ counts, violations: violations.slice(0, 10) })).not.toEqual([])
  })
})
