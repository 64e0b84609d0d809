/**
 * The open runs of a pipeline: how many follow each definition, and how a new definition would affect them. Read-only.
 */
import { changes, met, type NodeChange } from "@stint/contract/DefinitionFit"
import type { ComparedNode, DefinitionComparison, DefinitionList } from "@stint/contract/Definitions"
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { PipelineGraph } from "@stint/contract/RunJournal"
import type { RunQueue } from "@stint/queue/RunQueue"
import { comparable, type RunEntry, type RunRecord } from "@stint/store/RunMachine"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** The maximum number of open runs that one request reads. */
const MOST_RUNS = 10_000

/** The maximum number of definitions in a list. */
const MOST_DEFINITIONS = 100

/** The number of runs that are read at a time. */
const RUNS = 500

/** The number of entries that are read at a time. */
const ENTRIES = 100

type Runs = RunQueue["Service"]

const decodeGraph = Schema.decodeUnknownSync(Schema.fromJsonString(PipelineGraph))

/** The open runs. `more`: there are more. */
const openRuns = Effect.fnUntraced(function*(runs: Runs, endpoint: EndpointId) {
  const found: Array<RunRecord> = []
  let after: JobId | undefined
  while (found.length < MOST_RUNS) {
    const page = yield* runs.openRuns(endpoint, after, RUNS)
    found.push(...page)
    after = page.at(-1)?.run
    if (page.length < RUNS) return { found, more: false }
  }
  return { found, more: true }
})

const moreJson = (more: boolean): { readonly more?: true } => more ? { more } : {}

/** The definitions of an endpoint, with the open runs of each. */
export const list = Effect.fnUntraced(function*(runs: Runs, endpoint: EndpointId) {
  const definitions = yield* runs.definitions(endpoint, MOST_DEFINITIONS)
  const { found, more } = definitions.length === 0 ? { found: [], more: false } : yield* openRuns(runs, endpoint)
  return {
    definitions: definitions.map(({ at, hash }) => {
      const own = found.filter(({ definition }) => definition === hash)
      return { hash, definedAt: at, open: own.length, held: own.filter(({ held }) => held !== null).length }
    }),
    ...moreJson(more)
  } satisfies DefinitionList
})

/** All entries of a run. */
const entriesOf = Effect.fnUntraced(function*(runs: Runs, { endpoint, run }: RunRecord) {
  const entries: Array<Pick<RunEntry, "path" | "kind" | "body">> = []
  let last = 0
  while (true) {
    const page = yield* runs.entries(endpoint, run, last, ENTRIES)
    // Outputs may be large, and only choices are compared.
    entries.push(...page.map(({ body, kind, path }) => ({ path, kind, body: kind === "choice" ? body : null })))
    last = page.at(-1)?.n ?? last
    if (page.length < ENTRIES) return entries.map(comparable)
  }
})

/** Computes how a definition would affect the open runs. */
export const compare = Effect.fnUntraced(function*(runs: Runs, endpoint: EndpointId, graph: PipelineGraph) {
  const { found, more } = yield* openRuns(runs, endpoint)
  const nodes = new Map<string, ComparedNode>()
  const changed = new Map<string, ReadonlyArray<NodeChange>>()
  const known = new Set<string>()
  let waiting = 0
  for (const run of found) {
    const { definition } = run
    if (!changed.has(definition)) {
      const text = yield* runs.definition(endpoint, definition)
      const own = text === undefined ? { nodes: [] } : decodeGraph(text)
      for (const { address } of own.nodes) known.add(address)
      const differences = changes(own, graph)
      changed.set(definition, differences)
      for (const one of differences) nodes.set(`${definition} ${one.node}`, { definition, waiting: 0, ...one })
    }
    const differences = changed.get(definition) ?? []
    if (differences.length === 0) continue
    const blocking = met(yield* entriesOf(runs, run), differences)
    if (blocking.length > 0) waiting++
    for (const one of blocking) {
      const key = `${definition} ${one.node}`
      const before = nodes.get(key)
      nodes.set(key, { definition, ...one, waiting: (before?.waiting ?? 0) + 1, example: before?.example ?? run.run })
    }
  }
  return {
    open: found.length,
    continuing: found.length - waiting,
    waiting,
    nodes: [...nodes.values()],
    added: found.length === 0 ? [] : graph.nodes.map(({ address }) => address).filter((address) => !known.has(address)),
    ...moreJson(more)
  } satisfies DefinitionComparison
})
