/**
 * A pipeline's graph as an SVG picture. Pure.
 *
 * A definition is a tree of sequences, so the layout needs no library: a sequence is drawn from top to bottom, and the parts of an `all` or a
 * `branch` side by side below it.
 *
 * ```
 *        [ extras ]
 *         |      |
 *      [cover] [tags]
 *         |      |
 *        [ page ]
 * ```
 */
import type { GraphNode, PipelineGraph } from "@stint/contract/RunJournal"
import type { NodeMark } from "./Mermaid.ts"

/** Sizes in pixels. A character of the font is about `CHARACTER` wide. */
const CHARACTER = 7.2
const PADDING = 14
const HEIGHT = 40
const GAP = 34
const COLUMN_GAP = 24
const MARGIN = 16
const MIN_WIDTH = 90
/** The column of a part without nodes, through which its edge passes. */
const EMPTY_WIDTH = 24

/** The most characters of a line in a box. */
const MOST_CHARACTERS = 40

const COLORS: Readonly<Record<string, readonly [fill: string, stroke: string]>> = {
  completed: ["#d7f5dd", "#1a7f37"],
  open: ["#ddf4ff", "#0969da"],
  failed: ["#ffe3e3", "#cf222e"]
}

const PLAIN = ["#f6f8fa", "#57606a"] as const

/** Text for XML, which has no control characters. Marks that reverse the direction of text could make a label look like another one. */
const escaped = (text: string): string =>
  text.replaceAll(/[\p{Cc}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]+/gu, " ")
    .replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("\"", "&quot;")

const cut = (text: string): string => text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text

const linesOf = ({ address, endpoint, kind, label }: GraphNode, mark: NodeMark | undefined): ReadonlyArray<string> => {
  const what = endpoint === undefined ? kind : `${kind} ${endpoint}`
  return [label ?? address.slice(address.lastIndexOf(".") + 1), mark?.note === undefined ? what : `${what}, ${mark.note}`].map(
    cut
  )
}

interface Box {
  readonly node: GraphNode
  readonly lines: ReadonlyArray<string>
  readonly x: number
  readonly y: number
  readonly width: number
}

/** A part of the picture with its own origin. `passages`: the columns of parts without nodes, by the address of the node around them. */
interface Block {
  readonly width: number
  readonly height: number
  readonly boxes: ReadonlyArray<Box>
  readonly passages: ReadonlyArray<{ readonly around: string; readonly x: number; readonly top: number; readonly bottom: number }>
}

const EMPTY: Block = { width: 0, height: 0, boxes: [], passages: [] }

const moved = (block: Block, x: number, y: number): Pick<Block, "boxes" | "passages"> => ({
  boxes: block.boxes.map((box) => ({ ...box, x: box.x + x, y: box.y + y })),
  passages: block.passages.map((one) => ({ ...one, x: one.x + x, top: one.top + y, bottom: one.bottom + y }))
})

/** The blocks one below the other, centred. */
const below = (blocks: ReadonlyArray<Block>): Block => {
  const width = Math.max(0, ...blocks.map((block) => block.width))
  const boxes: Array<Box> = []
  const passages: Array<Block["passages"][number]> = []
  let y = 0
  for (const block of blocks) {
    const at = moved(block, (width - block.width) / 2, y)
    boxes.push(...at.boxes)
    passages.push(...at.passages)
    y += block.height + GAP
  }
  return { width, height: Math.max(0, y - GAP), boxes, passages }
}

/** The blocks side by side. One without nodes is a passage. */
const beside = (around: string, blocks: ReadonlyArray<Block>): Block => {
  const height = Math.max(0, ...blocks.map((block) => block.height))
  const boxes: Array<Box> = []
  const passages: Array<Block["passages"][number]> = []
  let x = 0
  for (const block of blocks) {
    const width = block.boxes.length === 0 ? EMPTY_WIDTH : block.width
    const at = moved(block, x, 0)
    boxes.push(...at.boxes)
    passages.push(...at.passages)
    if (block.boxes.length === 0) passages.push({ around, x: x + width / 2, top: 0, bottom: height })
    x += width + COLUMN_GAP
  }
  return { width: Math.max(0, x - COLUMN_GAP), height, boxes, passages }
}

const boxOf = (node: GraphNode, mark: NodeMark | undefined): Block => {
  const lines = linesOf(node, mark)
  const width = Math.max(MIN_WIDTH, 2 * PADDING + Math.max(...lines.map(({ length }) => length)) * CHARACTER)
  return { width, height: HEIGHT, boxes: [{ node, lines, x: 0, y: 0, width }], passages: [] }
}

