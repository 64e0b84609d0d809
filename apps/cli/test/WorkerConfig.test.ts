/**
 * The settings of worker processes, and the warnings about unsafe settings.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { availableParallelism } from "node:os"
import process from "node:process"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import * as Machine from "../src/config/Machine.ts"
import * as WorkerConfig from "../src/config/WorkerConfig.ts"
import { isolationOf, warningsFor } from "../src/platform/SafetyWarnings.ts"

const load = (env: Readonly<Record<string, string>>) =>
  Effect.runPromise(Effect.result(Effect.provide(WorkerConfig.load, ConfigProvider.layer(ConfigProvider.fromEnv({ env })))))

const resolveFor = (settings: Partial<WorkerConfig.WorkerSettings>) =>
  Effect.runPromise(
    Effect.result(
      WorkerConfig.resolveFor(
        {
          inherit: [],
          user: Option.none(),
          cacheDir: Option.none(),
          spare: 0,
          localWorkers: Option.none(),
          localLabels: {},
          localCpus: Option.none(),
          localMemory: undefined,
          localGpus: Option.none(),
          ...settings
        },
        "/srv/stint/data"
      )
    )
  )

describe("settings of worker processes", () => {
  beforeEach(() => {
    vi.spyOn(process, "getuid").mockReturnValue(0)
  })
  afterEach(() => {
    vi.restoreAllMocks()
  })

  it("reads the inherited variables as a list, the number of spare workers, and the labels of the machine", async () => {
    expect(await load({})).toMatchObject({ success: { inherit: [], user: Option.none(), spare: 0 } })
    expect(await load({ STINT_LOCAL_LABELS: "gpu=a100, example.com/zone=eu-1" })).toMatchObject({
      success: { localLabels: { gpu: "a100", "example.com/zone": "eu-1" } }
    })
    expect(await load({ STINT_SPARE_WORKERS: "2" })).toMatchObject({ success: { spare: 2 } })
    expect(await load({ STINT_WORKER_ENV: "DATABASE_URL, BUCKET_*,", STINT_WORKER_USER: "1001:1001" })).toMatchObject({
      success: { inherit: ["DATABASE_URL", "BUCKET_*"], user: Option.some("1001:1001") }
    })
  })

  it("reads what endpoints may reserve on the platform's machine, which is by default what the machine has", async () => {
    expect(await resolveFor({})).toMatchObject({
      success: { capacity: { cpus: availableParallelism(), memoryBytes: expect.any(Number), gpuIds: Machine.gpuIds(undefined) } }
    })
    const settings = await load({ STINT_LOCAL_CPUS: "64", STINT_LOCAL_MEMORY: "2 GiB", STINT_LOCAL_GPUS: "2" })
    expect(settings).toMatchObject({
      success: { localCpus: Option.some(64), localMemory: 2 * 1024 ** 3, localGpus: Option.some(2) }
    })
    expect(await resolveFor({ localCpus: Option.some(64), localMemory: 2 * 1024 ** 3, localGpus: Option.some(0) })).toMatchObject(
      {
        success: { capacity: { cpus: 64, memoryBytes: 2 * 1024 ** 3, gpuIds: [] } }
      }
    )
  })

  it.each([
    ["0,1", undefined, ["0", "1"]],
    ["2, GPU-5d2c-a, MIG-1/3/0", undefined, ["2", "GPU-5d2c-a", "MIG-1/3/0"]],
    ["2,-1,3", undefined, ["2"]],
    ["", undefined, []],
    ["NoDevFiles", undefined, []],
    ["4,5", 1, ["4"]],
    ["", 2, ["0", "1"]]
  ])("CUDA_VISIBLE_DEVICES %j, and %j GPUs: %j", (visible, count, expected) => {
    expect(Machine.gpuIds(count, visible)).toEqual(expected)
  })

  it.each([
    ["STINT_LOCAL_GPUS", "65"],
    ["STINT_LOCAL_CPUS", "-1"],
    ["STINT_LOCAL_MEMORY", "much"],
    ["STINT_WORKER_ENV", "DATABASE_URL=postgres"],
    ["STINT_WORKER_ENV", "A-B"],
    ["STINT_SPARE_WORKERS", "101"],
    ["STINT_SPARE_WORKERS", "1.5"],
    ["STINT_LOCAL_LABELS", "gpu"],
    ["STINT_LOCAL_LABELS", "gpu=a100, gpu=h100"],
    ["STINT_LOCAL_LABELS", "gpu=-"],
    ["STINT_WORKER_USER", "1001"],
    ["STINT_WORKER_USER", "a b"]
  ])("prevents startup with an invalid %s: %s", async (name, value) => {
    expect(await load({ [name]: value })).toMatchObject({ failure: { message: expect.stringContaining(name) } })
  })

  it("keeps bundles in the data folder while workers run as the platform's user", async () => {
    expect(await resolveFor({})).toMatchObject({ success: { user: undefined, cacheDir: "/srv/stint/data" } })
  })

  it("looks up a user by name or by ids, and puts bundles outside the data folder", async () => {
    expect(await resolveFor({ user: Option.some("nobody") })).toMatchObject({
      success: { user: { name: "nobody", uid: 65_534 }, cacheDir: expect.stringMatching(/^\/var\/cache\/stint\/[0-9a-f]{16}$/) }
    })
    expect(await resolveFor({ user: Option.some("54321:54322"), cacheDir: Option.some("/srv/cache") })).toMatchObject({
      success: { user: { name: "54321:54322", uid: 54_321, gid: 54_322, home: "/nonexistent" }, cacheDir: "/srv/cache" }
    })
  })

  it.each([
    [{ user: Option.some("no-such-user") }, "this machine has no such user"],
    [{ user: Option.some("root") }, "this is root, the platform's own user"],
    [{ user: Option.some("0:0") }, "this is root, the platform's own user"],
    [{ user: Option.some("nobody"), cacheDir: Option.some("/srv/stint/data/cache") }, "inside the data folder"]
  ])("refuses %j", async (settings, words) => {
    expect(await resolveFor(settings)).toMatchObject({ failure: { message: expect.stringContaining(words) } })
  })

  it("refuses another user for workers when the platform does not run as root", async () => {
    vi.spyOn(process, "getuid").mockReturnValue(1_000)
    expect(await resolveFor({ user: Option.some("nobody") })).toMatchObject({
      failure: { message: expect.stringContaining("only a platform that runs as root") }
    })
  })
})

describe("warnings at startup", () => {
  const safe = { host: "127.0.0.1", publicUrl: undefined, isRoot: false, workerUser: "platform" as const }

  it.each([
    [safe, []],
    [{ ...safe, host: "::1" }, []],
    [{ ...safe, host: "localhost" }, []],
    [{ ...safe, host: "0.0.0.0", publicUrl: "https://jobs.example.org" }, []],
    [{ ...safe, host: "0.0.0.0" }, ["without TLS"]],
    [{ ...safe, host: "10.0.0.7", publicUrl: "http://10.0.0.7" }, ["without TLS"]],
    [{ ...safe, isRoot: true }, ["STINT_WORKER_USER"]],
    [{ ...safe, isRoot: true, workerUser: "shared" as const }, []],
    [{ ...safe, isRoot: true, workerUser: "per-endpoint" as const }, []],
    [{ ...safe, isRoot: true, host: "::" }, ["STINT_WORKER_USER", "without TLS"]]
  ])("%j: %j", (facts, expected) => {
    expect(warningsFor(facts)).toEqual(expected.map((words) => expect.stringContaining(words)))
  })

  const all = { enforced: ["CPU time", "memory", "number of processes"], missing: [], reason: "" }

  it("say for each kind of user what a handler can read", () => {
    expect(isolationOf({ workerUser: "platform" }, all)).toContain("can read the platform's files and environment")
    expect(isolationOf({ workerUser: "shared" }, all)).toMatch(
      /can read the environment and the files of other workers.*200000-265535/
    )
    expect(isolationOf({ workerUser: "per-endpoint" }, all)).toBe(
      "The worker processes of each endpoint run as their own user. The limits of their CPU time, memory and number of processes are " +
        "enforced if the endpoint sets them. Workers in containers are isolated and limited."
    )
  })

  it("say which limits of processes cannot be enforced, and why", () => {
    const none = { enforced: [], missing: all.enforced, reason: "This system has no control groups." }
    expect(isolationOf({ workerUser: "platform" }, none)).toContain(
      "Limits of their CPU time, memory and number of processes cannot be enforced. This system has no control groups. Workers in"
    )
    const some = { enforced: ["memory"], missing: ["CPU time"], reason: "Because." }
    expect(isolationOf({ workerUser: "platform" }, some)).toContain(
      "The limits of their memory are enforced if the endpoint sets them. Limits of their CPU time cannot be enforced. Because."
    )
  })
})
