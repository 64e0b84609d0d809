import { progressOf } from "@stint/contract/RunProgress"
import type { RunStep } from "@stint/contract/RunSteps"
import { describe, expect, it } from "vitest"
import { changedSince, tableOf } from "../src/output/PipelineProgress.ts"

const graph = {
  name: "gallery",
  nodes: [
    { address: "list", kind: "step" },
    { address: "thumbnail", kind: "forEach", endpoint: "shrink", needs: ["list"] },
    { address: "extras", kind: "all", needs: ["thumbnail"] },
    { address: "extras.cover.make", kind: "run", endpoint: "cover", needs: ["extras"] },
    { address: "extras.tags.tag", kind: "step", needs: ["extras"] },
    { address: "size", kind: "branch", parts: ["zip", "plain"], needs: ["extras.cover.make", "extras.tags.tag"] },
    { address: "size.zip.pack", kind: "step", needs: ["size"] },
    { address: "size.plain.copy", kind: "step", needs: ["size"] },
    { address: "page", kind: "step", needs: ["size.zip.pack", "size.plain.copy"] }
  ]
}

const done = (path: string, kind: RunStep["kind"] = "step", endedAt = 0): RunStep => ({ path, kind, state: "completed", endedAt })

const statesOf = (steps: ReadonlyArray<RunStep>, isEnded = false) =>
  Object.fromEntries(
    progressOf(graph, steps, { isEnded }).map(({ node, note, state }) => [node, note === undefined ? state : `${state}, ${note}`])
  )

const LIST = done("list", "step", 100)
const COUNT: RunStep = { path: "thumbnail", kind: "choice", state: "completed", endedAt: 100, output: { items: 3 } }
const ITEMS = [0, 1, 2].map((index) => done(`thumbnail[${index}]`, "run", 200 + index))
const BRANCH: RunStep = { path: "size", kind: "choice", state: "completed", endedAt: 400, output: { branch: "zip" } }

describe("the progress of a run", () => {
  it("begins with nodes that have not begun", () => {
    expect(new Set(Object.values(statesOf([])))).toEqual(new Set(["-"]))
  })

  it("counts the items of a list that have completed", () => {
    const retried: RunStep = {
      path: "thumbnail[1]",
      kind: "run",
      state: "open",
      job: "j",
      endpoint: "shrink",
      attempts: [{ attempt: 1, state: "failed", error: "too large" }, { attempt: 2, state: "open", job: "j" }]
    }
    expect(statesOf([LIST, COUNT, done("thumbnail[0]", "run"), retried])).toMatchObject({
      list: "completed",
      thumbnail: "open, 1 of 3"
    })
    expect(statesOf([LIST, COUNT, ...ITEMS])).toMatchObject({ thumbnail: "completed, 3 of 3" })
    expect(statesOf([LIST, { ...COUNT, output: { items: 0 } }])).toMatchObject({ thumbnail: "completed, 0 of 0" })
  })

  it("says which attempt of an open step runs, and why the one before it failed", () => {
    const retried: RunStep = {
      path: "list",
      kind: "step",
      state: "open",
      attempts: [{ attempt: 1, state: "failed", error: "no answer" }, { attempt: 2, state: "failed", error: "timeout\n at x" }]
    }
    expect(statesOf([retried])).toMatchObject({ list: "open, attempt 3, after: timeout" })
  })

  it("gives an all and a branch the state of what is inside them, and skips the other branches", () => {
    const before = [LIST, COUNT, ...ITEMS]
    const open: RunStep = { path: "extras.cover.make", kind: "run", state: "open", startedAt: 300, job: "j", endpoint: "cover" }
    expect(statesOf([...before, open])).toMatchObject({
      extras: "open",
      "extras.cover.make": "open, job j of cover",
      "extras.tags.tag": "-"
    })
    const both = [...before, done("extras.cover.make", "run"), done("extras.tags.tag")]
    expect(statesOf(both)).toMatchObject({ extras: "completed", size: "-" })
    expect(statesOf([...both, BRANCH])).toMatchObject({
      size: "open, zip",
      "size.zip.pack": "-",
      "size.plain.copy": "skipped"
    })
    expect(statesOf([...both, BRANCH, done("size.zip.pack")])).toMatchObject({ size: "completed, zip" })
    const failed: RunStep = { path: "size.zip.pack", kind: "step", state: "failed", error: "no paper\nat line 1" }
    expect(statesOf([...both, BRANCH, failed])).toMatchObject({ size: "failed, zip", "size.zip.pack": "failed, no paper" })
  })

  it("shows how long nodes took, and how long open ones have taken", () => {
    const open: RunStep = { path: "extras.cover.make", kind: "run", state: "open", startedAt: 1_300 }
    const rows = tableOf(progressOf(graph, [LIST, COUNT, ...ITEMS, open], { isEnded: false }), 2_300)
    expect(rows[2]).toEqual(["thumbnail", "forEach shrink", "completed", "0.10 s", "3 of 3"])
    expect(rows[3]).toEqual(["extras", "all", "open", "1.00 s", ""])
    expect(rows[4]?.slice(0, 4)).toEqual(["  cover.make", "run cover", "open", "1.00 s"])
    expect(rows[9]).toEqual(["page", "step", "-", "", ""])
  })

  it("names what has changed since the last read, once", () => {
    const look = (steps: ReadonlyArray<RunStep>) => progressOf(graph, steps, { isEnded: false })
    const [first, second] = [look([LIST, COUNT]), look([LIST, COUNT, ...ITEMS.slice(0, 2)])]
    expect(changedSince([], first).map(({ node }) => node)).toEqual(["list", "thumbnail"])
    expect(changedSince(first, second)).toMatchObject([{ node: "thumbnail", note: "2 of 3" }])
    expect(changedSince(second, second)).toEqual([])
  })
})
