/**
 * Pipelines with a real platform and real workers: the examples, kill -9 of the worker, of the platform and of both at every record of a run, and
 * at random moments of many runs (R14).
 */
import { createClient } from "@stint/client"
import { missing } from "@stint/store-postgres/testing"
import { reportChaos, SeededRandom } from "@stint/store-testing"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Answer } from "../../../examples/08-pipelines/answer/Answer.ts"
import type { Summary } from "../../../examples/08-pipelines/summary/Summary.ts"
import { JournalKills, linesOf } from "./JournalKills.ts"
import { endOf, killedRuns, OPEN_RUNS } from "./PipelineScenario.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"
import { RecordingProxy } from "./RecordingProxy.ts"
import { startDatabase } from "./SharedDatabase.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "pipelines.config.ts")]

/** A limit for waits that only a broken platform reaches. Milliseconds. */
const GENEROUS = 120_000

/**
 * A compile cache, which halves a platform's startup time: these tests start a platform about 40 times. A killed process does not write the cache.
 */
let cache = ""

const startPlatform = (env: Readonly<Record<string, string>> = {}) =>
  PlatformProcess.create(CONFIG, { NODE_COMPILE_CACHE: cache, ...env })

beforeAll(async () => {
  cache = await mkdtemp(join(tmpdir(), "stint-cache-"))
  await using _ = await startPlatform()
}, 2 * GENEROUS)

afterAll(() => rm(cache, { recursive: true, force: true }))

/** The median and the largest value. */
const spread = (values: ReadonlyArray<number>): string => {
  const sorted = values.map(Math.round).toSorted((a, b) => a - b)
  return `median ${sorted[sorted.length >> 1]} ms, slowest ${sorted.at(-1)} ms`
}

// Most of the time is spent waiting for processes, so these tests run at the same time.
describe.concurrent("the examples", () => {
  it("run and stream over HTTP, and with the client", async ({ expect }) => {
    await using platform = await startPlatform()
    const summary = await platform.run("summary", { text: "a b a\n\nb c" })
    expect(await endOf(platform, "summary", summary)).toMatchObject({ status: "COMPLETED", output: { a: 2, b: 2, c: 1 } })

    const answer = await platform.run("answer", { question: "Why not?" })
    const chunks: Array<unknown> = []
    await until("the stream to end", async () => {
      const { body } = await platform.request("GET", `/v2/answer/stream/${answer}`)
      const { status, stream } = body as { readonly status: string; readonly stream: ReadonlyArray<{ readonly output: unknown }> }
      chunks.push(...stream.map(({ output }) => output))
      return status === "COMPLETED" ? true : undefined
    }, GENEROUS)
    expect(chunks).toEqual(["You ", "asked: ", "Why ", "not?"])
    expect(await endOf(platform, "answer", answer)).toMatchObject({ status: "COMPLETED", output: "You asked: Why not?" })

    const client = createClient({ baseUrl: platform.url, apiKey: platform.key })
    expect(await client.endpoint<typeof Summary>("summary").runSync({ text: "one two one" })).toEqual({ one: 2, two: 1 })
    const words = await client.endpoint<typeof Answer>("answer").run({ question: "Now?" })
    expect(await client.endpoint<typeof Answer>("answer").result(words.id)).toBe("You asked: Now?")
  }, 3 * GENEROUS)
})

/** The pipelines that are killed: every part of their writes, and how their runs end. */
const KILLED = {
  listed: {
    writes: ["choice each", "step list", "step each[0]", "step each[1]", "step each[2]", "spawn child", "sleep nap", "step last"],
    end: { status: "COMPLETED", output: 91 }
  },
  branched: {
    writes: [
      "step parts.left.a",
      "step parts.right.b",
      "choice way",
      "step way.up.climb",
      "choice words",
      "step words",
      "step last"
    ],
    end: { status: "COMPLETED", output: "lr again" }
  },
  undone: {
    writes: [
      "step reserve",
      "failed shaky~1",
      "sleep shaky~2~0",
      "step shaky",
      "wait approval",
      "failed last",
      "undo reserve~undo"
    ],
    end: { status: "FAILED", error: expect.stringContaining("not approved") }
  },
  called: {
    writes: ["choice each", "spawn each[0]", "spawn each[1]", "spawn words", "wait go", "step last"],
    end: { status: "COMPLETED", output: "10 20 2" }
  }
}

/** Kills the runs of all pipelines at every write. The endpoints with this suffix lose their workers together with the platform. */
const BOTH = "-both"

