/**
 * The sessions of the console that ended before their time: by a logout, or because their key was rejected.
 *
 * A cookie contains its session, so a copy of it would survive the logout. Each node therefore remembers the ids of these sessions until they would
 * have ended anyway, and reports them to the other nodes with its heartbeat, also those that it learned from others. A logout applies to all nodes
 * within two seconds, and survives the restart of a node as long as another node runs. An id is no secret: a cookie cannot be made from it.
 */
import { Nodes, type Reports } from "@stint/store/Nodes"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** The maximum number of logouts in memory. Beyond it, all sessions end that are not younger than the session of the oldest logout. */
export const MAX_ENDED = 10_000

/** The maximum number of logouts in a report: the latest ones. */
export const MAX_REPORTED = 500

/**
 * How long a session is ignored after a 401. An open page then does not count as a client that tries wrong keys. Not longer, because a node does not
 * know a new key for some seconds.
 */
const REJECTED_MILLIS = 60_000

const TOPIC = "sessions"

/** The id of a session, and when it would have ended. Milliseconds since 1970. */
const Ended = Schema.Tuple([Schema.String, Schema.Finite])

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Array(Ended)))

/** A session, as far as its end is concerned. */
export interface Session {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}

/** The sessions that ended early, at this node and the others. */
export const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
  /** The id of each session, and until when it is remembered. */
  const ended = new Map<string, number>()
  const rejected = new Map<string, number>()
  /** Sessions that end no later than this have ended. */
  let allUntil = 0

  /** Adds an id. Returns the end of the one that had to be forgotten, if there is any. */
  const remember = (ids: Map<string, number>, id: string, until: number): number | undefined => {
    ids.set(id, until)
    if (ids.size <= MAX_ENDED) return undefined
    const now = clock.currentTimeMillisUnsafe()
    for (const [old, end] of ids) if (end <= now) ids.delete(old)
    const [oldest] = ids
    if (ids.size <= MAX_ENDED || oldest === undefined) return undefined
    ids.delete(oldest[0])
    return oldest[1]
  }

  const end = (id: string, expiresAt: number): void => {
    if (!ended.has(id)) allUntil = Math.max(allUntil, remember(ended, id, expiresAt) ?? 0)
  }

  const report = (): string => {
    const now = clock.currentTimeMillisUnsafe()
    const entries = [...ended].slice(-MAX_REPORTED).filter(([, until]) => until > now)
    return entries.length === 0 ? "" : JSON.stringify(entries)
  }

  let read = new Map<string, string>()
  const receive = (reports: Reports): void => {
    const now = clock.currentTimeMillisUnsafe()
    for (const [node, text] of reports) {
      if (read.get(node) === text) continue
      for (const [id, expiresAt] of Option.getOrElse(decode(text), () => [])) if (expiresAt > now) end(id, expiresAt)
    }
    read = new Map(reports)
  }
  if (nodes !== undefined) {
    nodes.setReport(TOPIC, report, receive)
    // The first heartbeat was before this.
    receive(nodes.reports(TOPIC))
  }

  return {
    /** Whether the session has ended early. */
    has: ({ expiresAt, id }: Session): boolean =>
      expiresAt <= allUntil || ended.has(id) || (rejected.get(id) ?? 0) > clock.currentTimeMillisUnsafe(),
    /** Ends a session at every node. */
    end: ({ expiresAt, id }: Session): void => end(id, expiresAt),
    /** Ignores a session for a minute, at this node. */
    reject: ({ id }: Session): void => void remember(rejected, id, clock.currentTimeMillisUnsafe() + REJECTED_MILLIS)
  }
})
