/**
 * The journal in memory: for tests and local test mode. It follows the rules of the platform's journal (docs/spec/pipelines.md), with timers on
 * Effect's clock.
 */
import { incompatibility } from "@stint/contract/DefinitionFit"
import { isCompensation, SETTLING_KINDS, SleepBody, SpawnBody, WaitBody } from "@stint/contract/RunJournal"
import type { JournalEntry, JournalRecord, RunAnswer, RunWrite } from "@stint/contract/RunJournal"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { CANCEL_PATH } from "./Activation.ts"
import type { DefinitionRef, Journal } from "./Journal.ts"

/** How a job ended, as callers see it. */
export interface JobEnd {
  readonly status: "COMPLETED" | "FAILED" | "CANCELLED"
  readonly output?: Schema.Json
  readonly error?: string
}

/** A child job. */
export interface Child {
  readonly id: string
  readonly endpoint: string
  readonly input: Schema.Json
}

/** How the journal behaves. */
export interface MemoryOptions {
  /** Runs a child job. Default: the job fails, because there is no platform. */
  readonly spawn?: (child: Child) => Effect.Effect<JobEnd>
  /** Whether a waiting run is parked, so that another activation continues it. Default: false; the activation waits. */
  readonly parks?: boolean
  /** Runs before and after each write is stored. If the effect does not end, the worker receives no response. */
  readonly around?: (write: RunWrite, when: "before" | "after") => Effect.Effect<void>
}

/** The journal, and the actions of callers and of the platform. */
export interface MemoryJournal {
  readonly journal: Journal["Service"]
  /** Delivers an event to the run that has waited for it the longest, or keeps it. */
  readonly event: (name: string, key: string, data: Schema.Json) => Effect.Effect<void>
  /** Cancels a run, after running its compensations if it has any. */
  readonly cancel: (run: string) => Effect.Effect<void>
  /** Waits until the run is parked and waits at this path, or has ended. */
  readonly parked: (run: string, at: string) => Effect.Effect<void>
  /** Waits until a parked run can continue or has ended. */
  readonly awake: (run: string) => Effect.Effect<void>
  /** Waits for the end of the run. */
  readonly ended: (run: string) => Effect.Effect<JobEnd>
  /** Ends a run whose activation returned a result instead of writing it. */
  readonly end: (run: string, end: JobEnd) => Effect.Effect<void>
  readonly isEnded: (run: string) => boolean
  /** Whether the run waits for a worker with another definition. */
  readonly isHeld: (run: string) => boolean
  /** Waits until the run is held, because its records do not fit the definition of the worker. Returns why. */
  readonly held: (run: string) => Effect.Effect<string>
  /** Whether a worker can continue the run: it is not parked, or what it waits for has arrived. */
  readonly isAwake: (run: string) => boolean
  readonly entries: (run: string) => ReadonlyArray<JournalEntry>
  readonly chunks: (run: string) => ReadonlyArray<unknown>
}

interface MemoryRun {
  readonly id: string
  readonly entries: Array<JournalEntry>
  readonly byKey: Map<string, JournalEntry>
  readonly settled: Map<string, JournalEntry>
  /** Waits for events that have not arrived. */
  readonly waits: Map<string, { readonly name: string; readonly key: string }>
  /** What runs for a path: a timer or a job. */
  readonly fibers: Map<Fiber.Fiber<void>, string>
  readonly chunks: Array<unknown>
  readonly end: Deferred.Deferred<JobEnd>
  attempt: number
  undo: boolean
  undoing: boolean
  ended: boolean
  parked: { readonly seen: number; readonly wakeAfter: number } | undefined
  /** The definition that the run follows. */
  definition: DefinitionRef | undefined
  held: string | undefined
  /** Completed at the next change. */
  changed: Deferred.Deferred<void>
}

const decodeJson = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))
const toJson = (value: unknown): Schema.Json => decodeJson(JSON.stringify(value) ?? "null")
const isSpawn = Schema.is(SpawnBody)
const isSleep = Schema.is(SleepBody)
const isWait = Schema.is(WaitBody)

