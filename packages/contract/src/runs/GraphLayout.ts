/**
 * Computes where the nodes of a pipeline's graph are drawn. Pure.
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
import type { GraphNode, PipelineGraph } from "../workers/RunJournal.ts"

/** Sizes in pixels. A character of the font is about `CHARACTER` wide. */
const CHARACTER = 7.2
const PADDING = 14
const GAP = 34
const COLUMN_GAP = 24
const MARGIN = 16
const MIN_WIDTH = 90
/** The column of a part without nodes, through which its edge passes. */
const EMPTY_WIDTH = 24

/** The height of a box: two lines. */
export const BOX_HEIGHT = 40

/** The maximum number of characters of a line in a box. */
const MOST_CHARACTERS = 40

/** Shortens a text to fit into a box. */
export const cut = (text: string): string => text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 1)}…` : text

const linesOf = ({ address, endpoint, kind, label }: GraphNode, note: string | undefined): ReadonlyArray<string> => {
  const what = endpoint === undefined ? kind : `${kind} ${endpoint}`
  return [label ?? address.slice(address.lastIndexOf(".") + 1), note === undefined ? what : `${what}, ${note}`].map(cut)
}

/** A node with its position. `lines`: its name and its kind. */
export interface Box {
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

/** The blocks side by side. A block without nodes is a passage. */
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

const boxOf = (node: GraphNode, note: string | undefined): Block => {
  const lines = linesOf(node, note)
  const width = Math.max(MIN_WIDTH, 2 * PADDING + Math.max(...lines.map(({ length }) => length)) * CHARACTER)
  return { width, height: BOX_HEIGHT, boxes: [{ node, lines, x: 0, y: 0, width }], passages: [] }
}

/** Additional text in the boxes of nodes, such as `3 of 12`, by the node's address. */
type Notes = ReadonlyMap<string, string>

/** Lays out a sequence: its nodes, each followed by the nodes inside it. */
const sequence = (nodes: ReadonlyArray<GraphNode>, notes: Notes): Block => {
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
    blocks.push(boxOf(node, notes.get(node.address)))
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
          return own.length === 0 ? EMPTY : sequence(own, notes)
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

/** An edge from a node to a node that depends on it. */
export interface Edge {
  readonly from: string
  readonly to: string
  /** The `d` of an SVG path. */
  readonly path: string
}

/** The name of a branch's part, at the beginning of the part. */
export interface PartName {
  readonly name: string
  readonly x: number
  readonly y: number
}

/** A graph with the positions of its nodes. */
export interface Layout {
  readonly width: number
  readonly height: number
  readonly boxes: ReadonlyArray<Box>
  readonly edges: ReadonlyArray<Edge>
  readonly parts: ReadonlyArray<PartName>
}

/** Lays out a graph from top to bottom. `notes`: additional text for nodes, by their addresses. */
export const layoutOf = (graph: PipelineGraph, notes: Notes = new Map()): Layout => {
  const block = sequence(graph.nodes, notes)
  const { boxes, passages } = moved(block, MARGIN, MARGIN)
  const placed = new Map(boxes.map((box) => [box.node.address, box]))
  const edges: Array<Edge> = []
  const parts: Array<PartName> = []
  for (const box of boxes) {
    for (const need of box.node.needs ?? []) {
      const from = placed.get(need)
      if (from === undefined) continue
      const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + BOX_HEIGHT, box.x + box.width / 2, box.y]
      const isInside = box.node.address.startsWith(`${need}.`)
      const ways = isInside ? [] : passages.filter(({ around }) => around === need)
      const paths = ways.length === 0
        ? [curve(x1, y1, x2, y2)]
        : ways.map(({ bottom, top, x }) =>
          `${curve(x1, y1, x, top)} L ${rounded(x)} ${rounded(bottom)} ${curve(x, bottom, x2, y2)}`
        )
      for (const path of paths) edges.push({ from: need, to: box.node.address, path: `M ${rounded(x1)} ${rounded(y1)} ${path}` })
      if (isInside && from.node.kind === "branch") {
        parts.push({ name: box.node.address.slice(need.length + 1).split(".", 1)[0] ?? "", x: x2 + 6, y: y2 - 8 })
      }
    }
  }
  return { width: block.width + 2 * MARGIN, height: block.height + 2 * MARGIN, boxes, edges, parts }
}
