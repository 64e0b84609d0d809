/**
 * A definition's graph: what the platform stores, compares between versions, and draws.
 *
 * Its hash identifies the definition. It changes with the names, kinds and connections of the nodes, and with the Schemas of their outputs; it
 * does not change with the code of the steps.
 */
import type { GraphNode, PipelineGraph } from "@stint/contract/RunJournal"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import type { Definition, NamedNode, Node } from "./Definition.ts"
import type { DefinitionRef } from "./Journal.ts"

/** A node with the nodes inside it. */
interface GraphPart {
  readonly nodes: ReadonlyArray<GraphNode>
  /** The addresses of the nodes after which the next node begins. */
  readonly ends: ReadonlyArray<string>
}

/** JSON text with sorted keys, so that equal values have equal text. A JSON Schema's list of required fields is also sorted, because it is a set. */
const canonicalJson = (value: unknown): string =>
  JSON.stringify(value, (key, inner: unknown) => {
    if (Array.isArray(inner)) return key === "required" ? inner.map(String).sort((a, b) => a < b ? -1 : 1) : inner
    return typeof inner === "object" && inner !== null
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => a < b ? -1 : 1))
      : inner
  }) ?? "null"

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex")

/** Identifies a JSON value, regardless of the order of its keys. */
export const fingerprintOfJson = (value: unknown): string => sha256(canonicalJson(value)).slice(0, 16)

/** Identifies what a Schema writes to the journal: a hash of its canonical JSON Schema. */
export const fingerprint = (schema: Schema.Constraint): string =>
  fingerprintOfJson(Schema.toJsonSchemaDocument(Schema.toCodecJson(schema)))

const outputOf = (node: NamedNode): string | undefined => {
  switch (node.kind) {
    case "step":
    case "stream":
    case "run":
      return node.output === undefined ? undefined : fingerprint(node.output)
    case "forEach":
      return node.each.output === undefined ? undefined : fingerprint(node.each.output)
    case "waitFor":
      return fingerprint(node.event)
    case "all":
    case "branch":
    case "sleep":
      return undefined
  }
}

const endpointOf = (node: NamedNode): string | undefined =>
  node.kind === "run" ? node.target.name : node.kind === "forEach" && node.each.kind === "run" ? node.each.target.name : undefined

const partOf = (nodes: ReadonlyArray<Node>, prefix: string, before: ReadonlyArray<string>): GraphPart => {
  const found: Array<GraphNode> = []
  let needs = before
  for (const node of nodes) {
    if (node.kind === "select") continue
    const address = `${prefix}${node.name}`
    const output = outputOf(node)
    const endpoint = endpointOf(node)
    found.push({
      address,
      kind: node.kind,
      ...(output === undefined ? {} : { output }),
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(node.kind === "branch" ? { parts: node.parts.map(({ name }) => name) } : {}),
      ...(needs.length === 0 ? {} : { needs })
    })
    if (node.kind === "all" || node.kind === "branch") {
      const parts = node.parts.map((part) => partOf(part.nodes, `${address}.${part.name}.`, [address]))
      for (const part of parts) found.push(...part.nodes)
      needs = [...new Set(parts.flatMap(({ ends }) => ends))]
      if (needs.length === 0) needs = [address]
    } else needs = [address]
  }
  return { nodes: found, ends: needs }
}

/** The graph of a definition. Its top-level nodes are in the order in which they run. */
export const graphOf = (
  { input, name, nodes, output }: Definition
): PipelineGraph & { readonly input: string; readonly output: string } => ({
  name,
  nodes: partOf(nodes, "", []).nodes,
  input: fingerprint(input),
  output: fingerprint(output)
})

/** The hash of a graph: SHA-256 of its canonical JSON, in hexadecimal. */
const hashOf = (graph: PipelineGraph): string => sha256(canonicalJson(graph))

const hasUndo = (node: Node): boolean => {
  switch (node.kind) {
    case "step":
    case "stream":
    case "run":
      return node.undo !== undefined
    case "forEach":
      return node.each.undo !== undefined
    case "all":
    case "branch":
      return node.parts.some(({ nodes }) => nodes.some(hasUndo))
    case "sleep":
    case "waitFor":
    case "select":
      return false
  }
}

/** What the journal needs to know about a definition. */
export const refOf = (definition: Definition): DefinitionRef => {
  const graph = graphOf(definition)
  return { hash: hashOf(graph), graph, undo: definition.nodes.some(hasUndo) }
}
