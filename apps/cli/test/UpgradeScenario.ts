/**
 * An upgrade between real processes (R1, R13): a platform starts on a file of an earlier version while callers submit, is killed during the
 * migration, starts again, and a worker takes the jobs. The scenario returns the rules that it breaks, so that Upgrade.long.test.ts can require none,
 * and PlantedBugs.long.test.ts can require that a wrong migration is detected.
 */
import { History, SeededRandom } from "@stint/store-testing"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { isDeepStrictEqual } from "node:util"
import { type Columns, columnsOf, rowsOf } from "../../../packages/store-sqlite/test/KeptRows.ts"
import {
  brokenByKill,
  brokenByMigration,
  fillOld,
  type OldJob,
  oldJobs,
  statementFrom,
  versionOf,
  writeOld
} from "../../../packages/store-sqlite/test/OldFiles.ts"
import type { ScenarioOptions, ScenarioResult } from "./FaultScenarios.ts"
import { pause } from "./FaultWorld.ts"
import { FIXTURES, freePort, type JobObject, PlatformProcess, stint, until } from "./PlatformProcess.ts"

/** Kills the process that loads it during the migration. */
const DYING = fileURLToPath(new URL("../../../packages/store-sqlite/test/fixtures/dying.ts", import.meta.url))

/** How much later than the old platform's end a backoff ends: after the start of the new one. Milliseconds. */
const BACKOFF = 6_000

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]
const KEY = "stint_upgrade_0123456789012345678901234"

/** The endpoints of the files. Their workers are external. */
const ENDPOINTS = ["red", "blue"] as const
const CALLERS = 4
/** Waiting jobs that an old file has more than `fixtures/schemaRows.ts`; as many run on a lost worker, and as many are in a backoff. */
const MORE = 25

const isTaken = Schema.is(Schema.Array(Schema.Struct({ id: Schema.String, input: Schema.Unknown, attempt: Schema.Int })))

/** What the worker returns for an input. */
const outputOf = (input: unknown) => ({ done: input })

/** Takes and ends the jobs of an endpoint until `isClosing`. */
const work = async (platform: PlatformProcess, endpoint: string, isClosing: () => boolean): Promise<void> => {
  const key = await platform.workerKey(endpoint)
  const call = (method: string, path: string, body?: unknown) => platform.request(method, `/v2/${endpoint}/${path}`, body, key)
  while (!isClosing()) {
    const { body, status } = await call("GET", "job-take-batch/w-1?batch_size=20&job_in_progress=0")
    if (status === 204) continue
    if (status !== 200 || !isTaken(body)) throw new Error(`a take returned ${status}: ${JSON.stringify(body)}`)
    for (const { attempt, id, input } of body) {
      await call("POST", `job-done/w-1/${id}?attempt=${attempt}`, { output: outputOf(input) })
    }
  }
}

/** Repeats a request until `isDone` accepts its body. */
const settled = (platform: PlatformProcess, path: string, limitMs: number, isDone: (text: string) => boolean): Promise<true> =>
  until(path, async () => isDone(JSON.stringify((await platform.request("GET", path)).body)) ? true : undefined, limitMs)

/**
 * Upgrades a file with the tables of `schema`, such as `v3.sql`. `limitMs`: how long a job may take to end on a busy machine. Default: a minute.
 */
