/**
 * The nodes that share one store: platforms in front of the same database. The only user of a store does not provide this service.
 *
 * ```
 *   node A: a job changes --commit--> publish(topic, key) --coalesced--> node B: wakes its waiters for the key --> each reads the store again
 * ```
 *
 * A hint only says where to look. It may be lost, late or repeated, so no result depends on it. Waiters read the store again after every interruption
 * of the hints, when a node disappears, and every minute.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** The hint that a receiver gets; undefined: hints may have been lost, so every waiter must read again. */
export type Receive = (hint: { readonly key: string; readonly count: number } | undefined) => void

/** What each node reports to the others about a topic, by node name. */
export type Reports = ReadonlyMap<string, string>

export class Nodes extends Context.Service<Nodes, {
  /** The name of this node, for messages. */
  readonly name: string
  /** Whether other nodes are alive, as of the last heartbeat. */
  readonly hasOthers: () => boolean
  /** Whether no live node has started before this one. */
  readonly isOldest: () => boolean
  /**
   * Sends a hint to the other nodes, coalesced with other recent hints. The counts of equal keys add up. Costs nothing while this node is alone.
   */
  readonly publish: (topic: string, key: string, count?: number) => void
  /** Makes the waiters of the other nodes read again within seconds, because this node does not know what a failed write has changed. */
  readonly publishAll: () => void
  /** Receives the hints of other nodes. */
  readonly subscribe: (topic: string, receive: Receive) => void
  /**
   * Whether this node starts the workers of an endpoint. One live node is responsible for each endpoint. While nodes join or leave, two nodes or none
   * may consider themselves responsible for a few seconds.
   */
  readonly owns: (endpoint: string) => boolean
  /** This node shuts down. From now on, other nodes own its endpoints. It still sends and receives hints. */
  readonly leave: Effect.Effect<void>
  /**
   * Each heartbeat sends the text that `report` returns to the other nodes. It must be one line; an empty text is not sent. After each heartbeat,
   * `receive` gets the latest reports of the other live nodes. A node may miss a report, but not all reports of three seconds.
   */
  readonly setReport: (topic: string, report: () => string, receive?: (reports: Reports) => void) => void
  /** The latest reports of the other live nodes about a topic. */
  readonly reports: (topic: string) => Reports
}>()("@stint/store/Nodes") {}
