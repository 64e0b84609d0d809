import type { EndpointDetail, EndpointOverview, WorkerOverview } from "@stint/contract/OverviewApi"
import { describe, expect, it } from "vitest"
import {
  countWorkers,
  endpointsOf,
  matching,
  mostWorkers,
  removable,
  removalText,
  slotsText,
  workerFilterOf
} from "../src/workers/WorkerList.ts"

const NONE = { max: 3, idle: 0, initializing: 0, running: 0, draining: 0, throttled: 0, unhealthy: 0 }

const endpoint = (id: string, workers: Partial<EndpointOverview["workers"]>): EndpointOverview => ({
  id,
  source: "handler",
  jobs: { waiting: 0, delayed: 0, running: 0, completed: 0, failed: 0 },
  workers: { ...NONE, ...workers }
})

const worker = (id: string, state: WorkerOverview["state"], firstSeenAt = 0): WorkerOverview => ({
  id,
  state,
  jobs: [],
  firstSeenAt,
  lastSeenAt: 0,
  results: 0
})

const overview = {
  endpoints: [
    endpoint("empty", {}),
    endpoint("idle", { idle: 2 }),
    endpoint("busy", { running: 3, idle: 1 }),
    endpoint("sick", { unhealthy: 1 })
  ]
}

describe("the buttons of a worker", () => {
  it("offer only possible requests: none for a worker that is being stopped or has failed, and no drain for a draining one", () => {
    for (const state of ["initializing", "idle", "running"] as const) {
      expect(removable(worker("a", state))).toEqual(["drain", "stop"])
    }
    expect(removable(worker("a", "draining"))).toEqual(["stop"])
    for (const state of ["throttled", "unhealthy"] as const) expect(removable(worker("a", state))).toEqual([])
    expect(removable({ ...worker("a", "draining"), leaving: "stop" })).toEqual([])
  })

  it("say before they act what will happen to the jobs and the process", () => {
    expect(removalText("drain", worker("a", "idle"))).toBe(
      "It runs no job. It takes no more jobs, and exits. The platform starts another one if the endpoint needs it."
    )
    const busy = { ...worker("a", "running"), jobs: ["1", "2"] }
    expect(removalText("drain", busy)).toBe(
      "It runs 2 jobs. It takes no more jobs, and exits after its current ones. The platform starts another one if the endpoint needs it."
    )
    expect(removalText("stop", { ...busy, external: true })).toBe(
      "It runs 2 jobs. It is told to stop its jobs and takes no more. Each of its jobs loses an attempt: it runs again, or fails if no " +
        "attempt is left. The platform did not start it: end its process yourself."
    )
  })
})

describe("the slots of a worker", () => {
  it("are shown with the number of jobs that it runs, once they are known", () => {
    expect(slotsText({ ...worker("a", "running"), jobs: ["1", "2"], slots: 4 })).toBe("2 of 4")
    expect(slotsText({ ...worker("a", "idle"), slots: 1 })).toBe("0 of 1")
    expect(slotsText(worker("a", "initializing"))).toBeUndefined()
  })
})

describe("the workers of all endpoints", () => {
  it("are filtered as the address says, and an unknown state does not filter", () => {
    expect(workerFilterOf({ endpoint: "busy", state: "idle" })).toEqual({ endpoint: "busy", state: "idle" })
    expect(workerFilterOf({ state: "asleep" })).toEqual({ endpoint: "", state: "" })
  })

  it("are counted by state from the overview, which has all of them", () => {
    expect([countWorkers(overview, "", ""), countWorkers(overview, "", "idle"), countWorkers(overview, "busy", "")]).toEqual([
      7,
      3,
      4
    ])
    expect(countWorkers(overview, "removed", "")).toBe(0)
    const external = { ...endpoint("external", { idle: 9, max: null }), source: "external" as const }
    expect([mostWorkers({ endpoints: [...overview.endpoints, external] }, ""), mostWorkers(overview, "busy")]).toEqual([12, 3])
  })

  it("are requested only from endpoints where the overview counts some, failing endpoints first", () => {
    expect(endpointsOf(overview, { endpoint: "", state: "" })).toEqual(["sick", "busy", "idle"])
    expect(endpointsOf(overview, { endpoint: "", state: "idle" })).toEqual(["busy", "idle"])
    expect(endpointsOf(overview, { endpoint: "sick", state: "idle" })).toEqual([])
  })

  it("are ordered by state, then by endpoint and age, and restricted to the chosen state", () => {
    const detail = (id: string, list: ReadonlyArray<WorkerOverview>): EndpointDetail => ({ ...endpoint(id, {}), list })
    const details = [
      detail("b", [worker("b1", "idle"), worker("b2", "unhealthy")]),
      detail("a", [worker("a1", "running", 5), worker("a2", "running", 3), worker("a3", "idle")])
    ]
    const ids = (state: WorkerOverview["state"] | "") => matching(details, { endpoint: "", state }).map((one) => one.worker.id)
    expect(ids("")).toEqual(["b2", "a2", "a1", "a3", "b1"])
    expect(ids("idle")).toEqual(["a3", "b1"])
  })
})
