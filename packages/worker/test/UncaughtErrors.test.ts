import { afterEach, describe, expect, it } from "@effect/vitest"
import { fileURLToPath } from "node:url"
import * as PlatformStub from "../src/testing/PlatformStub.ts"
import * as WorkerProcess from "../src/testing/WorkerProcess.ts"

const opened: Array<() => Promise<unknown>> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const start = async (args: ReadonlyArray<string> = []) => {
  const stub = await PlatformStub.start()
  opened.push(() => stub.down())
  const file = fileURLToPath(new URL("./fixtures/uncaught.ts", import.meta.url))
  const worker = WorkerProcess.start(file, { env: args.length === 0 ? stub.environment({ pingIntervalMs: 50 }) : {}, args })
  opened.push(async () => {
    worker.kill("SIGKILL")
    await worker.ended
  })
  return { stub, worker }
}

/** Starts a worker with this job and seven neighbours, which finish after SIGUSR2. */
const startWithNeighbours = async (how: string) => {
  const { stub, worker } = await start()
  const neighbours = Array.from({ length: 7 }, () => stub.submit({ do: "wait" }))
  return { stub, worker, neighbours, culprit: stub.submit({ do: how }) }
}

const exiting = (stub: PlatformStub.PlatformStub) => stub.of("ping").filter(({ text }) => text.includes("exiting"))

const linesOf = (stdout: string) => stdout.trim().split("\n").map((line) => JSON.parse(line))

// docs/spec/worker-lifecycle.md#uncaught-errors
describe("an error that no code catches", () => {
  it.each([
    ["an exception in a timer", "throw", "thrown", "An exception that no code catches"],
    ["a rejected promise that is not awaited", "reject", "rejected", "A rejected promise that no code handles"]
  ])("%s fails only its own job, and the worker finishes the others and exits with 1", async (_name, how, verb, what) => {
    const { culprit, neighbours, stub, worker } = await startWithNeighbours(how)
    expect(JSON.parse(String(Object(await stub.resultOf(culprit)).error))).toMatchObject({
      error_type: "RangeError",
      error_message: `${verb} by ${culprit}`,
      worker_id: "stub-worker"
    })
    await stub.until(() => exiting(stub).length === 1)
    expect(neighbours.map((id) => stub.result(id))).toEqual(neighbours.map(() => undefined))
    const late = stub.submit({ do: "echo" })
    worker.kill("SIGUSR2")
    const { code, stderr, stdout } = await worker.ended
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" })
    expect(neighbours.map((id) => stub.result(id))).toEqual(neighbours.map(() => ({ output: "finished" })))
    expect(stub.result(late)).toBeUndefined()
    expect(linesOf(stdout).filter(({ level }) => level !== "INFO")).toEqual([
      {
        level: "ERROR",
        requestId: culprit,
        message: expect.stringMatching(/^The job failed after \d+ ms: RangeError: .*\n +at /)
      },
      {
        level: "ERROR",
        requestId: culprit,
        message:
          `${what} comes from this job. The job fails with it. The worker takes no more jobs, finishes the others and exits with code 1.`
      }
    ])
  })

  it("a rejection that a job leaves behind is logged, and the worker continues", async () => {
    const { culprit, neighbours, stub, worker } = await startWithNeighbours("return and reject")
    await stub.until(() => worker.stdout().includes("which has ended"))
    const next = stub.submit({ do: "echo" })
    expect(await stub.resultOf(next)).toEqual({ output: "echo" })
    expect(stub.result(culprit)).toEqual({ output: "returned" })
    worker.kill("SIGUSR2")
    for (const id of neighbours) expect(await stub.resultOf(id)).toEqual({ output: "finished" })
    worker.kill("SIGTERM")
    const { code, stdout } = await worker.ended
    expect(code).toBe(0)
    expect(linesOf(stdout).filter(({ level }) => level === "ERROR")).toEqual([{
      level: "ERROR",
      requestId: culprit,
      message: expect.stringMatching(
        /^A rejected promise that no code handles comes from this job, which has ended\.\nRangeError: rejected by/
      )
    }])
  })

  it("an exception that a job leaves behind changes no result, and the worker finishes the others and exits with 1", async () => {
    const { culprit, neighbours, stub, worker } = await startWithNeighbours("return and throw")
    await stub.until(() => exiting(stub).length === 1)
    worker.kill("SIGUSR2")
    expect(await worker.ended).toMatchObject({ code: 1, stderr: "" })
    expect([culprit, ...neighbours].map((id) => stub.result(id))).toEqual([
      { output: "returned" },
      ...neighbours.map(() => ({ output: "finished" }))
    ])
  })

  it.each([
    ["an exception of no job", "background", "thrown by no job"],
    // Another worker can continue the run.
    ["a rejection in a step of a pipeline", "reject in a step", "rejected by the step"]
  ])("%s fails no job, and the worker finishes its jobs and exits with 1", async (_name, how, message) => {
    const { culprit, neighbours, stub, worker } = await startWithNeighbours(how)
    await stub.until(() => exiting(stub).length === 1)
    worker.kill("SIGUSR2")
    const { code, stdout } = await worker.ended
    expect(code).toBe(1)
    expect([culprit, ...neighbours].map((id) => stub.result(id))).toEqual(
      Array.from({ length: 8 }, () => ({ output: "finished" }))
    )
    expect(linesOf(stdout).filter(({ level }) => level === "ERROR")).toEqual([{
      level: "ERROR",
      requestId: null,
      message: expect.stringMatching(
        new RegExp(`belongs to no job\\. .* gives the running ones 30 s to finish.*\\nRangeError: ${message}\\n +at `)
      )
    }])
  })

  it("in local test mode, fails the job with its traceback, and the exit code is 1", async () => {
    const { worker } = await start(["--test_input", `{"input":{"do":"throw"}}`])
    const { code, stdout } = await worker.ended
    expect(stdout).toMatch(/FAILED\nRangeError: thrown by test-.*\n +at .*uncaught\.ts/)
    expect(code).toBe(1)
  })
})
