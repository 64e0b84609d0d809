/**
 * A pipeline's graph as a Mermaid flowchart.
 */
import type { GraphNode, PipelineGraph } from "@stint/contract/RunJournal"

/** The opening and closing brackets of a node's shape in Mermaid. */
const SHAPES: { readonly [kind: string]: readonly [string, string] } = {
  run: ["[[", "]]"],
  forEach: ["[/", "/]"],
  all: ["{{", "}}"],
  branch: ["{", "}"],
  sleep: ["(", ")"],
  waitFor: ["([", "])"],
  stream: [">", "]"]
}

const BOX = ["[", "]"] as const

/** Mermaid treats `"` and `#` in a label as syntax, and a line break as the end of the label. */
const escaped = (text: string): string =>
  text.replaceAll("#", "#35;").replaceAll("\"", "#quot;").replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")

const nameOf = (address: string): string => address.slice(address.lastIndexOf(".") + 1)

const describe = ({ address, endpoint, kind, label }: GraphNode): string => {
  const name = escaped(label ?? nameOf(address))
  const what = endpoint === undefined ? (kind === "step" ? undefined : kind) : `${kind} ${endpoint}`
  return what === undefined ? name : `${name}<br/><small>${escaped(what)}</small>`
}

/** What a node's box shows besides its name, such as its state in one run. */
export interface NodeMark {
  /** A class of the diagram: `completed`, `failed`, `open`. */
  readonly state: string
  /** An additional line, such as `3 of 12`. */
  readonly note?: string
}

/** The flowchart, from top to bottom. `marks`: the state of nodes by their addresses. */
export const toMermaid = (graph: PipelineGraph, marks: ReadonlyMap<string, NodeMark> = new Map()): string => {
  const ids = new Map(graph.nodes.map(({ address }, index) => [address, `n${index}`] as const))
  const lines = ["flowchart TD"]
  for (const node of graph.nodes) {
    const [open, close] = SHAPES[node.kind] ?? BOX
    const mark = marks.get(node.address)
    const note = mark?.note === undefined ? "" : `<br/>${mark.note}`
    lines.push(
      `  ${ids.get(node.address) ?? ""}${open}"${describe(node)}${note}"${close}${mark === undefined ? "" : `:::${mark.state}`}`
    )
  }
  const kinds = new Map(graph.nodes.map(({ address, kind }) => [address, kind] as const))
  for (const node of graph.nodes) {
    for (const need of node.needs ?? []) {
      // The part between the node and its branch: `zip` of `size.zip.pack`.
      const part = kinds.get(need) === "branch" && node.address.startsWith(`${need}.`)
        ? node.address.slice(need.length + 1).split(".")[0]
        : undefined
      const arrow = part === undefined ? "-->" : `-->|${escaped(part)}|`
      lines.push(`  ${ids.get(need) ?? ""} ${arrow} ${ids.get(node.address) ?? ""}`)
    }
  }
  if (marks.size > 0) {
    lines.push(
      "  classDef completed fill:#d7f5dd,stroke:#1a7f37,color:#000",
      "  classDef open fill:#ddf4ff,stroke:#0969da,color:#000",
      "  classDef failed fill:#ffe3e3,stroke:#cf222e,color:#000"
    )
  }
  return `${lines.join("\n")}\n`
}
