import { describe, expect, it } from "vitest"
import { nodeStates } from "../src/runs/NodeStates.ts"
import type { RunStep } from "../src/runs/RunSteps.ts"

const states = (...steps: ReadonlyArray<readonly [path: string, state: RunStep["state"], kind?: RunStep["kind"]]>) =>
  Object.fromEntries(nodeStates(steps.map(([path, state, kind = "step"]) => ({ path, state, kind }))))

describe("the states of nodes", () => {
  it("are those of the last attempt", () => {
    expect(states(["charge~1", "failed"], ["charge", "completed"])).toEqual({ charge: "completed" })
    expect(states(["charge", "failed", "run"], ["charge~2", "open", "run"])).toEqual({ charge: "open" })
    expect(states(["charge~1", "failed"], ["charge~2~0", "completed", "sleep"])).toEqual({ charge: "open" })
    expect(states(["charge~1", "failed"], ["charge", "timed-out"])).toEqual({ charge: "failed" })
  })

  it("are open or failed when one of several items is", () => {
    expect(states(["page", "completed", "choice"], ["page[0]", "completed"], ["page[1]", "open"])).toEqual({ page: "open" })
    expect(states(["page[0]", "cancelled"], ["page[1]", "open"], ["extras.cover", "completed"])).toEqual({
      page: "failed",
      "extras.cover": "completed"
    })
  })

  it("do not change when a node is undone", () => {
    expect(states(["charge", "completed"], ["charge~undo~1", "failed"], ["charge~undo", "undone", "undo"])).toEqual({
      charge: "completed"
    })
  })
})
