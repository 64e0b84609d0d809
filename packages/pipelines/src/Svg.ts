/**
 * A pipeline's graph as an SVG picture. Pure.
 */
import { BOX_HEIGHT, cut, layoutOf } from "@stint/contract/GraphLayout"
import type { PipelineGraph } from "@stint/contract/RunJournal"
import type { NodeMark } from "./Mermaid.ts"

const COLORS: Readonly<Record<string, readonly [fill: string, stroke: string]>> = {
  completed: ["#d7f5dd", "#1a7f37"],
  open: ["#ddf4ff", "#0969da"],
  failed: ["#ffe3e3", "#cf222e"]
}

const PLAIN = ["#f6f8fa", "#57606a"] as const

/** Text for XML, without control characters, which XML does not allow, and without bidirectional marks, which could disguise a label. */
const escaped = (text: string): string =>
  text.replaceAll(/[\p{Cc}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]+/gu, " ")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\"", "&quot;")

const rounded = (value: number): string => String(Math.round(value * 10) / 10)

/** The SVG picture, from top to bottom. `marks`: the state of nodes by their addresses. */
export const toSvg = (graph: PipelineGraph, marks: ReadonlyMap<string, NodeMark> = new Map()): string => {
  const notes = new Map([...marks].flatMap(([address, { note }]) => note === undefined ? [] : [[address, note] as const]))
  const layout = layoutOf(graph, notes)
  const edges = [
    ...layout.edges.map(({ path }) => `  <path d="${path}" fill="none" stroke="#57606a" marker-end="url(#arrow)"/>`),
    ...layout.parts.map(({ name, x, y }) =>
      `  <text x="${rounded(x)}" y="${rounded(y)}" class="part">${escaped(cut(name))}</text>`
    )
  ]
  const drawn = layout.boxes.map(({ lines: [first = "", second = ""], node, width, x, y }) => {
    const mark = marks.get(node.address)
    const [fill, stroke] = COLORS[mark?.state ?? ""] ?? PLAIN
    const isWait = node.kind === "sleep" || node.kind === "waitFor"
    const isFork = node.kind === "all" || node.kind === "branch"
    const middle = rounded(x + width / 2)
    return [
      `  <g><title>${escaped(`${node.address}: ${node.kind}${mark === undefined ? "" : `, ${mark.state}`}`)}</title>`,
      `    <rect x="${rounded(x)}" y="${rounded(y)}" width="${rounded(width)}" height="${BOX_HEIGHT}" rx="${
        isWait ? BOX_HEIGHT / 2 : 6
      }" ` +
      `fill="${fill}" stroke="${stroke}"${isFork ? " stroke-dasharray=\"4 3\"" : ""}/>`,
      `    <text x="${middle}" y="${rounded(y + 17)}" text-anchor="middle">${escaped(first)}</text>`,
      `    <text x="${middle}" y="${rounded(y + 31)}" text-anchor="middle" class="kind">${escaped(second)}</text></g>`
    ].join("\n")
  })
  const [width, height] = [layout.width, layout.height].map(Math.ceil)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" ` +
    `aria-label="${escaped(`The pipeline ${graph.name}`)}">`,
    "  <style>text { font: 12px ui-monospace, monospace; fill: #1f2328 } .kind, .part { font-size: 10px; fill: #57606a }</style>",
    "  <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">" +
    "<path d=\"M 0 0 L 8 4 L 0 8 z\" fill=\"#57606a\"/></marker></defs>",
    "  <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>",
    ...edges,
    ...drawn,
    "</svg>",
    ""
  ].join("\n")
}
