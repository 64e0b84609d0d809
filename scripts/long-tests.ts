/** The order in which the files of the long tier run. */
import { execFileSync } from "node:child_process"
import { hash } from "node:crypto"
import { globSync } from "node:fs"
import { root } from "./workspace.ts"

/**
 * Files that run two at a time. All others run alone: they measure durations in real processes, and another file would slow them down.
 *
 * They start in this order: the longest ones first.
 *
 * A file belongs here when it waits for states, and its limits are far longer than its steps take on a busy machine.
 */
export const pairedTests: ReadonlyArray<string> = [
  "scripts/test/docs-run.long.test.ts",
  "scripts/test/Start.long.test.ts",
  "scripts/test/Published.long.test.ts",
  "apps/cli/test/Console.long.test.ts",
  "scripts/test/Image.long.test.ts",
  "packages/store-postgres/test/PostgresConformance.long.test.ts",
  "apps/cli/test/Pipelines.long.test.ts",
  "apps/cli/test/Builds.long.test.ts",
  "apps/cli/test/ChildKills.long.test.ts",
  "apps/cli/test/Containers.long.test.ts",
  "apps/cli/test/ManyNodes.long.test.ts",
  "apps/cli/test/GitToRollback.long.test.ts",
  "apps/cli/test/PipelineVersions.long.test.ts",
  "apps/cli/test/Releases.long.test.ts",
  "apps/cli/test/Canaries.long.test.ts",
  "apps/cli/test/InitProject.long.test.ts",
  "packages/pool-kubernetes/test/Webernetes.long.test.ts",
  "packages/store-postgres/test/PostgresNodes.long.test.ts",
  "packages/store-postgres/test/PostgresNodesRecords.long.test.ts",
  "packages/payloads-testing/test/PayloadHttp.long.test.ts",
  "apps/cli/test/Deploy.long.test.ts",
  "packages/store-sqlite/test/DiskErrors.long.test.ts",
  "packages/server-testing/test/RouterPath.long.test.ts",
  "apps/cli/test/DatabaseImport.long.test.ts",
  "apps/cli/test/Backup.long.test.ts",
  "apps/cli/test/Plugins.long.test.ts",
  "apps/cli/test/Database.long.test.ts",
  "packages/pool-container/test/ContainerPool.long.test.ts",
  "packages/store-postgres/test/ParkedRuns.long.test.ts",
  "packages/server-testing/test/ApiReference.long.test.ts",
  "packages/store-postgres/test/StatementPlans.long.test.ts",
  "packages/store-postgres/test/PostgresHints.long.test.ts",
  "packages/store-postgres/test/NodeRaces.long.test.ts",
  "packages/store-postgres/test/PostgresFaults.long.test.ts",
  "packages/store-postgres/test/PostgresRuns.long.test.ts",
  "packages/store-testing/test/NodeSearch.long.test.ts",
  "packages/store-testing/test/PlantedSearch.long.test.ts",
  "packages/pipelines/test/ManyItems.long.test.ts",
  "packages/store-postgres/test/RunEnds.long.test.ts",
  "apps/cli/test/JobTrace.long.test.ts",
  "apps/cli/test/Secrets.long.test.ts",
  "apps/cli/test/Models.long.test.ts",
  "packages/metrics/test/Dashboard.long.test.ts",
  "apps/cli/test/Volumes.long.test.ts",
  "packages/store-postgres/test/PostgresUpgrade.long.test.ts",
  "packages/store-postgres/test/Doctor.long.test.ts",
  "packages/store-postgres/test/Pooler.long.test.ts",
  "packages/store-postgres/test/Migrate.long.test.ts",
  "packages/store-postgres/test/Standby.long.test.ts",
  "apps/cli/test/WorkerUsers.long.test.ts",
  "packages/store-postgres/test/EndedNodes.long.test.ts",
  "packages/pipelines/test/WrongConnections.long.test.ts"
]

/** The files that run alone, after the paired ones. */
export const aloneTests = (): ReadonlyArray<string> =>
  globSync(["{packages,apps}/*/test/**/*.long.test.ts", "scripts/test/**/*.long.test.ts"], { cwd: root })
    .filter((file) => !pairedTests.includes(file))

/** The commit of this working tree. Empty without git. */
export const commitOf = (): string => {
  try {
    return execFileSync("git", ["rev-parse", "HEAD"], { cwd: root, encoding: "utf8" }).trim()
  } catch {
    return ""
  }
}

/** Whether this working tree differs from its commit. False without git. */
export const isChanged = (): boolean => {
  try {
    return execFileSync("git", ["status", "--porcelain"], { cwd: root, encoding: "utf8" }).trim() !== ""
  } catch {
    return false
  }
}

/** The files in an order of their own for each seed. */
export const orderOf = (files: ReadonlyArray<string>, seed: string): ReadonlyArray<string> =>
  files.map((file) => ({ file, place: hash("sha256", `${seed} ${file}`) }))
    .sort((one, other) => (one.place < other.place ? -1 : 1))
    .map(({ file }) => file)
