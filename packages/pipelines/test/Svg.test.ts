import { describe, expect, it } from "vitest"
import { toSvg } from "../src/Svg.ts"

const graph = {
  name: "gallery",
  nodes: [
    { address: "list", kind: "step" },
    { address: "extras", kind: "all", needs: ["list"] },
    { address: "extras.cover.make", kind: "run", endpoint: "cover", needs: ["extras"] },
    { address: "extras.tags.tag", kind: "step", needs: ["extras"] },
    { address: "extras.tags.sort", kind: "step", needs: ["extras.tags.tag"] },
    { address: "size", kind: "branch", parts: ["zip", "plain"], needs: ["extras.cover.make", "extras.tags.sort"] },
    { address: "size.zip.pack", kind: "step", needs: ["size"] },
    { address: "page", kind: "step", needs: ["size.zip.pack", "size"] }
  ]
}

/** The boxes by their titles. */
const boxesOf = (svg: string) =>
  new Map(
    [...svg.matchAll(/<title>([^<]*)<\/title>\s*<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="(\d+)"/g)].map((
      [, title = "", x, y, width, height]
    ) => [title.split(":")[0] ?? "", { x: Number(x), y: Number(y), width: Number(width), height: Number(height) }])
  )

const boxOf = (svg: string, name: string) => boxesOf(svg).get(name) ?? expect.fail(name)

describe("the SVG picture of a pipeline", () => {
  const svg = toSvg(graph)

  it("draws a sequence downwards and the parts of an all side by side", () => {
    const [list, extras, cover, tag, sort, page] = [
      "list",
      "extras",
      "extras.cover.make",
      "extras.tags.tag",
      "extras.tags.sort",
      "page"
    ]
      .map((name) => boxOf(svg, name))
    expect([list, extras, tag, sort, page].map((one) => one?.y)).toEqual(
      [list, extras, tag, sort, page].map((one) => one?.y).toSorted((a = 0, b = 0) => a - b)
    )
    expect(cover?.y).toBe(tag?.y)
    expect((cover?.x ?? 0) + (cover?.width ?? 0)).toBeLessThan(tag?.x ?? 0)
  })

  it("draws no box over another, and all boxes within the picture", () => {
    const boxes = [...boxesOf(svg).values()]
    expect(boxes).toHaveLength(graph.nodes.length)
    const [, width, height] = /width="(\d+)" height="(\d+)" viewBox/.exec(svg) ?? []
    for (const [index, a] of boxes.entries()) {
      expect(a.x + a.width).toBeLessThanOrEqual(Number(width))
      expect(a.y + a.height).toBeLessThanOrEqual(Number(height))
      for (const b of boxes.slice(index + 1)) {
        const isApart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y
        expect(isApart).toBe(true)
      }
    }
  })

  it("draws an edge for each need, and routes the edge of an empty part past the other parts", () => {
    const paths = [...svg.matchAll(/<path d="(M [^"]*)" fill="none"/g)].map(([, path = ""]) => path)
    expect(paths).toHaveLength(graph.nodes.flatMap(({ needs = [] }) => needs).length)
    const [passing = ""] = paths.filter((path) => path.includes(" L "))
    const column = Number(/L ([\d.]+)/.exec(passing)?.[1])
    const pack = boxOf(svg, "size.zip.pack")
    expect(column).toBeGreaterThan(pack.x + pack.width)
    expect(svg).toContain(">zip</text>")
  })

  it("marks the state of nodes in a run", () => {
    const marked = toSvg(graph, new Map([["list", { state: "failed", note: "no paper" }]]))
    expect(marked).toContain("<title>list: step, failed</title>")
    expect(marked).toContain("step, no paper")
    expect(marked).toContain("fill=\"#ffe3e3\"")
  })

  it("contains no markup and no control characters from a graph", () => {
    const hostile = "</text><script>alert(1)</script>\u001b[2J\u202e\ud800\n\"&'"
    const drawn = toSvg({
      name: hostile,
      nodes: [{ address: hostile, kind: hostile, label: hostile, endpoint: hostile, needs: [hostile, "missing"] }, {
        address: `${hostile}.a.b`,
        kind: "branch",
        parts: [hostile]
      }]
    }, new Map([[hostile, { state: hostile, note: hostile }]]))
    expect(drawn).not.toContain("<script")
    expect(drawn.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u)
    expect(drawn.isWellFormed()).toBe(true)
    expect([...drawn.matchAll(/<(\w+)/g)].map(([, name]) => name)).not.toContain("script")
  })

  it("draws a pipeline without nodes", () => {
    expect(toSvg({ name: "none", nodes: [] })).toContain("viewBox=\"0 0 32 32\"")
  })
})
