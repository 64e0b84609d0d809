/**
 * The journal of a pipeline's runs: the messages of `run-journal` between the pipeline's worker and the platform
 * (docs/spec/pipelines.md#run-journal).
 *
 * ```
 *  worker                                     platform
 *    | GET  job-take/{worker}                    |   200 job: a run that begins or was woken
 *    | POST run-journal/{worker}                 |
 *    |   start, records, finish or park -------> |   stores all of it in one commit
 *    | <---- entries, state -------------------- |   with `park`: after an entry arrives, or after waitMs
 * ```
 *
 * A worker loads this module, so it contains only constants and small Schemas, and no HTTP code.
 */
import * as Schema from "effect/Schema"
import { Tags } from "../jobs/Tags.ts"

/** The maximum length of a path, in characters. */
export const MAX_PATH = 512

const NAME = "[A-Za-z_][A-Za-z0-9_-]{0,63}"

/** A part of a path: a name, indices, and suffixes for an attempt (`~2`) or the compensation (`~undo`) of the node. */
const SEGMENT = `${NAME}(?:\\[\\d{1,7}\\])*(?:~(?:undo|\\d{1,6}))*`

/**
 * The path of a node in a run: `list`, `thumbnail[3]`, `extras.cover`, `charge~2` (the second attempt), `charge~undo` (the compensation).
 */
export const RunPath = Schema.String.check(
  Schema.isMaxLength(MAX_PATH),
  Schema.isPattern(new RegExp(`^${SEGMENT}(?:\\.${SEGMENT})*$`), {
    message:
      "a path is names joined by \".\", each with optional indices and suffixes, such as \"thumbnail[3]\" or \"charge~undo\""
  })
)
export type RunPath = typeof RunPath.Type

/** Whether a path belongs to the compensation of a node. A cancel lets it continue. */
export const isCompensation = (path: string): boolean => /~undo(?:~|$)/.test(path)

/**
 * The kind of an entry.
 *
 * - `step`, `failed`: the output or the final failure of a node. They settle the path.
 * - `spawn`, `sleep`, `wait`: a child job, a timer, or a wait for an event. They open the path until the platform settles it.
 * - `event` ends a `wait`; `end` ends a `spawn` or a `sleep`, or a `wait` that timed out. The platform writes them, and they settle the path.
 * - `choice`: the branch taken, or the list of a `forEach`. `undo`: the compensation of the path is done. Neither settles the path.
 */
export const EntryKind = Schema.Literals(["step", "failed", "choice", "undo", "spawn", "sleep", "wait", "event", "end"])
export type EntryKind = typeof EntryKind.Type

/** The kinds that settle a path. The first one at a path wins. */
export const SETTLING_KINDS: ReadonlySet<EntryKind> = new Set<EntryKind>(["step", "failed", "event", "end"])

/** The kinds that a worker may record. */
const RecordKind = Schema.Literals(["step", "failed", "choice", "undo", "spawn", "sleep", "wait"])
type RecordKind = typeof RecordKind.Type

const millis = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))

/** The maximum time to live of a run, in milliseconds: ten years. */
export const MAX_RUN_MILLIS = 10 * 365 * 24 * 60 * 60 * 1000

/** The default time to live of a run, in milliseconds: one year. */
export const DEFAULT_RUN_MILLIS = 365 * 24 * 60 * 60 * 1000

const duration = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_RUN_MILLIS }))

/** The maximum length of the `input` of a record, in characters of its JSON text. */
export const MAX_STEP_INPUT = 4_096

/**
 * The input of a step that is not the output of other nodes: the value or, if it does not fit into {@link MAX_STEP_INPUT}, the beginning of its JSON
 * text.
 */
export const StepInput = Schema.Union([Schema.Struct({ value: Schema.Json }), Schema.Struct({ text: Schema.String })])
export type StepInput = typeof StepInput.Type

/** The highest priority of a child job. The lowest is its negative. */
export const MAX_PRIORITY = 1_000

/** The priority of a child job. */
export const ChildPriority = Schema.Int.check(Schema.isBetween({ minimum: -MAX_PRIORITY, maximum: MAX_PRIORITY }))

