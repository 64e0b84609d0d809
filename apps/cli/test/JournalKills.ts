/**
 * Kills workers and their platform before and after each write of their runs to the journal, between a proxy and the platform.
 *
 * ```
 *   worker --write--> proxy --before: kill--X            the platform receives nothing
 *   worker --write--> proxy --> platform: stored --> proxy --after: kill--X      the worker receives nothing
 * ```
 *
 * A write waits until every run has reached a moment at which it was not killed yet; then one kill ends all runs. That way, one start of a platform
 * serves several runs.
 */
import { RunJournalRequest, RunJournalResponse } from "@stint/contract/RunJournal"
import * as Schema from "effect/Schema"
import { readFile } from "node:fs/promises"
import process from "node:process"
import { type PlatformProcess, until } from "./PlatformProcess.ts"
import type { Intercepted, RecordingProxy } from "./RecordingProxy.ts"

/** What is killed: the worker of each run, the platform, or some of the workers together with their platform. */
export interface Victims {
  readonly platform: boolean
  readonly worker: (endpoint: string) => boolean
  /** When it is killed: before the platform receives a write, and after it has stored it. */
  readonly moments: ReadonlyArray<"before" | "after">
}

/** How long after a kill the platform responded to the run's next write. Milliseconds. */
export interface Resumed {
  readonly endpoint: string
  /** Since the kill. */
  readonly ms: number
  /** Since the new platform was up; 0 without one. */
  readonly msUp: number
}

const decodeRequest = Schema.decodeUnknownSync(Schema.fromJsonString(RunJournalRequest))
const decodeResponse = Schema.decodeUnknownSync(Schema.fromJsonString(RunJournalResponse))

/** What a write contains: its records, and the begin and end of an activation. Without its waits, which depend on the time. */
const partsOf = (body: string): ReadonlyArray<string> =>
  decodeRequest(body).runs.flatMap(({ finish, records = [], start }) => [
    ...(start === undefined ? [] : ["start"]),
    ...records.map(({ kind, path }) => `${kind} ${path}`),
    ...(finish === undefined ? [] : ["finish"])
  ])

const isStored = (answer: string): boolean =>
  decodeResponse(answer).runs.every(({ state }) => state !== "lost" && state !== "held")

/** The lines of a file, none if it does not exist. */
export const linesOf = async (file: string): Promise<ReadonlyArray<string>> =>
  (await readFile(file, "utf8").catch(() => "")).split("\n").filter((line) => line !== "")

/** Whether a line in the steps' log is an attempt whose result is in this part of a write. */
const isResult = (part: string, line: string): boolean => {
  const [kind, path = ""] = part.split(" ")
  const attempt = kind === "failed" ? /^(.*)~(\d+)$/.exec(path) : null
  if (attempt !== null) return line === `${attempt[1]}#${attempt[2]}`
  return (kind === "step" || kind === "failed" || kind === "undo") && line.startsWith(`${path}#`)
}

/** A write that waits for the kill. */
interface Waiting {
  readonly endpoint: string
  readonly pid: number
  readonly isLast: boolean
  readonly done: () => void
}

export class JournalKills {
  /** Every moment of every write at which its run was killed: `listed before step list`. */
  readonly moments = new Set<string>()
  readonly resumed: Array<Resumed> = []
  /** How often attempts of steps had begun when their result was stored, by endpoint and line. */
  readonly recorded = new Map<string, number>()
  readonly failures: Array<unknown> = []
  kills = 0
  readonly #platform: PlatformProcess
  readonly #victims: Victims
  /** The file to which the steps of an endpoint write. */
  readonly #logOf: (endpoint: string) => string
  /** The endpoints whose runs have not been killed after their end. */
  readonly #open: Set<string>
  #waiting: Array<Waiting> = []
  #killed = new Map<string, number>()
  #up: number | undefined
  #isRestarting = false
  #restarting: Promise<void> = Promise.resolve()

  constructor(
    platform: PlatformProcess,
    proxy: RecordingProxy,
    victims: Victims,
    endpoints: ReadonlyArray<string>,
    logOf: (endpoint: string) => string
  ) {
    this.#platform = platform
    this.#victims = victims
    this.#logOf = logOf
    this.#open = new Set(endpoints)
    proxy.intercept = (call) =>
      this.#intercept(call).catch((error: unknown) => {
        this.failures.push(error)
        return false
      })
  }

  /** Waits until the endpoint's run has been killed after its end, and the platform is up. */
  async finished(endpoint: string): Promise<void> {
    await until(`the kill after the end of ${endpoint}`, () => this.#open.has(endpoint) ? undefined : true, 120_000)
    await this.#restarting
  }

  async #intercept({ answer, body, moment, status, url }: Intercepted): Promise<boolean> {
    const endpoint = /^\/v2\/([^/]+)\/run-journal\//.exec(url)?.[1]
    if (endpoint === undefined) return false
    const parts = partsOf(body)
    if (moment === "after") {
      if (status !== 200 || !isStored(answer)) return false
      await this.#stored(endpoint, parts)
    }
    if (!this.#victims.moments.includes(moment)) return false
    const fresh = parts.filter((part) => !this.moments.has(`${endpoint} ${moment} ${part}`))
    if (fresh.length === 0) return false
    for (const part of fresh) this.moments.add(`${endpoint} ${moment} ${part}`)
    await new Promise<void>((done) => {
      this.#waiting.push({
        endpoint,
        pid: Number(new URL(url, this.#platform.url).searchParams.get("pid")),
        isLast: moment === "after" && parts.includes("finish"),
        done
      })
      this.#killWhenAllWait()
    })
    return true
  }

  /** Notes what the platform has stored. */
  async #stored(endpoint: string, parts: ReadonlyArray<string>): Promise<void> {
    const killed = this.#killed.get(endpoint)
    if (killed !== undefined && parts.length > 0) {
      this.#killed.delete(endpoint)
      const now = performance.now()
      this.resumed.push({ endpoint, ms: now - killed, msUp: this.#up === undefined ? 0 : now - this.#up })
    }
    const begun = await linesOf(this.#logOf(endpoint))
    for (const line of new Set(begun)) {
      const key = `${endpoint} ${line}`
      if (!this.recorded.has(key) && parts.some((part) => isResult(part, line))) {
        this.recorded.set(key, begun.filter((one) => one === line).length)
      }
    }
  }

  #killWorker(pid: number): void {
    try {
      process.kill(pid, "SIGKILL")
    } catch (error) {
      this.failures.push(error)
    }
  }

  async #restart(): Promise<void> {
    await this.#platform.end("SIGKILL")
    await this.#platform.start()
    this.#up = performance.now()
    this.#isRestarting = false
    this.#killWhenAllWait()
  }

  #killWhenAllWait(): void {
    const waiting = this.#waiting
    if (this.#isRestarting || waiting.length === 0 || new Set(waiting.map(({ endpoint }) => endpoint)).size < this.#open.size) {
      return
    }
    this.#waiting = []
    this.#up = undefined
    this.kills++
    const when = performance.now()
    for (const { endpoint, isLast, pid } of waiting) {
      this.#killed.set(endpoint, when)
      if (isLast) this.#open.delete(endpoint)
      if (this.#victims.worker(endpoint)) this.#killWorker(pid)
    }
    if (this.#victims.platform) {
      this.#isRestarting = true
      this.#restarting = this.#restart().catch((error: unknown) => void this.failures.push(error))
    }
    for (const { done } of waiting) done()
  }
}
