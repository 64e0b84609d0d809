/**
 * The stacks that run three steps: Stint as steps of one worker and as three jobs, DBOS with PostgreSQL, and Effect's workflow engine with SQLite.
 * Restate is in HttpStacks.ts.
 */
import { missing, startCluster } from "@stint/store-postgres/testing"
import * as Schema from "effect/Schema"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { call, source, startHandlers } from "./BenchmarkPlatform.ts"
import { endChild, portOf, type Stack, startChild } from "./HttpStacks.ts"
import { PEERS } from "./Peers.ts"
import { OUTPUT } from "./SubjectProcess.ts"

const TEXT = "Schema.Struct({ text: Schema.String })"

/** The handlers of Stint's stacks. `child` is an ordinary job. */
const HANDLERS = {
  steps: `import { Pipeline } from ${source("pipelines")}
import * as Schema from "effect/Schema"
const steps = Pipeline.make("steps", { input: ${TEXT} })
  .step("first", () => ({ n: 1 }))
  .step("second", ({ n }) => ({ n: n + 1 }))
  .step("third", () => (${JSON.stringify(OUTPUT)}))
  .end(${TEXT})
Pipeline.launch(steps, { main: import.meta, concurrency: 64 })
`,
  jobs: `import { Pipeline } from ${source("pipelines")}
import { Handler } from ${source("worker")}
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
const child = Handler.make("child", { input: ${TEXT}, output: ${TEXT}, run: Effect.succeed })
const jobs = Pipeline.make("jobs", { input: ${TEXT} })
  .run("first", child)
  .run("second", child)
  .run("third", child)
  .end(${TEXT})
Pipeline.launch(jobs, { main: import.meta, concurrency: 64 })
`,
  child: `import { Handler, Worker } from ${source("worker")}
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
const child = Handler.make("child", {
  input: ${TEXT},
  output: ${TEXT},
  run: () => Effect.succeed(${JSON.stringify(OUTPUT)})
})
Worker.layer(child, { concurrency: 64 }).pipe(Worker.launch)
`
}

const Health = Schema.Struct({ jobs: Schema.Struct({ inQueue: Schema.Int, inProgress: Schema.Int }) })

/** Starts one platform (SQLite, D2), with a worker process for each handler. Returns a stack for each of the three ways to call it. */
export const stintPipelines = async (): Promise<ReadonlyArray<Stack>> => {
  const platform = await startHandlers(HANDLERS)
  const decode = Schema.decodeUnknownSync(Health)
  const openJobs = async (endpoint: string): Promise<number> => {
    const { jobs } = decode(await call(platform, `/v2/${endpoint}/health`))
    return jobs.inQueue + jobs.inProgress
  }
  const stack = (name: string, endpoint: string, end: () => Promise<void>): Stack => ({
    name,
    host: new URL(platform.url).host,
    path: () => `/v2/${endpoint}/runsync`,
    left: () => openJobs(endpoint),
    pids: [platform.pid],
    end
  })
  const nothing = () => Promise.resolve()
  return [
    stack("Stint, three steps", "steps", platform.end),
    stack("Stint, three jobs", "jobs", nothing),
    stack("Stint, one job", "child", nothing)
  ]
}

/** A peer that is a library, behind node:http. Its response comes after the end of the workflow, so nothing is left. */
const library = async (name: string, file: string, args: ReadonlyArray<string> = []): Promise<Stack> => {
  const { child, message } = await startChild(file, args)
  return {
    name,
    host: `127.0.0.1:${portOf(message)}`,
    path: () => "/pipeline",
    left: () => Promise.resolve(0),
    pids: [child.pid ?? 0],
    end: () => endChild(child)
  }
}

/** Effect's workflow engine with SQLite (D2). */
export const effectWorkflow = (): Promise<Stack> =>
  library("Effect workflow, SQLite", fileURLToPath(import.meta.resolve("./subjects/effect-workflow.ts")))

/** Why DBOS cannot run, if it cannot. */
export const noDatabase = missing

/** DBOS with its own PostgreSQL cluster, which syncs each commit (D2). */
export const dbos = async (): Promise<Stack> => {
  const cluster = await startCluster({ fsync: true })
  // Its first line is the process that starts all others.
  const file = await readFile(join(cluster.folder, "data", "postmaster.pid"), "utf8")
  const stack = await library("DBOS 5.3, PostgreSQL", join(PEERS, "dbos-http.mjs"), [cluster.url("bench")])
  return {
    ...stack,
    pids: [...stack.pids, Number(file.split("\n")[0])],
    end: async () => {
      await stack.end()
      await cluster.stop()
    }
  }
}