/** The body of a `spawn` record: the child job. */
export const SpawnBody = Schema.Struct({
  endpoint: Schema.String,
  input: Schema.Unknown,
  priority: Schema.optionalKey(ChildPriority),
  tags: Schema.optionalKey(Tags),
  executionTimeoutMs: Schema.optionalKey(duration),
  /** After this time the child is cancelled, and the path ends with TIMED_OUT. */
  timeoutMs: Schema.optionalKey(duration)
})

/** The body of a `sleep` record: a duration, or a time in milliseconds since 1970. */
export const SleepBody = Schema.Union([Schema.Struct({ ms: duration }), Schema.Struct({ until: millis })])

/** The maximum length of an event's name and of its key, in characters. */
const MAX_EVENT_NAME = 255

/** The name or key of an event. */
export const EventName = Schema.String.check(Schema.isMaxLength(MAX_EVENT_NAME))

/** The body of a `wait` record. */
export const WaitBody = Schema.Struct({
  name: EventName,
  key: EventName,
  /** After this time the path ends with TIMED_OUT. */
  timeoutMs: Schema.optionalKey(duration)
})

/** The body of a `failed` record. */
export const FailedBody = Schema.Struct({ error: Schema.String, attempts: Schema.optionalKey(Schema.Int) })

/** The body of an `end` entry. A timer's body has no members. */
export const EndBody = Schema.Struct({
  /** `TIMED_OUT` without `job`: a `wait` has timed out. */
  status: Schema.optionalKey(Schema.Literals(["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"])),
  job: Schema.optionalKey(Schema.String),
  endpoint: Schema.optionalKey(Schema.String),
  output: Schema.optionalKey(Schema.Json),
  error: Schema.optionalKey(Schema.String)
})
export type EndBody = typeof EndBody.Type

/** An entry that a worker records. */
export const JournalRecord = Schema.Struct({
  path: RunPath,
  kind: RecordKind,
  /** Absent: null. */
  body: Schema.optionalKey(Schema.Unknown),
  /** `step`, `failed` and `undo`: how long the recorded attempt ran, in milliseconds. */
  ms: Schema.optionalKey(millis),
  /** `step` and `failed`: a {@link StepInput}, in the first record of a step whose input is not the output of other nodes. */
  input: Schema.optionalKey(Schema.Unknown)
})
export type JournalRecord = typeof JournalRecord.Type

/** A stored entry. `n` counts the entries of a run from 1. `at`: when it was stored, in milliseconds since 1970. */
export const JournalEntry = Schema.Struct({
  path: Schema.String,
  kind: EntryKind,
  n: Schema.Int,
  at: Schema.Int,
  body: Schema.optionalKey(Schema.Json)
})
export type JournalEntry = typeof JournalEntry.Type

/** The hash of a definition: SHA-256, in hexadecimal. */
export const DefinitionHash = Schema.String.check(
  Schema.isPattern(/^[0-9a-f]{64}$/, { message: "a definition hash is a SHA-256 in 64 hexadecimal digits" })
)

/** A node of a pipeline's graph. Members that are not listed here are kept. */
export const GraphNode = Schema.Struct({
  /** The path without indices and suffixes (`nodeOf` of `NodeAddress.ts`). */
  address: Schema.String,
  kind: Schema.String,
  /** Identifies the schema of the node's output: a hash of its canonical JSON Schema. */
  output: Schema.optionalKey(Schema.String),
  endpoint: Schema.optionalKey(Schema.String),
  needs: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The names of a branch's parts. */
  parts: Schema.optionalKey(Schema.Array(Schema.String)),
  label: Schema.optionalKey(Schema.String)
})
export type GraphNode = typeof GraphNode.Type

/** A pipeline's graph. Its top-level nodes are listed in the order in which they run. */
export const PipelineGraph = Schema.Struct({
  name: Schema.String,
  nodes: Schema.Array(GraphNode),
  /** Identifies the schemas of a run's input and output, as `output` of a node does. */
  input: Schema.optionalKey(Schema.String),
  output: Schema.optionalKey(Schema.String)
})
export type PipelineGraph = typeof PipelineGraph.Type

/** The maximum number of runs in one request. */
export const MAX_JOURNAL_RUNS = 1_000

/** The maximum number of records of all runs in one request. */
export const MAX_JOURNAL_RECORDS = 10_000

