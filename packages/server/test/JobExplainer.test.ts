import { describe, expect, it } from "@effect/vitest"
import { Explanation } from "@stint/contract/Explanation"
import { EndpointId, JobId } from "@stint/contract/Ids"
import type { RunStep } from "@stint/contract/RunSteps"
import { withLastOutput } from "@stint/pool/WorkerExit"
import type { JobReport } from "@stint/store/JobRecord"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import { explain, type ExplainInput } from "../src/jobs/JobExplainer.ts"

const NOW = 1_790_000_000_000

const job: JobReport = {
  id: JobId.make("j"),
  endpoint: EndpointId.make("e"),
  status: "IN_QUEUE",
  lowPriority: false,
  priority: 0,
  createdAt: NOW - 5_000,
  queuedAt: NOW - 5_000,
  notBefore: null,
  ttlMs: 60_000,
  expiresAt: NOW + 55_000,
  executionTimeoutMs: 60_000,
  leaseMs: 30_000,
  maxAttempts: 3,
  retry: null,
  retentionMs: 60_000,
  attempt: 0,
  retries: 0,
  isolated: false,
  concurrency: null,
  worker: null,
  release: null,
  startedAt: null,
  leaseExpiresAt: null,
  finishedAt: null,
  chunks: 0,
  drained: 0,
  webhook: null,
  tags: [],
  batchId: null,
  owner: "",
  progress: null,
  output: null,
  error: null,
  lastError: null
}

const worker = (state: ExplainInput["workers"][number]["state"], rest: Partial<ExplainInput["workers"][number]> = {}) => ({
  state,
  reason: null,
  retryAt: null,
  firstSeenAt: NOW - 3_000,
  idleSince: state === "idle" ? NOW - 1_000 : null,
  ...rest
})

const facts = (rest: Partial<ExplainInput>): ExplainInput => ({
  job,
  ahead: { jobs: 0, more: false },
  isRun: false,
  depth: { waiting: 1 },
  endpoint: {
    id: EndpointId.make("e"),
    source: { type: "command", command: ["x"] },
    workers: { min: 0, max: 2, idleTimeoutMs: 5_000 },
    errorTraceback: "full"
  },
  model: undefined,
  workers: [],
  workerStart: { start: undefined, knownSince: 0 },
  now: NOW,
  ...rest
})

const isExplanation = Schema.is(Explanation)

/** The wait of a job that was ready 812 ms before now and is taken now. */
const waitOf = (
  start: ExplainInput["workerStart"]["start"],
  rest: Partial<JobReport> & { readonly knownSince?: number } = {}
) => {
  const { knownSince = 0, ...changes } = rest
  const taken: JobReport = {
    ...job,
    status: "IN_PROGRESS",
    attempt: 1,
    worker: "w",
    queuedAt: NOW - 812,
    startedAt: NOW,
    leaseExpiresAt: NOW + 1_000,
    ...changes
  }
  return explain(facts({ job: taken, workerStart: { start, knownSince } })).wait
}

describe("a worker that collects jobs in explain", () => {
  const running: JobReport = {
    ...job,
    status: "IN_PROGRESS",
    attempt: 1,
    worker: "w",
    startedAt: NOW - 5,
    leaseExpiresAt: NOW + 30_000
  }
  const words = (batch: ExplainInput["batch"]) => explain(facts({ job: running, ahead: null, batch })).words

  it("says how many jobs it collects, and for how long", () => {
    const silence = "The worker loses the job unless it sends a heartbeat within 30 s."
    expect(words({ max: 32, waitMs: 20 })).toBe(
      "Worker w is running it (attempt 1 of 3, for 5 ms). Its worker collects up to 32 jobs for at most 20 ms, or while another call runs, " +
        `and runs them in one call. ${silence}`
    )
    expect(words({ max: 8, waitMs: 0 })).toBe(
      "Worker w is running it (attempt 1 of 3, for 5 ms). Its worker runs up to 8 jobs in one call, and collects them while another call " +
        `runs. ${silence}`
    )
    expect(words(undefined)).toBe(`Worker w is running it (attempt 1 of 3, for 5 ms). ${silence}`)
  })
})