const NO_PLATFORM = "This run is in memory, without a platform to run jobs. Start it with `stint dev`."

/** A journal that lives as long as the scope. */
export const make = Effect.fnUntraced(
  function*(options: MemoryOptions = {}): Effect.fn.Return<MemoryJournal, never, Scope.Scope> {
    const scope = yield* Effect.scope
    const clock = yield* Clock.Clock
    const runs = new Map<string, MemoryRun>()
    const mailbox: Array<{ readonly name: string; readonly key: string; readonly data: Schema.Json }> = []
    const spawn = options.spawn ?? (() => Effect.succeed<JobEnd>({ status: "FAILED", error: NO_PLATFORM }))

    const runOf = (id: string): MemoryRun => {
      const known = runs.get(id)
      if (known !== undefined) return known
      const run: MemoryRun = {
        id,
        entries: [],
        byKey: new Map(),
        settled: new Map(),
        waits: new Map(),
        fibers: new Map(),
        chunks: [],
        end: Deferred.makeUnsafe(),
        attempt: 0,
        undo: false,
        undoing: false,
        ended: false,
        parked: undefined,
        definition: undefined,
        held: undefined,
        changed: Deferred.makeUnsafe()
      }
      runs.set(id, run)
      return run
    }

    const notify = (run: MemoryRun): void => {
      const { changed } = run
      run.changed = Deferred.makeUnsafe()
      Deferred.doneUnsafe(changed, Effect.void)
    }

    /** Stores an entry. Returns the entry that is stored at its path. */
    const store = (run: MemoryRun, record: Omit<JournalEntry, "n" | "at">): JournalEntry => {
      const key = `${record.kind} ${record.path}`
      const known = (SETTLING_KINDS.has(record.kind) ? run.settled.get(record.path) : undefined) ?? run.byKey.get(key)
      if (known !== undefined) return known
      const entry: JournalEntry = { ...record, n: run.entries.length + 1, at: clock.currentTimeMillisUnsafe() }
      run.entries.push(entry)
      run.byKey.set(key, entry)
      if (SETTLING_KINDS.has(entry.kind)) run.settled.set(entry.path, entry)
      return entry
    }

    /** Whether a parked run can continue now. */
    const wakes = (run: MemoryRun): boolean => {
      if (run.parked === undefined) return true
      if (run.undoing || run.ended) return true
      const { seen, wakeAfter } = run.parked
      const arrived = run.entries.filter(({ kind, n }) => n > seen && SETTLING_KINDS.has(kind))
      return arrived.length >= wakeAfter ||
        arrived.some(({ body, kind }) =>
          kind === "end" && (typeof body !== "object" || !JSON.stringify(body).includes("COMPLETED"))
        )
    }

    const settle = (run: MemoryRun, entry: Omit<JournalEntry, "n" | "at">): void => {
      if (run.ended) return
      store(run, entry)
      run.waits.delete(entry.path)
      notify(run)
    }

    const background = (run: MemoryRun, path: string, work: Effect.Effect<void>) =>
      Effect.map(Effect.forkIn(work, scope), (fiber) => {
        run.fibers.set(fiber, path)
        fiber.addObserver(() => void run.fibers.delete(fiber))
      })

    const timer = (run: MemoryRun, path: string, ms: number, body: Schema.Json) =>
      background(run, path, Effect.andThen(Effect.sleep(ms), Effect.sync(() => settle(run, { path, kind: "end", body }))))

    const end = Effect.fnUntraced(function*(run: MemoryRun, result: JobEnd) {
      if (run.ended) return
      run.ended = true
      Deferred.doneUnsafe(run.end, Effect.succeed(result))
      notify(run)
      yield* Fiber.interruptAll([...run.fibers.keys()])
    })

    /** Stores a worker's record, and starts the timer or job that it opens. */
    const ask = Effect.fnUntraced(function*(run: MemoryRun, { body, kind, path }: JournalRecord) {
      const opens = kind === "sleep" || kind === "wait" || kind === "spawn"
      const known = run.byKey.get(`${kind} ${path}`) ?? (opens ? run.settled.get(path) : undefined)
      if (known !== undefined) return known
      const until = (ms: number | undefined) => ms === undefined ? {} : { until: clock.currentTimeMillisUnsafe() + ms }
      if (kind === "sleep" && isSleep(body)) {
        const ms = "ms" in body ? body.ms : body.until - clock.currentTimeMillisUnsafe()
        const entry = store(run, { path, kind, body: until(ms) })
        yield* timer(run, path, ms, {})
        return entry
      }
      if (kind === "wait" && isWait(body)) {
        const { key, name, timeoutMs } = body
        const entry = store(run, { path, kind, body: { name, key, ...until(timeoutMs) } })
        const index = mailbox.findIndex((event) => event.name === name && event.key === key)
        const [event] = index < 0 ? [] : mailbox.splice(index, 1)
        if (event !== undefined) store(run, { path, kind: "event", body: event.data })
        else {
          run.waits.set(path, { name, key })
          if (timeoutMs !== undefined) yield* timer(run, path, timeoutMs, { status: "TIMED_OUT" })
        }
        return entry
      }
      if (kind === "spawn" && isSpawn(body)) {
        const { endpoint, input, timeoutMs } = body
        const job = `${run.id}/${path}`
        const entry = store(run, { path, kind, body: { endpoint, job, ...until(timeoutMs) } })
        const child = Effect.exit(spawn({ id: job, endpoint, input: toJson(input) })).pipe(
          Effect.map((exit): JobEnd => Exit.isSuccess(exit) ? exit.value : { status: "FAILED", error: String(exit.cause) }),
          Effect.map((ended) => toJson({ ...ended, job }))
        )
        const limited = timeoutMs === undefined ? child : Effect.timeoutOrElse(child, {
          duration: timeoutMs,
          orElse: () => Effect.succeed<Schema.Json>({ status: "TIMED_OUT" })
        })
        yield* background(run, path, Effect.map(limited, (ended) => settle(run, { path, kind: "end", body: ended })))
        return entry
      }
      return store(run, { path, kind, ...(body === undefined ? {} : { body: toJson(body) }) })
    })

    const answerOf = (run: MemoryRun, state: RunAnswer["state"], entries: ReadonlyArray<JournalEntry>): RunAnswer => ({
      run: run.id,
      state,
      n: run.entries.length,
      entries,
      phase: run.undoing ? "undoing" : "doing",
      chunks: run.chunks.length
    })

    const after = (run: MemoryRun, n: number) => run.entries.filter((entry) => entry.n > n)

    const park = Effect.fnUntraced(function*(run: MemoryRun, { seen, wakeAfter = 1 }: NonNullable<RunWrite["park"]>) {
      if (after(run, seen).length > 0 || run.ended) return answerOf(run, run.ended ? "ended" : "running", after(run, seen))
      run.parked = { seen, wakeAfter }
      notify(run)
      if (options.parks === true) return answerOf(run, "parked", [])
      while (!wakes(run)) yield* Deferred.await(run.changed)
      run.parked = undefined
      return answerOf(run, run.ended ? "ended" : "running", after(run, seen))
    })

    /** Whether the run follows the worker's definition from now on. Otherwise it is held. */
    const follows = (run: MemoryRun, definition: DefinitionRef): boolean => {
      const own = run.definition
      run.held = own === undefined || own.hash === definition.hash
        ? undefined
        : incompatibility(run.entries, own.graph, definition.graph)
      notify(run)
      if (run.held === undefined) run.definition = definition
      return run.held === undefined
    }

    const apply = Effect.fnUntraced(function*(write: RunWrite, definition: DefinitionRef) {
      const run = runOf(write.run)
      if (run.ended) return answerOf(run, "ended", [])
      if (write.attempt < run.attempt) return answerOf(run, "lost", [])
      run.attempt = write.attempt
      if (write.start !== undefined) {
        if (!follows(run, definition)) {
          return { ...answerOf(run, "held", []), ...(run.held === undefined ? {} : { cause: run.held }) }
        }
        run.undo = write.start.undo ?? false
        run.parked = undefined
      }
      const answers = new Map<number, JournalEntry>()
      for (const record of write.records ?? []) {
        const count = run.entries.length
        const entry = yield* ask(run, record)
        if (run.entries.length === count || record.kind === "spawn" || record.kind === "sleep" || record.kind === "wait") {
          answers.set(entry.n, entry)
        }
      }
      if (write.finish !== undefined) {
        const { finish } = write
        yield* end(
          run,
          "error" in finish
            ? { status: "FAILED", error: finish.error }
            : "cancelled" in finish
            ? { status: "CANCELLED" }
            : { status: "COMPLETED", ...(finish.output === undefined ? {} : { output: toJson(finish.output) }) }
        )
        return answerOf(run, "ended", [])
      }
      if (write.park !== undefined) return yield* park(run, write.park)
      if (write.after !== undefined) { for (const entry of after(run, write.after)) answers.set(entry.n, entry) }
      return answerOf(run, "running", [...answers.values()].sort((a, b) => a.n - b.n))
    })

    /** Whether the run waits at the path, or at one of its attempts. */
    const isOpen = (run: MemoryRun, at: string): boolean =>
      run.entries.some(({ kind, path }) =>
        (kind === "spawn" || kind === "sleep" || kind === "wait") && (path === at || path.startsWith(`${at}~`)) &&
        !run.settled.has(path)
      )

    const { around } = options
    const until = (id: string, condition: (run: MemoryRun) => boolean) =>
      Effect.suspend(() => {
        const run = runOf(id)
        const loop: Effect.Effect<void> = Effect.suspend(() =>
          condition(run) ? Effect.void : Effect.flatMap(Deferred.await(run.changed), () => loop)
        )
        return loop
      })

    return {
      journal: {
        write: (write, definition) =>
          around === undefined ? apply(write, definition) : Effect.andThen(
            around(write, "before"),
            Effect.tap(Effect.uninterruptible(apply(write, definition)), () => around(write, "after"))
          ),
        announce: undefined,
        chunk: (job, chunk) =>
          Effect.sync(() => {
            runOf(job.id).chunks.push(chunk)
          }),
        finishes: true
      },
      event: (name, key, data) =>
        Effect.sync(() => {
          for (const run of runs.values()) {
            for (const [path, wait] of run.waits) {
              if (wait.name !== name || wait.key !== key || run.ended) continue
              settle(run, { path, kind: "event", body: data })
              return
            }
          }
          mailbox.push({ name, key, data })
        }),
      cancel: (id) =>
        Effect.suspend(() => {
          const run = runOf(id)
          if (!run.undo) return end(run, { status: "CANCELLED" })
          for (const { kind, path } of [...run.entries]) {
            if (isCompensation(path)) continue
            if (kind === "spawn" || kind === "sleep" || kind === "wait") {
              settle(run, { path, kind: "end", body: { status: "CANCELLED" } })
            }
          }
          settle(run, { path: CANCEL_PATH, kind: "event" })
          run.undoing = true
          notify(run)
          return Fiber.interruptAll([...run.fibers].flatMap(([fiber, path]) => isCompensation(path) ? [] : [fiber]))
        }),
      parked: (id, at) => until(id, (run) => run.ended || (run.parked !== undefined && !wakes(run) && isOpen(run, at))),
      awake: (id) => until(id, (run) => wakes(run)),
      ended: (id) => Effect.suspend(() => Deferred.await(runOf(id).end)),
      end: (id, result) => Effect.suspend(() => end(runOf(id), result)),
      isEnded: (id) => runOf(id).ended,
      isHeld: (id) => runOf(id).held !== undefined,
      held: (id) => Effect.map(until(id, ({ held }) => held !== undefined), () => runOf(id).held ?? ""),
      isAwake: (id) => wakes(runOf(id)),
      entries: (id) => runOf(id).entries,
      chunks: (id) => runOf(id).chunks
    }
  }
)