const MOMENTS = ["before", "after"] as const

const WITH_PLATFORM = { platform: true, worker: (endpoint: string) => endpoint.endsWith(BOTH), moments: MOMENTS }

describe.concurrent.each([
  { victim: "worker", suffixes: [""], victims: { platform: false, worker: () => true, moments: MOMENTS }, isShared: false },
  { victim: "platform, alone and together with the worker", suffixes: ["", BOTH], victims: WITH_PLATFORM, isShared: false },
  {
    victim: "node of a PostgreSQL database, alone and together with the worker",
    suffixes: ["", BOTH],
    // A killed node keeps its endpoints for three seconds, so that each kill takes five.
    victims: { ...WITH_PLATFORM, moments: ["after"] as const },
    isShared: true
  }
])("kill -9 of the $victim", ({ isShared, suffixes, victim, victims }) => {
  it("R14: begins no recorded step again, before and after every record of every kind is stored", async ({ expect, skip }) => {
    if (isShared && missing !== undefined) skip(missing)
    const address = { platform: "" }
    await using proxy = await RecordingProxy.listen(() => address.platform)
    await using database = isShared ? await startDatabase() : undefined
    await using platform = await startPlatform({ PROXY: proxy.url, ...database?.settings })
    address.platform = platform.url
    const logOf = (endpoint: string) => join(platform.dataDir, `${endpoint}.begun`)
    const runs = suffixes.flatMap((suffix) =>
      Object.entries(KILLED).map(([pipeline, { end, writes }]) => ({ endpoint: pipeline + suffix, end, writes }))
    )
    const kills = new JournalKills(platform, proxy, victims, runs.map(({ endpoint }) => endpoint), logOf)

    const ids = await Promise.all(runs.map(({ endpoint }) => platform.run(endpoint, { log: logOf(endpoint) })))
    /** The platform may be killed while it receives the event. It keeps an event that was accepted twice for a wait that does not come. */
    const send = async (endpoint: string) => {
      const accepted = () =>
        platform.request("POST", `/v2/${endpoint}/events`, { name: "go", data: true }).then(
          ({ status }) => status === 200 ? true : undefined,
          () => undefined
        )
      await until("the event to be accepted", accepted, GENEROUS)
    }
    const sent = runs.filter(({ endpoint }) => endpoint.startsWith("called")).map(({ endpoint }) => send(endpoint))
    await Promise.all(runs.map(async ({ end, endpoint }, at) => {
      expect(await endOf(platform, endpoint, ids[at] ?? "")).toMatchObject(end)
      await kills.finished(endpoint)
    }))
    await Promise.all(sent)
    expect(kills.failures).toEqual([])
    // Callers receive each chunk once.
    for (const [at, { endpoint }] of runs.entries()) {
      if (!endpoint.startsWith("branched")) continue
      const { body } = await platform.request("GET", `/v2/${endpoint}/stream/${ids[at]}`)
      expect(body).toMatchObject({ stream: [{ output: "lr " }, { output: "again" }] })
    }

    const wanted = runs.flatMap(({ endpoint, writes }) =>
      ["start", ...writes, "finish"].flatMap((part) => victims.moments.map((moment) => `${endpoint} ${moment} ${part}`))
    )
    expect([...kills.moments].toSorted()).toEqual(wanted.toSorted())
    const lines = await Promise.all(
      runs.map(async ({ endpoint }) => (await linesOf(logOf(endpoint))).map((line) => `${endpoint} ${line}`))
    )
    const isJob = (line: string) => / job\[\d+\]#1$/.test(line)
    const begun = lines.flat().filter((line) => !isJob(line))
    // Each attempt of a step was recorded in the end, and did not begin again.
    expect([...kills.recorded.keys()].toSorted()).toEqual([...new Set(begun)].toSorted())
    for (const [line, times] of kills.recorded) {
      expect([line, begun.filter((one) => one === line).length]).toEqual([line, times])
    }
    // The jobs of the other endpoint run in a worker that only loses its platform.
    if (!victims.platform) expect(lines.flat().filter(isJob)).toHaveLength(3)

    process.stdout.write(
      `kill -9 of the ${victim}: ${kills.kills} kills at ${kills.moments.size} moments, 0 of ${kills.recorded.size} recorded attempts began again, ` +
        `${begun.length - kills.recorded.size} others did\n`
    )
    for (const suffix of suffixes) {
      const resumed = kills.resumed.filter(({ endpoint }) => endpoint.endsWith(BOTH) === (suffix === BOTH))
      const killed = !victims.platform ? "the worker" : suffix === BOTH ? "both" : "the platform alone"
      process.stdout.write(
        `  until the next answered write after a kill of ${killed}: ${spread(resumed.map(({ ms }) => ms))}` +
          (victims.platform ? `; from the start of the platform: ${spread(resumed.map(({ msUp }) => msUp))}\n` : "\n")
      )
    }
  }, 8 * GENEROUS)
})

