import { afterEach, describe, expect, it } from "@effect/vitest"
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import { join } from "node:path"
import { program, temporaryFolder } from "./CheckHarness.ts"

const folder = temporaryFolder()
const opened: Array<() => Promise<unknown>> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** Starts a platform and a worker whose machine passes every check unless the variables specify otherwise. */
const start = async (env: { readonly [name: string]: string } = {}) => {
  const stub = await PlatformStub.start()
  opened.push(() => stub.down())
  const worker = WorkerProcess.start(join(import.meta.dirname, "fixtures/worker.ts"), {
    env: {
      ...stub.environment(),
      PATH: folder,
      PLATFORM_MIN_MEMORY_GB: "0.05",
      PLATFORM_MIN_DISK_PERCENT: "0",
      ...env
    }
  })
  opened.push(async () => {
    worker.kill("SIGKILL")
    await worker.ended
  })
  return { stub, worker }
}

/** The reports about an unfit machine that the platform received. */
const reports = (pings: ReadonlyArray<PlatformStub.RecordedRequest>) =>
  pings.map(({ text }) => JSON.parse(text)).filter(({ status }) => status === "unhealthy")

describe("a worker with the automatic checks", () => {
  it("takes jobs on a machine that passes all checks", async () => {
    const { stub, worker } = await start()
    expect(await stub.resultOf(stub.submit("fit"))).toEqual({ output: "fit" })
    expect(worker.stdout()).toMatch(/Fitness checks passed: memory \(\d+ ms\), disk \(\d+ ms\), network \(\d+ ms\)\./)
  })

  it.each([
    ["memory", { PLATFORM_MIN_MEMORY_GB: "1000000" }, /^[\d.]+ GB of memory is available, but 1000000 GB is required/],
    [
      "disk",
      { RUNPOD_MIN_DISK_PERCENT: "100", PLATFORM_MIN_DISK_PERCENT: "" },
      /^[\d.]+ % of the disk is free, but 100 % is required/
    ]
  ])("exits with 1 after one report, without a take, when the check \"%s\" fails", async (name, env, expected) => {
    const { stub, worker } = await start(env)
    stub.submit("never taken")
    const { code, stdout } = await worker.ended
    expect(code).toBe(1)
    expect(reports(stub.of("ping"))).toEqual([
      { runpod_version: "0.0.0", status: "unhealthy", check: name, reason: expect.stringMatching(expected) }
    ])
    expect(stub.of("job-take")).toEqual([])
    expect(stdout).toContain(`The fitness check \\"${name}\\" failed`)
  })

  it("exits with 1 when the GPU is broken, unless the GPU checks are skipped", async () => {
    const gpu = temporaryFolder()
    program(gpu, "nvidia-smi", "echo 'NVIDIA-SMI has failed'; exit 9")
    const broken = await start({ PATH: gpu })
    expect(await broken.worker.ended).toMatchObject({ code: 1 })
    expect(reports(broken.stub.of("ping"))).toMatchObject([{ check: "gpu_health" }])
    const { stub } = await start({ PATH: gpu, PLATFORM_SKIP_GPU_CHECK: "true" })
    expect(await stub.resultOf(stub.submit("fit"))).toEqual({ output: "fit" })
  })

  it("does not start with an invalid variable, and names it", async () => {
    const { stub, worker } = await start({ PLATFORM_MIN_MEMORY_GB: "4GB" })
    const { code, stdout } = await worker.ended
    expect(code).toBe(1)
    expect(stdout).toContain("PLATFORM_MIN_MEMORY_GB is \\\"4GB\\\"; it must be a number of gigabytes without a unit")
    expect(stub.requests).toEqual([])
  })
})