describe("the endpoint's model in explain", () => {
  const endpoint = { ...facts({}).endpoint, model: "acme/whisper" }
  const downloading = {
    _tag: "Downloading" as const,
    received: 2_000_000_000,
    receivedBefore: 1_000_000_000,
    total: 5_000_000_000,
    since: NOW - 10_000
  }
  const failed = {
    _tag: "Failed" as const,
    reason: "The model acme/whisper cannot be downloaded: the hub responded with status 503. The platform will retry.",
    retryAt: NOW + 12_000
  }

  it("shows the progress of a download, with an estimate of its end", () => {
    const { reason, words } = explain(facts({ endpoint, model: downloading }))
    expect(reason).toBe("model")
    expect(words).toBe(
      "It is first in the queue, and the endpoint's model acme/whisper is being downloaded: 2.0 GB of 5.0 GB, about 30 s left. A worker " +
        "starts when it is there."
    )
    expect(explain(facts({ endpoint, model: { ...downloading, total: undefined } })).words).toContain(
      "requesting the list of files from the hub"
    )
  })

  it("says why a running download had to begin another attempt", () => {
    const model = { ...downloading, problem: "the hub ended model.safetensors after 2 of 5 bytes" }
    expect(explain(facts({ endpoint, model })).words).toContain(
      "about 30 s left. The download is being retried: the hub ended model.safetensors after 2 of 5 bytes. A worker starts"
    )
  })

  it("says why a download failed, and when it is retried", () => {
    const { cause, nextRetryAt, reason, words } = explain(facts({ endpoint, model: failed }))
    expect(reason).toBe("failing")
    expect(words).toBe(
      "It is first in the queue. The model acme/whisper cannot be downloaded: the hub responded with status 503. The platform will retry. The next attempt " +
        "is in 12 s."
    )
    expect([cause, nextRetryAt]).toEqual([failed.reason, NOW + 12_000])
    expect(explain(facts({ endpoint, model: { ...failed, retryAt: Infinity } })).nextRetryAt).toBeUndefined()
  })

  it("does not name the model when the job waits for something else", () => {
    const workers = [worker("idle")]
    expect(explain(facts({ endpoint, model: downloading, workers })).reason).toBe("next")
    expect(explain(facts({ endpoint, model: { _tag: "Ready" } })).reason).toBe("next")
    expect(explain(facts({ endpoint: { ...endpoint, previousRelease: 1 }, model: downloading })).reason).toBe("next")
    expect(explain(facts({ endpoint, model: downloading, job: { ...job, lowPriority: true } })).reason).toBe("low-priority")
  })
})

describe("the setup of a starting worker in explain", () => {
  it("is shown with its limit while it runs", () => {
    const workers = [
      worker("initializing"),
      worker("initializing", { setup: { startedAt: NOW - 1_500, limitAt: NOW + 418_500 } }),
      worker("initializing", { setup: { startedAt: NOW - 2_000, limitAt: NOW + 418_000 } })
    ]
    expect(explain(facts({ workers })).words).toBe(
      "It is first in the queue; 3 workers are starting, the oldest for 3 s. Its setup has run for 2 s of at most 7 min."
    )
  })
})