describe.concurrent("a step that ends its worker", () => {
  it("fails its run after the allowed attempts, although an earlier step is recorded", async ({ expect }) => {
    await using platform = await startPlatform()
    const log = join(platform.dataDir, "begun")
    const id = await platform.run("poisoned", { log })
    const job = await endOf(platform, "poisoned", id)
    expect(job.status).toBe("FAILED")
    expect(job.error).toContain("SIGKILL")
    expect(await linesOf(log)).toEqual(["good#1", "bad#1", "bad#1"])
  }, 3 * GENEROUS)
})

describe.concurrent("a cancelled run", () => {
  it("cancels the job that it waits for", async ({ expect }) => {
    await using platform = await startPlatform()
    const log = join(platform.dataDir, "slow")
    const events = async () =>
      (await linesOf(log)).map((line) => JSON.parse(line) as { readonly event: string; readonly id: string })
    const id = await platform.run("waiting", { log, ms: 600_000 })
    const child = await until("the job of the run to begin", async () => (await events())[0]?.id, GENEROUS)
    expect((await platform.request("POST", `/v2/waiting/cancel/${id}`)).status).toBe(200)
    expect(await endOf(platform, "waiting", id)).toMatchObject({ status: "CANCELLED" })
    expect(await endOf(platform, "slow", child)).toMatchObject({ status: "CANCELLED" })
    // The job's handler is interrupted, too.
    await until("the handler to be aborted", async () => (await events()).find(({ event }) => event === "aborted"), GENEROUS)
  }, 3 * GENEROUS)
})

/** The kinds of the pipeline `cancelled`: what has begun when the run is at its node, and how the run ends. */
const CANCELLED = [
  { kind: "step", line: "kind.step.work#1", end: { status: "CANCELLED" } },
  { kind: "run", line: undefined, end: { status: "CANCELLED" } },
  { kind: "all", line: "kind.all.both.work.work#1", end: { status: "CANCELLED" } },
  { kind: "forEach", line: "kind.forEach.each[0]#1", end: { status: "CANCELLED" } },
  { kind: "sleep", line: undefined, end: { status: "CANCELLED" } },
  { kind: "waitFor", line: undefined, end: { status: "CANCELLED" } },
  { kind: "stream", line: "kind.stream.words#1", end: { status: "CANCELLED" } },
  // It had failed before it was cancelled.
  { kind: "undo", line: "reserve~undo#1", end: { status: "FAILED", error: expect.stringContaining("no truck") } }
]

const beginsWith = (line: string) => (one: string) => one === line || one.startsWith(`${line} `)

describe.concurrent("runs that are cancelled in nodes of every kind", () => {
  it("R14: undo what they did, even when kill -9 ends the worker, or also the platform, while they undo", async ({ expect }) => {
    await using platform = await startPlatform()
    const logOf = (kind: string) => join(platform.dataDir, `${kind}.cancelled`)
    const undoing = async (kind: string) => (await linesOf(logOf(kind))).filter(beginsWith("reserve~undo#1"))
    for (const isPlatformKilled of [false, true]) {
      for (const { kind } of CANCELLED) await rm(logOf(kind), { force: true })
      const runs = await Promise.all(
        CANCELLED.map(async (one) => ({ ...one, id: await platform.run("cancelled", { log: logOf(one.kind), kind: one.kind }) }))
      )
      for (const { id, kind, line } of runs) {
        await until(`the run to be in its ${kind}`, async () => {
          if (line !== undefined) return (await linesOf(logOf(kind))).some(beginsWith(line)) || undefined
          const { body } = await platform.request("GET", `/v2/cancelled/status/${id}?explain=true`)
          return JSON.stringify(body).includes("\"parked\"") || undefined
        }, GENEROUS)
      }
      for (const { id } of runs) expect((await platform.request("POST", `/v2/cancelled/cancel/${id}`)).status).toBe(200)
      const workers = await Promise.all(runs.map(({ kind }) =>
        until(`the compensation of ${kind} to begin`, async () => {
          const [first] = await undoing(kind)
          return first === undefined ? undefined : Number(first.split(" ")[1])
        }, GENEROUS)
      ))
      if (isPlatformKilled) await platform.end("SIGKILL")
      for (const pid of new Set(workers)) process.kill(pid, "SIGKILL")
      if (isPlatformKilled) await platform.start()
      for (const { end, id, kind } of runs) {
        expect([kind, await endOf(platform, "cancelled", id)]).toMatchObject([kind, end])
        const lines = await linesOf(logOf(kind))
        expect([kind, lines.filter((line) => line.startsWith("after") || line.includes("[1]"))]).toEqual([kind, []])
        expect([kind, lines.filter((line) => line === "reserve#1")]).toEqual([kind, ["reserve#1"]])
        expect([kind, (await undoing(kind)).length]).toEqual([kind, 2])
      }
    }
  }, 8 * GENEROUS)
})

