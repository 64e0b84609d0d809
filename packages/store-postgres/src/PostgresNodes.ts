/**
 * The nodes of a database: who is alive, and hints between them.
 *
 * ```
 *   every second    write the heartbeat with what this node reports,
 *                   read the live nodes with what they report,
 *                   and the versions of lists (Heartbeat.ts)            one statement, on a connection of its own
 *   publish         NOTIFY, at once, but only once in 5 ms, with all hints since
 *   notification    wake the waiters of the named keys
 *   every 10 min    the oldest node removes the rows of ended nodes     EndedNodes.ts
 *   new connection, node gone or added, every minute                    wake all waiters: hints may have been lost
 * ```
 *
 * A node is alive while its heartbeat is younger than {@link DEAD_AFTER}: after kill -9, the others take over its duties within 4 s. Each
 * endpoint belongs to the live node for which a hash of both is highest (rendezvous hashing), so a node that joins or leaves moves only the endpoints
 * that it gains or loses.
 *
 * Each heartbeat compares the clock of this machine with the database's, and a difference is logged once.
 *
 * NOTIFY takes a lock that all commits with notifications share, so hints are never part of the transactions of jobs.
 */
import { Nodes, type Receive, type Reports } from "@stint/store/Nodes"
import * as OutageLog from "@stint/store/OutageLog"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { hash } from "node:crypto"
import type { Connection } from "./Connection.ts"
import * as EndedNodes from "./EndedNodes.ts"
import { BEATS_FOR_KEYS, versionOf } from "./Heartbeat.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

/** How long after its last heartbeat a node counts as dead. Three heartbeats, so that a single late one causes no takeover. */
export const DEAD_AFTER = "3 seconds"

/** The number of connections of a node, including that of this module (PostgresDatabase.ts). */
export const CONNECTIONS = 5

const HEARTBEAT = "1 second"

/** How often the rows of ended nodes are removed. */
const FOLD_EVERY = "10 minutes"

/** How many heartbeats pass until all waiters read again, in case a hint was lost. */
const BEATS_UNTIL_LOOK = 60

/** A heartbeat without a response for this time fails, and its connection is closed. Milliseconds. */
const DEADLINE_MILLIS = 2_500

/** How long hints are gathered after others were sent. The first ones are sent at once. Milliseconds. */
const GATHER_MILLIS = 5

/** PostgreSQL limits the payload of a notification to 8,000 bytes. Hints are ASCII except for the names of workers. */
const MAX_PAYLOAD_BYTES = 7_500

/** If there are more hints than this at once, all waiters of the other nodes read again instead. */
const MAX_HINTS = 5_000

/** A clock that differs from the database's by more than this is logged. Milliseconds. As in `stint doctor`. */
const MAX_SKEW_MILLIS = 1_000

const CHANNEL = "stint_hints"

/** Nodes of different versions read it, so only optional members may be added. */
const Payload = Schema.fromJsonString(Schema.Struct({
  node: Schema.Int,
  /** Topic, key, count. Missing: hints were lost. */
  hints: Schema.optionalKey(Schema.Array(Schema.Tuple([Schema.String, Schema.String, Schema.Int])))
}))
const decodePayload = Schema.decodeUnknownOption(Payload)
const decodeBeat = Schema.decodeUnknownSync(Schema.NonEmptyArray(Schema.Union([
  Schema.Tuple([
    Schema.Finite,
    Schema.Int,
    Schema.NullOr(Schema.String),
    Schema.Boolean,
    Schema.String,
    Schema.String,
    Schema.NullOr(Schema.String)
  ]),
  // There is no other node.
  Schema.Tuple([Schema.Finite, Schema.Null, Schema.Null, Schema.Null, Schema.String, Schema.String, Schema.NullOr(Schema.String)])
])))

type Hint = readonly [topic: string, key: string, count: number]

/** What this node reports about a topic, and what receives the reports of the others. */
interface Topic {
  readonly report: () => string
  readonly receive: ((reports: Reports) => void) | undefined
}

const NO_REPORTS: Reports = new Map()

/** The text of a heartbeat: a line `TOPIC REPORT` for each report. Other versions ignore topics that they do not know. */
const reportOf = (topics: ReadonlyMap<string, Topic>): string =>
  [...topics].flatMap(([topic, { report }]) => {
    const text = report()
    return text === "" ? [] : [`${topic} ${text}`]
  }).join("\n")

/** The reports in the texts of other nodes, by topic. */
const reportsIn = (texts: ReadonlyArray<readonly [node: string, text: string]>): ReadonlyMap<string, Reports> => {
  const reports = new Map<string, Map<string, string>>()
  for (const [node, text] of texts) {
    for (const line of text.split("\n")) {
      const end = line.indexOf(" ")
      const topic = line.slice(0, end)
      const known = reports.get(topic) ?? new Map<string, string>()
      reports.set(topic, known.set(node, line.slice(end + 1)))
    }
  }
  return reports
}

