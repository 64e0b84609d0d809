/**
 * A pipeline's graph. Each node is a button, so that it can be reached by keyboard; the lines between nodes are SVG.
 */
import { BOX_HEIGHT, layoutOf } from "@stint/contract/GraphLayout"
import type { PipelineGraph } from "@stint/contract/RunJournal"
import type { NodeProgress } from "@stint/contract/RunProgress"
import { useEffect, useMemo, useRef } from "react"
import { useNow } from "../live/Clock.ts"
import { Icon } from "../ui/Status.tsx"
import { lineOf, stateOf } from "./RunNodes.ts"

/** Reserves space for a box's texts during the run, so that the layout does not move. */
const RESERVED = "x".repeat(10)

/** The graph. `nodes`: the progress of a run, in the order of the graph. */
export const GraphView = ({ graph, nodes, onSelect, selected }: {
  readonly graph: PipelineGraph
  readonly nodes: ReadonlyArray<NodeProgress>
  readonly selected: string | undefined
  readonly onSelect: (address: string) => void
}) => {
  const now = useNow()
  const layout = useMemo(() => layoutOf(graph, new Map(graph.nodes.map(({ address }) => [address, RESERVED]))), [graph])
  const area = useRef<HTMLDivElement>(null)
  const box = layout.boxes.find(({ node }) => node.address === selected)
  const [centerX, centerY] = box === undefined ? [undefined, undefined] : [box.x + box.width / 2, box.y + BOX_HEIGHT / 2]
  useEffect(() => {
    const view = area.current
    if (view === null || centerX === undefined || centerY === undefined) return
    const isSeen = (center: number, from: number, size: number) => center > from + BOX_HEIGHT && center < from + size - BOX_HEIGHT
    if (!isSeen(centerY, view.scrollTop, view.clientHeight)) view.scrollTop = centerY - view.clientHeight / 2
    if (!isSeen(centerX, view.scrollLeft, view.clientWidth)) view.scrollLeft = centerX - view.clientWidth / 2
  }, [centerX, centerY])
  const progress = new Map(nodes.map((one) => [one.node, one]))
  return (
    <div ref={area} className="graph" role="group" aria-label={`The graph of ${graph.name}`}>
      <div className="graph-area" style={{ width: layout.width, height: layout.height }}>
        <svg width={layout.width} height={layout.height} aria-hidden="true">
          {layout.edges.map(({ from, path, to }, index) => {
            const isPassed = progress.get(from)?.state === "completed" && (progress.get(to)?.state ?? "-") !== "-" &&
              progress.get(to)?.state !== "skipped"
            // Several lines may join two nodes.
            return <path key={`${from} ${to} ${index}`} d={path} className={isPassed ? "edge passed" : "edge"} />
          })}
          {layout.parts.map(({ name, x, y }) => <text key={`${name} ${x} ${y}`} x={x} y={y}>{name}</text>)}
        </svg>
        {layout.boxes.map(({ lines: [name = ""], node: { address, kind }, width, x, y }) => {
          const one = progress.get(address)
          const [tone, word] = one === undefined ? [undefined, ""] : stateOf(one)
          return (
            <button
              key={address}
              type="button"
              className={`node kind-${kind} ${tone === undefined ? "" : `tone-${tone}`}`}
              style={{ left: x, top: y, width, height: BOX_HEIGHT }}
              aria-pressed={selected === address}
              title={word === "" ? address : `${address}: ${word}`}
              onClick={() => onSelect(address)}
            >
              {tone === undefined ? null : <Icon tone={tone} />}
              <span className="node-name">{name}</span>
              <span className="node-line">{one === undefined ? kind : lineOf(one, now)}</span>
            </button>
          )
        })}
      </div>
    </div>
  )
}