/** Lays out a sequence: its nodes, each followed by the nodes inside it. */
const sequence = (nodes: ReadonlyArray<GraphNode>, marks: ReadonlyMap<string, NodeMark>): Block => {
  const blocks: Array<Block> = []
  let at = 0
  while (at < nodes.length) {
    const node = nodes[at]
    if (node === undefined) break
    const prefix = `${node.address}.`
    let next = at + 1
    while (nodes[next]?.address.startsWith(prefix) === true) next++
    const inner = nodes.slice(at + 1, next)
    at = next
    blocks.push(boxOf(node, marks.get(node.address)))
    if (inner.length === 0) continue
    const names = new Set([
      ...node.parts ?? [],
      ...inner.map(({ address }) => address.slice(prefix.length).split(".", 1)[0] ?? "")
    ])
    blocks.push(
      beside(
        node.address,
        [...names].map((name) => {
          const own = inner.filter(({ address }) => address.startsWith(`${prefix}${name}.`))
          return own.length === 0 ? EMPTY : sequence(own, marks)
        })
      )
    )
  }
  return below(blocks)
}

const rounded = (value: number): string => String(Math.round(value * 10) / 10)

const curve = (x1: number, y1: number, x2: number, y2: number): string => {
  const middle = rounded((y1 + y2) / 2)
  return `C ${rounded(x1)} ${middle}, ${rounded(x2)} ${middle}, ${rounded(x2)} ${rounded(y2)}`
}

/** The SVG picture, from top to bottom. `marks`: the state of nodes by their addresses. */
export const toSvg = (graph: PipelineGraph, marks: ReadonlyMap<string, NodeMark> = new Map()): string => {
  const layout = sequence(graph.nodes, marks)
  const { boxes, passages } = moved(layout, MARGIN, MARGIN)
  const placed = new Map(boxes.map((box) => [box.node.address, box]))
  const edges: Array<string> = []
  for (const box of boxes) {
    for (const need of box.node.needs ?? []) {
      const from = placed.get(need)
      if (from === undefined) continue
      const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + HEIGHT, box.x + box.width / 2, box.y]
      const isInside = box.node.address.startsWith(`${need}.`)
      const ways = isInside ? [] : passages.filter(({ around }) => around === need)
      const paths = ways.length === 0
        ? [curve(x1, y1, x2, y2)]
        : ways.map(({ bottom, top, x }) =>
          `${curve(x1, y1, x, top)} L ${rounded(x)} ${rounded(bottom)} ${curve(x, bottom, x2, y2)}`
        )
      for (const path of paths) {
        edges.push(
          `  <path d="M ${rounded(x1)} ${rounded(y1)} ${path}" fill="none" stroke="#57606a" marker-end="url(#arrow)"/>`
        )
      }
      if (isInside && from.node.kind === "branch") {
        const part = box.node.address.slice(need.length + 1).split(".", 1)[0] ?? ""
        edges.push(`  <text x="${rounded(x2 + 6)}" y="${rounded(y2 - 8)}" class="part">${escaped(cut(part))}</text>`)
      }
    }
  }
  const drawn = boxes.map(({ lines: [first = "", second = ""], node, width, x, y }) => {
    const mark = marks.get(node.address)
    const [fill, stroke] = COLORS[mark?.state ?? ""] ?? PLAIN
    const isWait = node.kind === "sleep" || node.kind === "waitFor"
    const isFork = node.kind === "all" || node.kind === "branch"
    const middle = rounded(x + width / 2)
    return [
      `  <g><title>${escaped(`${node.address}: ${node.kind}${mark === undefined ? "" : `, ${mark.state}`}`)}</title>`,
      `    <rect x="${rounded(x)}" y="${rounded(y)}" width="${rounded(width)}" height="${HEIGHT}" rx="${
        isWait ? HEIGHT / 2 : 6
      }" ` +
      `fill="${fill}" stroke="${stroke}"${isFork ? " stroke-dasharray=\"4 3\"" : ""}/>`,
      `    <text x="${middle}" y="${rounded(y + 17)}" text-anchor="middle">${escaped(first)}</text>`,
      `    <text x="${middle}" y="${rounded(y + 31)}" text-anchor="middle" class="kind">${escaped(second)}</text></g>`
    ].join("\n")
  })
  const [width, height] = [layout.width, layout.height].map((size) => Math.ceil(size + 2 * MARGIN))
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