describe("the pull of an image in explain", () => {
  const pull = { image: "acme/whisper:2", progress: { layers: 5, doneLayers: 2, bytes: 80_400_000, doneBytes: 12_300_000 } }
  const wordsFor = (...workers: ExplainInput["workers"]) => explain(facts({ workers })).words

  it("is shown with its progress, once for all workers that wait for it", () => {
    expect(wordsFor(worker("initializing", { pull }), worker("initializing", { pull }))).toBe(
      "It is first in the queue; 2 workers are starting, the oldest for 3 s. The image acme/whisper:2 is being pulled: 2 of 5 layers, " +
        "12 of 80 MB."
    )
    const setup = { startedAt: NOW - 2_000, limitAt: NOW + 418_000 }
    const other = { image: "acme/whisper:3", progress: { layers: 0, doneLayers: 0, bytes: 0, doneBytes: 0 } }
    const rolling = wordsFor(...[{ setup }, { pull }, { pull: other }].map((rest) => worker("initializing", rest)))
    expect(rolling).toContain("of at most 7 min. The image acme/whisper:2 is being pulled: 2 of 5 layers, 12 of 80 MB. The image")
    expect(rolling).toMatch(/The image acme\/whisper:3 is being pulled: no layers yet\.$/)
  })

  it("is shown in the unit of the whole image", () => {
    const textOf = (bytes: number, doneBytes: number) =>
      wordsFor(worker("initializing", { pull: { ...pull, progress: { ...pull.progress, bytes, doneBytes } } })).split(": ").at(-1)
    expect(textOf(0, 0)).toBe("2 of 5 layers.")
    expect(textOf(2_000_000, 240_000)).toBe("2 of 5 layers, 0.2 of 2.0 MB.")
    expect(textOf(999_600_000, 400_000_000)).toBe("2 of 5 layers, 0.4 of 1.0 GB.")
    expect(textOf(24_000_000_000, 8_000_000_000)).toBe("2 of 5 layers, 8 of 24 GB.")
  })
})

