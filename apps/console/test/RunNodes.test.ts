import { progressOf } from "@stint/contract/RunProgress"
import type { RunStep } from "@stint/contract/RunSteps"
import { sourcesOf } from "@stint/contract/StepSources"
import { describe, expect, it } from "vitest"
import { queryOfRuns } from "../src/pipelines/RunList.tsx"
import { inputOf, lineOf, logOf, mostUrgent, openWaits, outputOf, recordedOf, stepsOf } from "../src/pipelines/RunNodes.ts"

const graph = {
  name: "album",
  nodes: [
    { address: "list", kind: "step" },
    { address: "each", kind: "forEach", needs: ["list"] },
    { address: "story", kind: "run", endpoint: "stories", needs: ["each"] },
    { address: "approval", kind: "waitFor", needs: ["story"] },
    { address: "publish", kind: "step", needs: ["approval"] }
  ]
}

const step = (path: string, over: Partial<RunStep> = {}): RunStep => ({
  path,
  kind: "step",
  state: "completed",
  endedAt: 100,
  ...over
})

const STEPS: ReadonlyArray<RunStep> = [
  step("list", { output: [1, 2] }),
  step("each", { kind: "choice", output: { items: 2 } }),
  step("each[0]", { output: "a" }),
  step("each[1]", {
    output: "b",
    endedAt: 200,
    attempts: [{ attempt: 1, state: "failed", error: "no" }, { attempt: 2, state: "completed" }]
  }),
  step("story", { kind: "run", startedAt: 200, endedAt: 1_700, job: "j", endpoint: "stories" }),
  step("approval", { kind: "waitFor", state: "open", startedAt: 1_700, event: { name: "approval", key: "k" } })
]

const lines = (steps: ReadonlyArray<RunStep>, now = 2_000) =>
  Object.fromEntries(progressOf(graph, steps, { isEnded: false }).map((node) => [node.node, lineOf(node, now)]))

describe("the nodes of a run", () => {
  it("show their progress as text in their boxes, and not only as a colour", () => {
    expect(lines([])).toEqual({
      list: "step",
      each: "forEach",
      story: "run stories",
      approval: "waitFor",
      publish: "step"
    })
    expect(lines(STEPS)).toEqual({
      list: "step, completed",
      each: "forEach, 2 of 2",
      story: "run stories, 1.5 s",
      approval: "waitFor, waits",
      publish: "step"
    })
    expect(lines([...STEPS.slice(0, 6), step("publish", { state: "failed", error: "a long reason" })])).toMatchObject({
      publish: "step, failed"
    })
  })

  it("have the steps of their own items, and their items' outputs by path", () => {
    expect(stepsOf(STEPS, "each").map(({ path }) => path)).toEqual(["each", "each[0]", "each[1]"])
    expect(outputOf(stepsOf(STEPS, "each"))).toEqual({ "each[0]": "a", "each[1]": "b" })
    expect(outputOf(stepsOf(STEPS, "list"))).toEqual([1, 2])
    expect(outputOf(stepsOf(STEPS, "story"))).toBeUndefined()
    // What a compensation recorded is not the output of its node.
    expect(outputOf([step("list", { output: 1 }), step("list~undo", { kind: "undo", output: 2 })])).toBe(1)
  })

  it("received the outputs of the nodes before them: for a branch, those of the part that ran", () => {
    const split = {
      name: "split",
      nodes: [
        { address: "list", kind: "step" },
        { address: "all", kind: "all", needs: ["list"] },
        { address: "all.a.one", kind: "step", needs: ["all"] },
        { address: "all.b.two", kind: "step", needs: ["all"] },
        { address: "way", kind: "branch", parts: ["up", "down"], needs: ["all.a.one", "all.b.two"] },
        { address: "way.up.climb", kind: "step", needs: ["way"] },
        { address: "way.down.fall", kind: "step", needs: ["way"] },
        { address: "nap", kind: "sleep", needs: ["way.up.climb", "way.down.fall"] },
        { address: "last", kind: "step", needs: ["nap"] }
      ]
    }
    const done = recordedOf(["list", "all.a.one", "all.b.two", "way", "way.down.fall", "nap"].map((path) => step(path)))
    expect(sourcesOf(split, done, "list")).toEqual([])
    expect(sourcesOf(split, done, "all.b.two")).toEqual(["list"])
    expect(sourcesOf(split, done, "way.down.fall")).toEqual(["all.a.one", "all.b.two"])
    expect(sourcesOf(split, done, "last")).toEqual(["way.down.fall"])
  })

  it("show the inputs that were recorded with their steps, those of items by path", () => {
    const from = { from: ["list"] }
    expect(inputOf([step("list", { input: { value: { a: 1 } } }), step("list~undo", { kind: "undo", input: from })])).toEqual({
      a: 1
    })
    expect(inputOf([step("each[0]", { input: { value: 1 } }), step("each[1]", { input: { text: "[2" } })])).toEqual({
      "each[0]": 1,
      "each[1]": "[2..."
    })
    expect(inputOf([step("list", { input: from })])).toBeUndefined()
  })

  it("have the lines that their steps wrote, or the log of their job", () => {
    const run = { endpoint: "album", id: "r" }
    const of = (address: string) => {
      const node = graph.nodes.find((one) => one.address === address)
      return node === undefined ? "no node" : logOf(node, stepsOf(STEPS, address), run)
    }
    expect(of("each")).toEqual({ endpoint: "album", job: "r", step: "each" })
    expect(of("story")).toEqual({ endpoint: "stories", job: "j", step: undefined })
    expect(of("approval")).toBeUndefined()
  })

  it("offer the events that the run currently waits for, and no others", () => {
    expect(openWaits(STEPS).map(({ event }) => event)).toEqual([{ name: "approval", key: "k" }])
    expect(openWaits(STEPS.map((one) => ({ ...one, state: "completed" })))).toEqual([])
  })

  it("show the failed node first, or else the one that waits for an event", () => {
    const urgent = (steps: ReadonlyArray<RunStep>) => mostUrgent(progressOf(graph, steps, { isEnded: false }))
    expect(urgent(STEPS)).toBe("approval")
    expect(urgent([...STEPS, step("publish", { state: "failed" })])).toBe("publish")
    expect(urgent(STEPS.slice(0, 2))).toBeUndefined()
  })
})

describe("the query for runs", () => {
  it("names the pipelines and the statuses, and as many pipelines as its maximum length allows", () => {
    expect(queryOfRuns(["album", "order"], ["IN_QUEUE", "IN_PROGRESS"])).toBe(
      "endpoint:album endpoint:order status:waiting status:running"
    )
    const many = Array.from({ length: 200 }, (_, index) => `pipeline-${index}`)
    const query = queryOfRuns(many, ["IN_PROGRESS"])
    expect(query.length).toBeLessThanOrEqual(1_000)
    expect(query.length).toBeGreaterThan(900)
    expect(query).toContain("status:running")
  })
})
