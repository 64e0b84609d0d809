/**
 * Several queues over one store in one process, which tell each other where to look (`Nodes`), as the nodes of a platform do.
 */
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobStore } from "@stint/store/JobStore"
import { Nodes, type Receive, type Reports } from "@stint/store/Nodes"
import type { StoreError } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Scenario from "./Scenario.ts"

/** The oldest node, beside others of which it hears nothing, except for what a test replaces. */
export const stub = (replaced: Partial<Nodes["Service"]> = {}): Nodes["Service"] =>
  Nodes.of({
    name: "node 1",
    hasOthers: () => true,
    isOldest: () => true,
    publish: () => {},
    publishAll: () => {},
    subscribe: () => {},
    owns: () => true,
    leave: Effect.void,
    setReport: () => {},
    reports: () => new Map(),
    ...replaced
  })

/** The hints between nodes. */
export interface Network {
  /** A new node, the youngest one. It has left when its `leave` has run. */
  readonly join: () => Nodes["Service"]
  /** `lost`: hints do not arrive. */
  readonly state: { lost: boolean }
  /** Hints arrive again, and every node learns that some may be missing. */
  readonly restore: () => void
  /** Every node receives the reports of the others, as after a heartbeat. */
  readonly beat: () => void
}

/** A network without nodes. */
export const make = (): Network => {
  interface Member {
    readonly name: string
    readonly receivers: Map<string, Array<Receive>>
    readonly topics: Map<string, { readonly report: () => string; readonly receive: ((reports: Reports) => void) | undefined }>
  }
  const members: Array<Member> = []
  const state = { lost: false }
  let joined = 0
  const readAgain = () => {
    for (const { receivers } of members) for (const all of receivers.values()) for (const receive of all) receive(undefined)
  }
  const reportsFor = (own: Member, textOf: (other: Member) => string | undefined): Reports =>
    new Map(members.flatMap((other) => {
      const text = other === own ? undefined : textOf(other)
      return text === undefined || text === "" ? [] : [[other.name, text]]
    }))
  const join = (): Nodes["Service"] => {
    const own: Member = { name: `node ${++joined}`, receivers: new Map(), topics: new Map() }
    members.push(own)
    return Nodes.of({
      name: own.name,
      hasOthers: () => members.length > 1,
      isOldest: () => members[0] === own,
      publish: (topic, key, count = 1) => {
        if (state.lost) return
        for (const other of members) {
          if (other !== own) { for (const receive of other.receivers.get(topic) ?? []) receive({ key, count }) }
        }
      },
      publishAll: () => {
        if (!state.lost) readAgain()
      },
      subscribe: (topic, receive) => void own.receivers.set(topic, [...own.receivers.get(topic) ?? [], receive]),
      owns: () => members[0] === own,
      leave: Effect.sync(() => {
        if (!members.includes(own)) return
        members.splice(members.indexOf(own), 1)
        // It may have changed a job without a hint.
        readAgain()
      }),
      setReport: (topic, report, receive) => void own.topics.set(topic, { report, receive }),
      reports: (topic) => reportsFor(own, (other) => other.topics.get(topic)?.report())
    })
  }
  const restore = () => {
    state.lost = false
    readAgain()
  }
  const beat = () => {
    const sent = new Map(members.map((member) => [
      member,
      new Map([...member.topics].map(([topic, { report }]) => [topic, report()]))
    ]))
    for (const member of members) {
      for (const [topic, { receive }] of member.topics) receive?.(reportsFor(member, (other) => sent.get(other)?.get(topic)))
    }
  }
  return { join, state, restore, beat }
}

/** A scenario over the queue of one node. */
export interface NodeScenario extends Scenario.Scenario {
  /** The node's own registry of workers. */
  readonly registry: WorkerRegistry.WorkerRegistry["Service"]
}

/** A scenario over the queue of one node, which lives as long as the scope. */
export const queueOf = Effect.fnUntraced(function*(
  stores: Context.Context<JobStore>,
  nodes: Nodes["Service"],
  settings: Parameters<typeof Scenario.make>[0] = {}
): Effect.fn.Return<NodeScenario, StoreError, Scope.Scope> {
  const layer = JobQueue.layer.pipe(
    Layer.provideMerge(WorkerRegistry.layer),
    Layer.provideMerge(Layer.succeedContext(Context.add(stores, Nodes, nodes)))
  )
  const context = yield* Layer.build(Layer.fresh(layer))
  const scenario = yield* Effect.provide(Scenario.make(settings), context)
  return { ...scenario, registry: Context.get(context, WorkerRegistry.WorkerRegistry) }
})
