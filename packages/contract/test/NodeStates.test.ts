import { describe, expect, it } from "vitest"
import { nodeStates } from "../src/runs/NodeStates.ts"
import type { RunStep } from "../src/runs/RunSteps.ts"

const states = (...steps: ReadonlyArray<readonly [path: string, state: RunStep["state"]]>) =>
  Object.fromEntries(nodeStates(steps.map(([path, state]) => ({ path, state }))))

describe("the states of nodes", () => {
  it("are those of their steps", () => {
    expect(states(["charge", "completed"], ["approve", "open"])).toEqual({ charge: "completed", approve: "open" })
    expect(states(["charge", "timed-out"], ["approve", "cancelled"])).toEqual({ charge: "failed", approve: "failed" })
  })

  it("are open or failed when one of several items is", () => {
    expect(states(["page", "completed"], ["page[0]", "completed"], ["page[1]", "open"])).toEqual({ page: "open" })
    expect(states(["page[0]", "cancelled"], ["page[1]", "open"], ["extras.cover", "completed"])).toEqual({
      page: "failed",
      "extras.cover": "completed"
    })
  })

  it("do not change when a node is undone", () => {
    expect(states(["charge", "completed"], ["charge~undo", "failed"])).toEqual({
      charge: "completed"
    })
  })
})