describe.concurrent("a pipeline whose jobs are runs of itself", () => {
  it("ends with one worker that holds one run at a time, because a waiting run holds none", async ({ expect }) => {
    await using platform = await startPlatform()
    const id = await platform.run("nested", 3)
    expect(await endOf(platform, "nested", id)).toMatchObject({ status: "COMPLETED", output: 3 })
  }, 3 * GENEROUS)
})

describe.concurrent("a stream in the middle of which its worker is killed by kill -9", () => {
  it.each([["alone", false], ["together with the platform", true]])(
    "R3, R14: continues in the next activation, and callers receive each chunk once: %s",
    async (_, isPlatformKilled) => {
      await using platform = await startPlatform()
      const log = join(platform.dataDir, "streamed")
      const id = await platform.run("streamed", { log })
      const chunks: Array<unknown> = []
      const read = async () => {
        const { body } = await platform.request("GET", `/v2/streamed/stream/${id}`)
        const { stream } = body as { readonly stream: ReadonlyArray<{ readonly output: unknown }> }
        chunks.push(...stream.map(({ output }) => output))
      }
      await until("two chunks", async () => {
        await read()
        return chunks.length === 2 || undefined
      }, GENEROUS)
      const pid = await until(
        "the stream to stop",
        async () => Number((await linesOf(log)).find(beginsWith("words#1"))?.split(" ")[1] ?? 0) || undefined,
        GENEROUS
      )
      if (isPlatformKilled) await platform.end("SIGKILL")
      process.kill(pid, "SIGKILL")
      if (isPlatformKilled) await platform.start()
      expect(await endOf(platform, "streamed", id)).toMatchObject({ status: "COMPLETED", output: "abc" })
      await read()
      expect(chunks).toEqual(["a", "b", "c"])
      expect((await linesOf(log)).map((line) => line.split(" ")[0])).toEqual(["plan#1", "words#1", "words#1"])
    },
    3 * GENEROUS
  )
})

const minutes = SeededRandom.chaosMinutes()

/** The minimum number of kills: `STINT_CHAOS_KILLS=500` kills 500 times, in about half an hour. */
const kills = Number(process.env["STINT_CHAOS_KILLS"] ?? 0)

/** The time for one kill, with the restart of the platform, on a busy machine. Milliseconds. */
const MILLIS_PER_KILL = 10_000

describe.each([
  { world: "one platform", isShared: false, millis: 25_000, millisPerMinute: 10_000 },
  { world: "two nodes with a PostgreSQL database", isShared: true, millis: 10_000, millisPerMinute: 5_000 }
])("chaos: kill -9 at random moments of many runs: $world", ({ isShared, millis, millisPerMinute, world }) => {
  it("R14: ends every run with its output, and begins no recorded step and no ended job again", async (context) => {
    if (isShared && missing !== undefined) context.skip(missing)
    const seed = SeededRandom.runSeed()
    const { counts, violations } = await killedRuns({
      env: { NODE_COMPILE_CACHE: cache },
      seed,
      isShared,
      kills,
      millis: millis + (minutes ?? 0) * millisPerMinute
    })
    reportChaos(context, counts)
    const told = `seed ${seed}, ${JSON.stringify(counts)}`
    process.stdout.write(`kill -9 at random moments, ${world}: ${told}\n`)
    expect(violations, told).toEqual([])
    expect(counts["runs"], told).toBeGreaterThanOrEqual(OPEN_RUNS)
  }, 5 * GENEROUS + (minutes ?? 0) * 60_000 + kills * MILLIS_PER_KILL)
})