/** Writes the heartbeat. Returns the time of the database and the versions of the lists in each row, and the other live nodes. `$6`: also of the keys. */
const BEAT = `WITH beat AS (
    INSERT INTO stint.nodes (no, started_at, seen_at, report, leaving, version, clock) VALUES ($1, now(), now(), $2, $3, $4, $5)
    ON CONFLICT (no) DO UPDATE SET seen_at = now(), report = excluded.report, leaving = excluded.leaving, version = excluded.version,
      clock = excluded.clock
    RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS time
  )
  SELECT beat.time, other.no, other.report, other.leaving, ${versionOf("endpoints")}, ${versionOf("secrets")},
    CASE WHEN $6 THEN ${versionOf("keys")} END FROM beat
  LEFT JOIN stint.nodes other ON other.no <> $1 AND other.seen_at > now() - interval '${DEAD_AFTER}' ORDER BY other.no`

/** The payloads for some hints, each within the limit. */
const payloadsOf = (node: number, hints: ReadonlyArray<Hint>): ReadonlyArray<string> => {
  const payloads: Array<string> = []
  let part: Array<string> = []
  let size = 0
  const close = () => {
    if (part.length > 0) payloads.push(`{"node":${node},"hints":[${part.join(",")}]}`)
    part = []
    size = 0
  }
  for (const hint of hints) {
    const text = JSON.stringify(hint)
    const bytes = Buffer.byteLength(text) + 1
    if (size + bytes > MAX_PAYLOAD_BYTES) close()
    part.push(text)
    size += bytes
  }
  close()
  return payloads
}

/**
 * How far a clock is ahead of the database's: at least `from`, at most `to`. The database read its own clock at some time between the two times of
 * this machine.
 */
interface Skew {
  readonly from: number
  readonly to: number
}

const isWrong = ({ from, to }: Skew): boolean => from > MAX_SKEW_MILLIS || to < -MAX_SKEW_MILLIS

const isRight = ({ from, to }: Skew): boolean => from >= -MAX_SKEW_MILLIS && to <= MAX_SKEW_MILLIS