export const upgraded = async (
  { env = {}, limitMs = 60_000, schema, seed = SeededRandom.runSeed() }: ScenarioOptions & {
    readonly schema: string
    readonly limitMs?: number
  }
): Promise<ScenarioResult> => {
  const random = SeededRandom.seededRandom(seed)
  const violations: Array<History.Violation> = []
  const broken = (rule: string, job: string, text: string) => violations.push({ rule, job, text: `${schema}: ${text}` })
  const port = await freePort()
  const settings = { PORT: String(port), STINT_API_KEY: KEY, ...env }
  const state = { hasAnswered: false, isOver: false, isClosing: false, submitted: 0, ended: 0 }

  /** A call that is repeated until the platform listens. From then on, every response other than 200 is an error. */
  const call = async (method: string, path: string, key?: string, body?: unknown): Promise<JobObject> => {
    while (true) {
      try {
        const response = await fetch(`http://127.0.0.1:${port}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${KEY}`,
            "content-type": "application/json",
            ...(key === undefined ? {} : { "idempotency-key": key })
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) })
        })
        state.hasAnswered = true
        const text = await response.text()
        if (response.status === 200) return JSON.parse(text)
        throw new Error(`${method} ${path}: ${response.status} ${text}`)
      } catch (error) {
        if (!(error instanceof TypeError) || state.hasAnswered || state.isOver) throw error
        await pause(20)
      }
    }
  }
  /** Submits jobs, and waits for each. */
  const caller = async () => {
    while (!state.isOver) {
      const input = { number: ++state.submitted }
      const endpoint = ENDPOINTS[input.number % ENDPOINTS.length]
      try {
        let job = await call("POST", `/v2/${endpoint}/run`, `order ${input.number}`, { input })
        for (const deadline = Date.now() + limitMs; job.status.startsWith("IN_");) {
          if (Date.now() > deadline) throw new Error(`${job.id} does not end`)
          job = await call("GET", `/v2/${endpoint}/status-sync/${job.id}?wait=5000`)
        }
        if (!isDeepStrictEqual(job.output, outputOf(input))) broken("R1", job.id, `a new job ended as ${JSON.stringify(job)}`)
        state.ended += 1
      } catch (error) {
        if (state.hasAnswered) broken("R13", "-", `a caller saw an error: ${String(error)}`)
      }
    }
  }

  const version = versionOf(schema)
  let old: ReadonlyArray<OldJob> = []
  let columns: Columns = new Map()
  let tables: ReturnType<typeof rowsOf> = new Map()
  let callers: Promise<unknown> = Promise.resolve()

  const outcome = (): ScenarioResult => {
    state.isOver = true
    state.isClosing = true
    const counts = { ...History.count([], violations), "old jobs": old.length, "new jobs": state.ended }
    return { violations: [...violations], counts }
  }

  /** Writes the file, and kills a platform that migrates it. */
  const prepare = async (dataDir: string): Promise<void> => {
    const file = join(dataDir, "stint.db")
    writeOld(file, schema)
    fillOld(file, MORE, BACKOFF)
    old = oldJobs(file)
    columns = columnsOf(file)
    tables = rowsOf(file, columns)
    callers = Promise.all(Array.from({ length: CALLERS }, caller))

    const statement = statementFrom(version, random)
    const options = `${env["NODE_OPTIONS"] ?? ""} --require=${DYING}`.trim()
    const doomed = { ...settings, STINT_DATA_DIR: dataDir, DIES_AFTER: String(statement), NODE_OPTIONS: options }
    const { code, stderr } = await stint(undefined, CONFIG, doomed)
    const when = `killed after statement ${statement} of the migration`
    if (code !== null) return void broken("R1", "-", `${when}: the platform exited with code ${code}: ${stderr}`)
    for (const text of brokenByKill(file, version, columns, tables)) broken("R1", "-", `${when}: ${text}`)
  }

  try {
    await using platform = await PlatformProcess.create(CONFIG, settings, prepare)
    const workers = ENDPOINTS.map((endpoint) => work(platform, endpoint, () => state.isClosing))
    const working = Promise.all(workers).catch((error: unknown) => {
      if (!state.isClosing) broken("R13", "-", `the worker saw an error: ${String(error)}`)
    })
    const seen = async ({ endpoint, error, hasEnded, id, input, isHeld, output, status }: OldJob): Promise<void> => {
      const isKept = hasEnded || isHeld
      const job = isKept ? await platform.job(endpoint, id) : await platform.ended(endpoint, id, limitMs)
      const found = { status: job.status, output: job.output ?? null, error: job.error ?? null }
      const expected = isKept
        ? { status, output: output === null ? null : JSON.parse(output), error }
        : { status: "COMPLETED", output: outputOf(JSON.parse(input)), error: null }
      if (!isDeepStrictEqual(found, expected)) {
        broken("R1", id, `is ${JSON.stringify(job)} instead of ${JSON.stringify(expected)}`)
      }
    }
    const checked = (what: string, check: Promise<unknown>) => check.catch((error: unknown) => broken("R1", what, String(error)))
    await Promise.all(old.map((job) => checked(job.id, seen(job))))
    // Without these jobs, the next waits would only time out.
    if (violations.length > 0) return outcome()
    if (tables.has("batches")) {
      const isDone = (text: string) => text.includes("\"COMPLETED\"") && text.includes("\"requestCompleted\":2")
      await checked("batch_1", settled(platform, "/v2/blue/batch/batch_1", limitMs, isDone))
    }
    if (tables.has("schedules")) {
      const path = "/api/v1/endpoints/blue/schedules/nightly"
      await checked(
        "nightly",
        settled(platform, path, limitMs, (text) => /"outcome":"submitted"/.test(text) && !text.includes("\"job\":\"done\""))
      )
    }
    const enough = state.ended + 2 * CALLERS
    await checked("new jobs", until("new jobs to end", () => state.ended >= enough ? true : undefined, limitMs))
    state.isOver = true
    await callers

    for (const { id } of old.filter(({ isHeld }) => isHeld)) {
      const { status } = await platform.request("POST", `/v2/blue/cancel/${id}`)
      if (status !== 200) broken("R1", id, `a cancel of the held run returned ${status}`)
    }
    for (const endpoint of ENDPOINTS) {
      const isIdle = (text: string) => text.includes("\"inProgress\":0") && text.includes("\"inQueue\":0")
      await checked(endpoint, settled(platform, `/v2/${endpoint}/health`, limitMs, isIdle))
    }
    state.isClosing = true
    const { code } = await platform.end("SIGTERM")
    await working
    if (code !== 0) broken("R13", "-", `the platform ended with code ${code}`)
    const lines = platform.output.split("\n").filter((line) =>
      /\b(ERROR|FATAL|WARN)\b/.test(line) && !line.includes("runs as root")
    )
    for (const line of lines) broken("R13", "-", `the platform logged: ${line}`)
    for (const text of brokenByMigration(join(platform.dataDir, "stint.db"), version, columns, tables)) broken("R1", "-", text)
  } catch (error) {
    broken("R1", "-", String(error))
  }
  return outcome()
}