describe("the wait in explain", () => {
  const ago = (requested: number, created: number | null, called: number | null, ready: number | null) => {
    const at = (millis: number | null) => millis === null ? null : NOW - millis
    return { requestedAt: NOW - requested, createdAt: at(created), calledAt: at(called), readyAt: at(ready) }
  }

  it("has one part for each step of a cold start, and the parts add up to the wait", () => {
    expect(waitOf(ago(809, 800, 169, 19))).toEqual({
      millis: 812,
      words: "3 ms until its worker was requested, 9 ms to create the worker, 631 ms for the worker to start, " +
        "150 ms until the worker asked for a job, 19 ms to be taken",
      parts: [
        { phase: "queue", millis: 3 },
        { phase: "create", millis: 9 },
        { phase: "start", millis: 631 },
        { phase: "prepare", millis: 150 },
        { phase: "take", millis: 19 }
      ]
    })
  })

  it("has a part for the setup of the worker", () => {
    const setupAt = NOW - 160
    expect(waitOf({ ...ago(809, 800, 160, 19), setupAt })).toMatchObject({
      words:
        "3 ms until its worker was requested, 9 ms to create the worker, 640 ms for the worker to start, 141 ms for its setup, " +
        "19 ms to be taken",
      parts: [
        { phase: "queue", millis: 3 },
        { phase: "create", millis: 9 },
        { phase: "start", millis: 640 },
        { phase: "setup", millis: 141 },
        { phase: "take", millis: 19 }
      ]
    })
    // A worker that called before.
    expect(waitOf({ ...ago(809, 800, 169, 19), setupAt })?.parts.slice(2)).toEqual([
      { phase: "start", millis: 631 },
      { phase: "prepare", millis: 9 },
      { phase: "setup", millis: 141 },
      { phase: "take", millis: 19 }
    ])
  })

  it("has a part for the pull of the worker's image, and only if one was needed", () => {
    expect(waitOf({ ...ago(809, 100, 60, 60), pulledAt: NOW - 300 })).toMatchObject({
      words: "3 ms until its worker was requested, 509 ms to pull its image, 200 ms to create the worker, " +
        "40 ms for the worker to start, 60 ms to be taken",
      parts: [
        { phase: "queue", millis: 3 },
        { phase: "pull", millis: 509 },
        { phase: "create", millis: 200 },
        { phase: "start", millis: 40 },
        { phase: "take", millis: 60 }
      ]
    })
    expect(waitOf(ago(809, 100, 60, 60))?.parts.map(({ phase }) => phase)).not.toContain("pull")
    // The pull ended before this job was ready.
    expect(waitOf({ ...ago(5_000, 700, 60, 60), pulledAt: NOW - 900 })?.parts).toEqual([
      { phase: "create", millis: 112 },
      { phase: "start", millis: 640 },
      { phase: "take", millis: 60 }
    ])
  })

  it("says when a standby process became the worker, if the job waited for its start", () => {
    expect(waitOf({ ...ago(809, 807, 100, 100), standby: true })).toMatchObject({
      standby: true,
      words:
        "3 ms until its worker was requested, 2 ms to create the worker, 707 ms for the worker to start, 100 ms to be taken; " +
        "a standby process became the worker"
    })
    expect(waitOf({ ...ago(60_000, 59_990, 59_000, 59_000), standby: true })).not.toHaveProperty("standby")
  })

  it("counts only the part of the start that the job waited for", () => {
    expect(waitOf(ago(5_000, 4_990, 700, 700))?.parts).toEqual([{ phase: "start", millis: 112 }, { phase: "take", millis: 700 }])
  })

  it("names a worker that was already running", () => {
    expect(waitOf(ago(60_000, 59_990, 59_000, 59_000))).toEqual({
      millis: 812,
      words: "until a running worker took it",
      parts: [{ phase: "take", millis: 812 }]
    })
    expect(waitOf(ago(60_000, 59_990, 59_000, 59_000), { queuedAt: NOW })).toEqual({
      millis: 0,
      words: "it was taken at once",
      parts: []
    })
  })

  it("adds the time of an unknown step to the next one", () => {
    expect(waitOf(ago(809, null, 169, 169))?.parts).toEqual([
      { phase: "queue", millis: 3 },
      { phase: "start", millis: 640 },
      { phase: "take", millis: 169 }
    ])
  })

  it("says why the parts are unknown", () => {
    expect(waitOf(undefined, { knownSince: NOW + 1 })).toMatchObject({ millis: 812, unknown: "restarted", parts: [] })
    expect(waitOf(undefined, { knownSince: NOW - 9_000 })).toMatchObject({ unknown: "unknown-worker", parts: [] })
  })

  it("is absent while the job waits, and before the first attempt", () => {
    const start = ago(809, 800, 169, 19)
    expect(waitOf(start, { status: "IN_QUEUE" })).toBeUndefined()
    expect(waitOf(start, { status: "CANCELLED", worker: null, startedAt: null })).toBeUndefined()
    // It ran before, lost its worker, and was cancelled while it waited again.
    expect(waitOf(start, { status: "CANCELLED", queuedAt: NOW + 1 })).toBeUndefined()
  })
})

