import { EndpointId, JobId } from "@stint/contract/Ids"
import { describe, expect, it } from "vitest"
import { jobLine } from "../src/dev/DevOutput.ts"

const job = {
  id: JobId.make("job-1"),
  endpoint: EndpointId.make("words"),
  status: "COMPLETED",
  createdAt: 1_000,
  startedAt: 1_010,
  finishedAt: 1_030
} as const

describe("the line for a job in stint dev", () => {
  it("states the outcome, the duration and the id", () => {
    expect(jobLine(job, null, 2_000)).toBe("words  COMPLETED in 20 ms  job-1")
  })

  it("states a long wait, for example for a worker to start", () => {
    const late = { ...job, startedAt: 1_500, finishedAt: 13_500 }
    expect(jobLine(late, null, 14_000)).toBe("words  COMPLETED in 12.0 s after a wait of 500 ms  job-1")
  })

  it("states the type and message of an exception, in one line", () => {
    const exception = JSON.stringify({ error_type: "<class 'TypeError'>", error_message: "no\ntext", error_traceback: "..." })
    expect(jobLine({ ...job, status: "FAILED" }, exception, 2_000)).toBe("words  FAILED in 20 ms  job-1  TypeError: no\\ntext")
  })

  it("states no duration for a job that never ran", () => {
    const waiting = { ...job, status: "CANCELLED", startedAt: null } as const
    expect(jobLine(waiting, null, 2_000)).toBe("words  CANCELLED  job-1")
  })

  it("states why an attempt failed, after which the job waits again", () => {
    const lost = { ...job, status: "IN_QUEUE", finishedAt: null } as const
    expect(jobLine(lost, "The worker exited with code 1.", 1_050)).toBe(
      "words  attempt failed in 40 ms  job-1  The worker exited with code 1."
    )
  })
})