/** How long a response may be held for an entry, in milliseconds. */
const MAX_JOURNAL_WAIT_MILLIS = 30_000

/** How a run ends: COMPLETED, FAILED, or CANCELLED after its compensations. */
export const RunFinish = Schema.Union([
  Schema.Struct({ error: Schema.String }),
  Schema.Struct({ cancelled: Schema.Literal(true) }),
  Schema.Struct({ output: Schema.optionalKey(Schema.Unknown) })
])

/** A worker's write to one run. */
export const RunWrite = Schema.Struct({
  run: Schema.String,
  /** The attempt of the taken job. */
  attempt: Schema.Int,
  leaseToken: Schema.optionalKey(Schema.String),
  /** Required in the first call of each activation, and only there. */
  start: Schema.optionalKey(Schema.Struct({
    definition: DefinitionHash,
    /** The maximum time to live of the run. Default: {@link DEFAULT_RUN_MILLIS}. */
    ttlMs: Schema.optionalKey(duration),
    /** The graph has compensations, so a cancel runs them instead of ending the run at once. */
    undo: Schema.optionalKey(Schema.Boolean)
  })),
  /** Return the entries with a higher number. 0: the whole journal. */
  after: Schema.optionalKey(Schema.Int),
  records: Schema.optionalKey(Schema.Array(JournalRecord)),
  park: Schema.optionalKey(Schema.Struct({
    /** The highest number of an entry that the worker knows. The run does not park if there are later ones. */
    seen: Schema.Int,
    /** Wake when this number of paths has been settled after `seen`. A failed child, a timer and a cancel wake at once. Default: 1. */
    wakeAfter: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000 }))),
    /** Wake no later than this time, in milliseconds since 1970. */
    until: Schema.optionalKey(millis)
  })),
  finish: Schema.optionalKey(RunFinish)
})
export type RunWrite = typeof RunWrite.Type

/** The body of `run-journal`. */
export const RunJournalRequest = Schema.Struct({
  definitions: Schema.optionalKey(Schema.Array(Schema.Struct({ hash: DefinitionHash, graph: Schema.Unknown }))),
  /** How long to hold the response for an entry of a run with `park`. Default: 0. */
  waitMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_JOURNAL_WAIT_MILLIS }))),
  runs: Schema.Array(RunWrite).check(Schema.isMaxLength(MAX_JOURNAL_RUNS))
})
export type RunJournalRequest = typeof RunJournalRequest.Type

/** The mode of a run: it runs its nodes or, after a cancel, their compensations. */
export const RunPhase = Schema.Literals(["doing", "undoing"])
export type RunPhase = typeof RunPhase.Type

/**
 * The state of a run after a write. `parked`: it occupies no worker. `held`: parked until a worker with a fitting definition starts. `ended`: the job
 * has ended. `lost`: the worker does not hold the lease, and nothing was stored. In each of these states, the worker drops the activation.
 */
export const RunState = Schema.Literals(["running", "parked", "ended", "lost", "held"])
export type RunState = typeof RunState.Type

/** The platform's response for one run. */
export const RunAnswer = Schema.Struct({
  run: Schema.String,
  state: RunState,
  /** The number of the run's last entry. */
  n: Schema.Int,
  /** In ascending order: the outcome of records that were not simply stored, and the requested entries. */
  entries: Schema.Array(JournalEntry),
  /** There are more entries than fit into one response: request them with `upTo` as `after`. */
  more: Schema.optionalKey(Schema.Literal(true)),
  /** With `more`: the response contains the requested entries up to this number. */
  upTo: Schema.optionalKey(Schema.Int),
  phase: RunPhase,
  /** The number of stored chunks of the run's stream. */
  chunks: Schema.Int,
  /** The graph of the definition is not stored, so this write was ignored. Send it again with `definitions`. */
  definition: Schema.optionalKey(Schema.Literal("unknown")),
  /** Why a run is `held` or `lost`. */
  cause: Schema.optionalKey(Schema.String)
})
export type RunAnswer = typeof RunAnswer.Type

/** The response of `run-journal`. `now`: the platform's time, in milliseconds since 1970. */
export const RunJournalResponse = Schema.Struct({ now: Schema.Int, runs: Schema.Array(RunAnswer) })
export type RunJournalResponse = typeof RunJournalResponse.Type