describe("explain", () => {
  it("states the reason in a sentence, with the numbers and the remedy", () => {
    const words = (rest: Partial<ExplainInput>) => explain(facts(rest)).words
    expect(words({})).toBe("It is first in the queue; a worker is being started.")
    expect(words({ ahead: { jobs: 3, more: false }, workers: [worker("running"), worker("running")] })).toBe(
      "3 jobs are ahead of it, and the endpoint's maximum of 2 workers (workers.max) is busy. The job starts when a worker is free; " +
        "raise workers.max to add workers."
    )
    expect(words({ workers: [worker("initializing")] })).toBe(
      "It is first in the queue; 1 worker is starting, the oldest for 3 s."
    )
    const gone = worker("unhealthy", { reason: "exit code 1.\n  at line 1", retryAt: NOW + 4_200 })
    expect(words({ workers: [gone] })).toBe(
      "It is first in the queue, and workers fail to start: exit code 1. The next start is tried in 4.2 s."
    )
    const missing = worker("unhealthy", {
      reason: withLastOutput("Worker w exited with code 1.", [
        "Traceback (most recent call last):",
        "  File \"/app/handler.py\", line 1, in <module>",
        "ModuleNotFoundError: No module named 'words'",
        ""
      ]),
      retryAt: NOW + 4_200
    })
    const printed = "Worker w exited with code 1. It printed: ModuleNotFoundError: No module named 'words'"
    expect(words({ workers: [missing] })).toBe(
      `It is first in the queue, and workers fail to start: ${printed}. The next start is tried in 4.2 s.`
    )
    const again = explain(facts({ workers: [missing, worker("initializing")] }))
    expect(again.words).toBe(
      `It is first in the queue; 1 worker is starting, the oldest for 3 s. The last start failed: ${printed}.`
    )
    expect(again.cause).toBe(missing.reason)
    expect(words({ job: { ...job, lowPriority: true } })).toContain("so it does not start a worker")
    expect(words({ job: { ...job, notBefore: NOW + 90_000, attempt: 1, lastError: "no luck\nat line 1" } })).toBe(
      "Attempt 1 of 3 failed: no luck. The next attempt starts in 90 s at the earliest."
    )
    expect(explain(facts({ job: { ...job, notBefore: NOW + 90_000 }, ahead: null }))).toMatchObject({
      reason: "scheduled",
      words: "It was submitted to start at 2026-09-21T14:14:50.000Z, in 90 s.",
      startAt: NOW + 90_000
    })
    expect(words({ ahead: { jobs: 10_000, more: true }, workers: [worker("idle")] })).toBe(
      "More than 10000 jobs are ahead of it; 1 worker is idle and will take the next job."
    )
    expect(words({ workers: [worker("idle", { idleSince: NOW - 8_000 })] })).toBe(
      "It is first in the queue; 1 worker is idle but has not taken it for 5 s. The platform replaces a worker that takes no job for 10 s. " +
        "Check its output in the platform's log."
    )
    expect(words({ job: { ...job, isolated: true }, ahead: { jobs: 1, more: false }, workers: [worker("initializing")] })).toBe(
      "1 job is ahead of it and runs on a worker without other jobs, because its last worker was lost; 1 worker is starting, the oldest for 3 s."
    )
    expect(words({ workers: [worker("idle", { idleSince: NOW - 8_000 }), worker("idle")] })).toContain(
      "2 workers are idle and will"
    )
  })

  it("says that a release is being deployed, or why the last one failed, while the job waits", () => {
    const rolling = { state: "rolling", release: 5, serving: 4 } as const
    const failed = { state: "failed", release: 5, serving: 4, reason: "Worker w exited with code 1.\nError: no model" } as const
    expect(explain(facts({ roll: rolling }))).toMatchObject({
      roll: rolling,
      words: "It is first in the queue; a worker is being started. " +
        "Release 5 is being deployed: release 4 serves until a worker of release 5 is ready."
    })
    expect(explain(facts({ roll: failed }))).toMatchObject({
      roll: failed,
      words: "It is first in the queue; a worker is being started. " +
        "Release 5 failed, so release 4 keeps serving: Worker w exited with code 1."
    })
    const ended = explain(facts({ roll: failed, job: { ...job, status: "COMPLETED", attempt: 1, finishedAt: NOW, release: 4 } }))
    expect(ended).toMatchObject({ release: 4, words: "It has ended: COMPLETED in attempt 1 of 3." })
    expect(ended).not.toHaveProperty("roll")
  })

  it("names the concurrency key, its running jobs and the limit, whatever the workers do", () => {
    const held = { ...job, concurrency: { key: "acme", limit: 3, held: true } }
    const endpoint = { ...facts({}).endpoint, concurrency: { key: "input.customer", limit: 3 } }
    const explained = (rest: Partial<ExplainInput>) =>
      explain(facts({ job: held, ahead: null, endpoint, workers: [worker("idle")], ...rest }))
    expect(explained({ key: { running: 3, ready: 0, held: 0 } })).toMatchObject({
      reason: "concurrency",
      words:
        "3 jobs with key acme are running, the limit is 3. It is the next of them. It becomes ready when one of them ends; the endpoint's " +
        "concurrency.limit sets their number.",
      concurrency: { key: "acme", limit: 3, running: 3, ready: 0, ahead: 0 }
    })
    expect(explained({ key: { running: 1, ready: 2, held: 12 } }).words).toContain(
      "1 job with key acme is running and 2 are next, the limit is 3. 12 more jobs wait before it."
    )
    const none = { ...held, concurrency: { ...held.concurrency, key: "" } }
    expect(explained({ job: none, key: { running: 3, ready: 0, held: 0 } }).words).toContain(
      "3 jobs without a concurrency key in their input are running"
    )
    expect(explained({ job: { ...job, concurrency: { ...held.concurrency, held: false } } }).reason).toBe("next")
  })

  it("hides tracebacks from callers when the endpoint hides them", () => {
    const lastError = JSON.stringify({ error_message: "m", error_traceback: "at secret.ts" })
    const one = facts({ job: { ...job, notBefore: NOW + 1, attempt: 1, lastError } })
    expect(JSON.stringify(explain(one))).toContain("secret.ts")
    const none = { ...one, endpoint: { ...one.endpoint, errorTraceback: "none" as const } }
    expect(JSON.stringify(explain(none))).not.toContain("secret.ts")
  })

  it("counts the activations of a run, which have no maximum", () => {
    const explained = (rest: Partial<JobReport>) => {
      const { attempts, words } = explain(facts({ ahead: null, isRun: true, job: { ...job, attempt: 7, ...rest } }))
      return [words, attempts]
    }
    const attempts = { made: 7, most: null }
    expect(explained({ status: "FAILED", finishedAt: NOW })).toEqual(["It has ended: FAILED in activation 7.", attempts])
    expect(explained({ status: "IN_PROGRESS", worker: "w", startedAt: NOW - 4_000, leaseExpiresAt: NOW + 9_000 })).toEqual([
      expect.stringContaining("Worker w is running it (activation 7, for 4 s)."),
      attempts
    ])
    expect(explained({ notBefore: NOW + 90_000, lastError: "no luck" })).toEqual([
      "Activation 7 failed: no luck. The next activation starts in 90 s at the earliest.",
      attempts
    ])
  })

  it("says what a parked run of a pipeline waits for, and never that a worker runs it", () => {
    const parked: JobReport = { ...job, status: "IN_PROGRESS", attempt: 1, startedAt: NOW - 4_000 }
    const explained = (rest: Partial<NonNullable<ExplainInput["run"]>>) =>
      explain(
        facts({
          job: parked,
          ahead: null,
          run: { definition: "6dcd4ce23d88e2ee", phase: "doing", held: null, steps: [], more: false, ...rest }
        })
      )
    const wait: RunStep = {
      path: "approve",
      kind: "waitFor",
      state: "open",
      startedAt: NOW - 4_000,
      event: { name: "approved", key: "7" },
      until: NOW + 3_600_000
    }
    const child: RunStep = { path: "stamp", kind: "run", state: "open", job: "step-1", endpoint: "stamps" }
    const sleep: RunStep = { path: "cool", kind: "sleep", state: "open", until: NOW + 90_000 }

    expect(explained({ steps: [wait] })).toMatchObject({
      reason: "parked",
      waitsFor: [wait],
      words: `It has recorded its progress and waits, without a worker, for the event "approved" with key "7" (until ${
        new Date(NOW + 3_600_000).toISOString()
      }, in 60 min). Send an event with POST /v2/e/events.`
    })
    expect(explained({ steps: [child, sleep] }).words).toBe(
      `It has recorded its progress and waits, without a worker, for job step-1 of the endpoint "stamps", the end of the sleep "cool" (at ${
        new Date(NOW + 90_000).toISOString()
      }, in 90 s).`
    )
    expect(explained({ steps: [child, child, child, child, child], more: true }).words).toContain("and more than 2 more.")
    expect(explained({ phase: "undoing", steps: [child] }).words).toMatch(
      /^It was cancelled, is running its compensations, and waits/
    )
    expect(explained({}).words).toBe("It has recorded its progress and is about to continue.")
    const cause = "The run has recorded the node \"stamp\", which the definition of the worker does not have."
    expect(explained({ held: cause })).toMatchObject({
      reason: "held",
      words:
        `${cause} It follows the definition 6dcd4ce23d88. Every minute it returns to the queue, until a worker whose definition fits takes ` +
        "it. To finish it as it began, let a worker of the earlier release run, for example after `stint rollback e`. To continue it with the " +
        `new definition, discard its records from that node on: POST /v2/e/retry/${job.id}?from=NODE. Or cancel it: POST /v2/e/cancel/${job.id}.`
    })
    expect(explained({ held: cause, phase: "undoing" }).words).toMatch(/`stint rollback e`\.$/)
    expect(explain(facts({ job: parked, ahead: null }))).toMatchObject({ reason: "parked" })
  })

  it("returns an explanation that has the contract's shape for every state of a job", () => {
    const time = fc.integer({ min: NOW - 1e9, max: NOW + 1e9 })
    const reports = fc.record({
      status: fc.constantFrom(...["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"] as const),
      attempt: fc.integer({ min: 0, max: 5 }),
      worker: fc.option(fc.string({ minLength: 1 })),
      startedAt: fc.option(time),
      leaseExpiresAt: fc.option(time),
      notBefore: fc.option(time),
      lastError: fc.option(fc.string()),
      lowPriority: fc.boolean()
    }).map((rest) => ({ ...job, ...rest }))
    const workers = fc.array(
      fc.record({
        state: fc.constantFrom(...["initializing", "idle", "running", "draining", "unhealthy", "throttled"] as const),
        reason: fc.option(fc.string()),
        retryAt: fc.option(time),
        firstSeenAt: time,
        idleSince: fc.option(time)
      }),
      { maxLength: 5 }
    )
    const endpoints = fc.record({ max: fc.integer({ min: 0, max: 4 }), external: fc.boolean() })
    const aheads = fc.option(fc.record({ jobs: fc.nat(20), more: fc.boolean() }))
    const starts = fc.record({
      start: fc.option(
        fc.record({ requestedAt: time, createdAt: fc.option(time), calledAt: fc.option(time), readyAt: fc.option(time) }),
        { nil: undefined }
      ),
      knownSince: time
    })
    fc.assert(
      fc.property(reports, workers, endpoints, aheads, fc.nat(20), starts, (
        job,
        workers,
        { external, max },
        ahead,
        waiting,
        workerStart
      ) => {
        const base = facts({}).endpoint
        const source = external ? { type: "external" as const } : base.source
        const endpoint = { ...base, source, workers: { ...base.workers, max } }
        const explanation = explain(facts({ job, workers, endpoint, ahead, depth: { waiting }, workerStart }))
        if (explanation.wait !== undefined && explanation.wait.unknown === undefined) {
          expect(explanation.wait.parts.reduce((sum, { millis }) => sum + millis, 0)).toBe(explanation.wait.millis)
          expect(explanation.wait.parts.every(({ millis }) => millis > 0)).toBe(true)
        }
        expect(isExplanation(explanation)).toBe(true)
        expect(explanation.words).toMatch(/^[A-Z0-9].*[.]$/s)
        if (explanation.nextRetryAt !== undefined) expect(explanation.nextRetryAt).toBeGreaterThan(NOW)
        if (explanation.position !== undefined) expect(explanation.position.place).toBeLessThanOrEqual(explanation.position.of)
        if (workers.some(({ state }) => state === "idle") && explanation.reason !== "next") {
          expect(["ended", "running", "scheduled", "backoff", "failing", "parked"]).toContain(explanation.reason)
        }
      }),
      { numRuns: 500 }
    )
  })
})