/** The weight of a node for an endpoint. */
const weightOf = (node: number, endpoint: string): string => hash("sha1", `${node}\n${endpoint}`)

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  const { node } = db
  const clock = yield* Clock.Clock
  const receivers = new Map<string, Array<Receive>>()
  let others: ReadonlyArray<number> = []
  /** The other nodes that are not shutting down. */
  let staying: ReadonlyArray<number> = []
  const isOldest = () => others.every((other) => other > node)
  let leaving = false
  const topics = new Map<string, Topic>()
  let reports: ReadonlyMap<string, Reports> = new Map()
  const reportsOf = (topic: string): Reports => reports.get(topic) ?? NO_REPORTS
  let connection: Connection | undefined
  let beats = 0
  let pending = new Map<string, Hint>()
  let gathering = false
  /** When hints were sent last. */
  let flushedAt = -Infinity
  /** Hints of this node were lost, so the other nodes must read everything. The next heartbeat says so. */
  let mustTell = false

  const wakeAll = () => {
    for (const all of receivers.values()) for (const receive of all) receive(undefined)
  }

  const receive = (text: string) => {
    const payload = Option.getOrUndefined(decodePayload(text))
    if (payload?.node === node) return
    if (payload?.hints === undefined) return wakeAll()
    for (const [topic, key, count] of payload.hints) {
      for (const one of receivers.get(topic) ?? []) one({ key, count })
    }
  }

  const notify = async (payloads: ReadonlyArray<string>) => {
    try {
      if (connection?.isOpen() !== true) throw new Error("not connected")
      await connection.query(`SELECT pg_notify('${CHANNEL}', one) FROM unnest($1::text[]) one`, [payloads])
    } catch {
      mustTell = true
    }
  }

  const flush = () => {
    gathering = false
    flushedAt = performance.now()
    const hints = [...pending.values()]
    pending = new Map()
    void notify(hints.length > MAX_HINTS ? [`{"node":${node}}`] : payloadsOf(node, hints))
  }

  const open = async (): Promise<Connection> => {
    const opened = await db.connect(DEADLINE_MILLIS)
    opened.onNotification(receive)
    opened.onEnd(() => {
      if (connection === opened) connection = undefined
    })
    try {
      // Losing a hint or a heartbeat in a server crash does no harm.
      await opened.execute(`SET synchronous_commit = off; LISTEN ${CHANNEL}`)
      return opened
    } catch (cause) {
      // The server may be a standby. The next heartbeat opens another connection.
      opened.destroy("the connection cannot listen")
      throw cause
    }
  }

  const beat = Effect.tryPromise({
    try: async (): Promise<Skew> => {
      const isNew = connection?.isOpen() !== true
      connection = connection?.isOpen() === true ? connection : await open()
      const before = clock.currentTimeMillisUnsafe()
      const sentAt = db.heartbeat.time()
      const values = [node, reportOf(topics), leaving, db.version ?? null, before, beats % BEATS_FOR_KEYS === 0]
      const rows = decodeBeat(await connection.query(BEAT, values))
      const after = clock.currentTimeMillisUnsafe()
      const [[time, , , , endpoints, secrets, keys]] = rows
      const live = rows.flatMap(([, no, text, isLeaving]) => no === null ? [] : [[no, text, isLeaving] as const])
      const known = others
      others = live.map(([no]) => no)
      staying = live.flatMap(([no, , isLeaving]) => isLeaving ? [] : [no])
      reports = reportsIn(live.flatMap(([no, text]) => text === null || text === "" ? [] : [[`node ${no}`, text] as const]))
      for (const [topic, { receive }] of topics) receive?.(reportsOf(topic))
      db.heartbeat.received(sentAt, { isOldest: isOldest(), versions: { endpoints, keys, secrets } })
      const changed = others.length !== known.length || others.some((no) => !known.includes(no))
      // A new node has missed the hints that were sent before this node knew it.
      if (changed || mustTell) {
        mustTell = false
        await notify([`{"node":${node}}`])
      }
      beats += 1
      if (isNew || changed || (others.length > 0 && beats % BEATS_UNTIL_LOOK === 0)) wakeAll()
      return { from: before - time, to: after - time }
    },
    catch: (cause) => cause instanceof Error ? cause.message : String(cause)
  })

  const outage = OutageLog.make({
    onFailure: (problem) =>
      Effect.logWarning(
        `The other nodes cannot be reached through ${db.name}: ${problem}. Waiting calls may notice changes later.`
      )
  })
  const wrongClock = OutageLog.make({
    onFailure: (problem) =>
      Effect.logWarning(
        `The clock of this machine is ${problem} that of ${db.name}. Leases and timeouts use the clock of the node that writes them, so jobs may ` +
          "run twice or wait too long. Synchronize the clocks of all nodes (NTP)."
      ),
    onRecovery: Effect.logInfo(`The clock of this machine agrees with that of ${db.name} again.`)
  })
  const checkClock = (skew: Skew) => {
    if (isRight(skew)) return wrongClock.succeeded
    // A slow heartbeat may leave it open.
    if (!isWrong(skew)) return Effect.void
    const seconds = (Math.abs(skew.from + skew.to) / 2_000).toFixed(1)
    return wrongClock.failed(`${seconds} s ${skew.from > 0 ? "ahead of" : "behind"}`)
  }
  const watched = Effect.matchEffect(beat, {
    onSuccess: (skew) => Effect.andThen(outage.succeeded, checkClock(skew)),
    onFailure: (problem) => {
      mustTell = true
      return outage.failed(problem)
    }
  })

  yield* Effect.addFinalizer(() =>
    Effect.promise(async () => {
      try {
        // Lets the other nodes take over at once, instead of waiting until this node counts as dead.
        await connection?.query(`UPDATE stint.nodes SET seen_at = '-infinity', report = NULL WHERE no = $1`, [node])
      } catch {
        // The other nodes notice the shutdown even without this.
      }
      await connection?.end()
    })
  )
  yield* watched
  yield* Effect.forkScoped(Effect.repeat(watched, Schedule.spaced(HEARTBEAT)))

  const folds = OutageLog.make({
    onFailure: (problem) => Effect.logWarning(`The rows of ended nodes cannot be removed: ${problem}`)
  })
  const fold = Effect.suspend(() => isOldest() ? folds.watch(db.write("remove ended nodes", EndedNodes.fold)) : Effect.void)
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(FOLD_EVERY), fold)))

  return Nodes.of({
    name: `node ${node}`,
    hasOthers: () => others.length > 0,
    isOldest,
    publish: (topic, key, count = 1) => {
      if (others.length === 0) return
      const id = `${topic}\n${key}`
      const known = pending.get(id)
      pending.set(id, [topic, key, Math.min(1_000_000, (known?.[2] ?? 0) + Math.min(count, 1_000_000))])
      if (gathering) return
      gathering = true
      const pause = flushedAt + GATHER_MILLIS - performance.now()
      // The commits of one turn are published together.
      if (pause > 0) setTimeout(flush, pause)
      else setImmediate(flush)
    },
    publishAll: () => {
      if (others.length > 0) mustTell = true
    },
    subscribe: (topic, receiver) => {
      receivers.set(topic, [...receivers.get(topic) ?? [], receiver])
    },
    owns: (endpoint) => {
      const mine = weightOf(node, endpoint)
      return !leaving && staying.every((other) => weightOf(other, endpoint) < mine)
    },
    leave: Effect.andThen(
      Effect.sync(() => {
        leaving = true
      }),
      watched
    ),
    setReport: (topic, report, receive) => void topics.set(topic, { report, receive }),
    reports: reportsOf
  })
})

/** The nodes of a database. */
export const layer: Layer.Layer<Nodes, never, PostgresDatabase> = Layer.effect(Nodes, make)
