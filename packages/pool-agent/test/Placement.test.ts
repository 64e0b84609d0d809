import type { EndpointSource } from "@stint/contract/Endpoint"
import { endpointOf, resolvedOf } from "@stint/pool/testing"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { blockersOn, type Machine, needsOf, obstacleOf, place } from "../src/Placement.ts"

const machine = (name: string, more: Partial<Machine> = {}): Machine => ({
  name,
  capacity: { workers: 4, cpus: 8, memoryBytes: 16 * 1024 ** 3, gpus: 2 },
  supports: ["handler", "command", "container"],
  volumes: [],
  labels: {},
  endpoints: "all",
  isDraining: false,
  workers: [],
  ...more
})

const needs = (source: EndpointSource, more: Partial<Parameters<typeof needsOf>[0]> = {}) =>
  needsOf({ endpoint: resolvedOf(Effect.runSync(endpointOf({ source }))), ...more })

const command = needs({ type: "command", command: ["worker"] })
const unlimited = { workers: 3, limit: undefined, labels: {} }

describe("placement", () => {
  it("chooses the agent with the most free slots, and the first by name among equals", () => {
    const busy = machine("a", { workers: [command, command] })
    expect(place(command, [busy, machine("c"), machine("b")], unlimited)).toEqual({ _tag: "Agent", name: "b" })
    expect(place(command, [busy, machine("b", { workers: [command, command, command] })], unlimited))
      .toEqual({ _tag: "Agent", name: "a" })
  })

  it("uses the platform's machine only when no agent can run the worker", () => {
    const full = machine("a", { workers: [command, command, command, command] })
    expect(place(command, [full], unlimited)).toEqual({ _tag: "Local" })
    expect(place(command, [], { workers: 1, limit: 2, labels: {} })).toEqual({ _tag: "Local" })
  })

  it("does not use the platform's machine when its pool has no room, and says why", () => {
    const local = { ...unlimited, obstacle: () => "has 0 of 1 GPUs free" }
    expect(place(command, [machine("a", { isDraining: true })], local)).toEqual({
      _tag: "None",
      problem: "the platform's machine has 0 of 1 GPUs free; agent a is being drained"
    })
    expect(place(command, [machine("a")], local)).toEqual({ _tag: "Agent", name: "a" })
  })

  it("names the workers of the same endpoint that are in the way on a machine", () => {
    const gpu = needs({ type: "command", command: ["worker"], gpus: 1 })
    const workers = [
      { id: "other", needs: { ...gpu, endpoint: "other" } },
      { id: "first", needs: gpu },
      { id: "second", needs: command }
    ]
    const one = machine("a", { workers: workers.map(({ needs }) => needs) })
    expect(blockersOn(gpu, one, workers)).toEqual(["first"])
    expect(blockersOn({ ...gpu, gpus: 2 }, one, workers)).toEqual([])
    expect(blockersOn(gpu, { ...one, isDraining: true }, workers)).toEqual([])
  })

  it("names every machine's reason when none has room", () => {
    const full = machine("a", { workers: [command, command, command, command] })
    const found = place(command, [full, machine("b", { isDraining: true })], { workers: 0, limit: 0, labels: {} })
    expect(found).toEqual({
      _tag: "None",
      problem:
        "the platform's machine runs no workers (STINT_LOCAL_WORKERS is 0); agent a runs 4 of at most 4 workers; agent b is being drained"
    })
    expect(place(command, [], { workers: 2, limit: 2, labels: {} })).toMatchObject({
      problem: expect.stringContaining("no agent is connected (stint agents)")
    })
  })

  it("keeps workers that need the platform's machine away from agents", () => {
    const handler: EndpointSource = { type: "handler", file: "handler.ts" }
    expect(obstacleOf(needs(handler), machine("a"))).toContain("deploy it")
    expect(obstacleOf(needs(handler, { code: "0".repeat(64) }), machine("a"))).toBeUndefined()
    expect(obstacleOf({ ...command, needsModel: true }, machine("a"))).toContain("cache of models")
  })

  it("respects the endpoints of an agent's key, and the agent's sources and volumes", () => {
    expect(obstacleOf(command, machine("a", { endpoints: ["other"] }))).toContain("does not permit this endpoint")
    expect(obstacleOf(command, machine("a", { endpoints: ["tested"] }))).toBeUndefined()
    expect(obstacleOf(command, machine("a", { supports: ["handler"] }))).toContain("source \"command\"")
    const withVolume = needs({ type: "command", command: ["worker"], volumes: [{ source: "shared" }] })
    expect(obstacleOf(withVolume, machine("a"))).toContain("no volume \"shared\"")
    expect(obstacleOf(withVolume, machine("a", { volumes: ["shared"] }))).toBeUndefined()
  })

  it("starts workers that require labels only where every one of them matches", () => {
    const labelled = { ...command, labels: { gpu: "a100", zone: "eu" } }
    const both = machine("a", { labels: { gpu: "a100", zone: "eu", more: "yes" }, workers: [command, command] })
    const others = [
      machine("b"),
      machine("c", { labels: { gpu: "a100" } }),
      machine("d", { labels: { gpu: "h100", zone: "eu" } })
    ]
    expect(place(labelled, [...others, both], unlimited)).toEqual({ _tag: "Agent", name: "a" })
    expect(place(command, [both], unlimited)).toEqual({ _tag: "Agent", name: "a" })
    expect(place({ ...command, labels: { constructor: "a" } }, [both], unlimited)._tag).toBe("None")
    expect(place(labelled, others, unlimited)).toEqual({
      _tag: "None",
      problem:
        "no connected agent has the labels gpu=a100, zone=eu (start one with them: stint agent --label gpu=a100 --label zone=eu; or " +
        "change placement.labels of the endpoint); the platform's machine does not have the labels gpu=a100, zone=eu (STINT_LOCAL_LABELS)"
    })
  })

  it("uses the platform's machine for labels that it has, and a cluster for any", () => {
    const labelled = { ...command, labels: { gpu: "a100" } }
    expect(place(labelled, [], { ...unlimited, labels: { gpu: "a100" } })).toEqual({ _tag: "Local" })
    expect(place(labelled, [], { ...unlimited, labels: { gpu: "h100" } })._tag).toBe("None")
    expect(place(labelled, [], { ...unlimited, labels: "any" })).toEqual({ _tag: "Local" })
    expect(place(labelled, [], { workers: 0, limit: 0, labels: "any" })._tag).toBe("None")
  })

  it("says why the machines with the labels have no room, and how many lack the labels", () => {
    const draining = machine("a", { labels: { gpu: "a100" }, isDraining: true })
    expect(place({ ...command, labels: { gpu: "a100" } }, [machine("b"), draining], unlimited)).toMatchObject({
      problem: "the platform's machine does not have the labels gpu=a100 (STINT_LOCAL_LABELS); agent a is being drained; " +
        "1 more agent does not have the labels gpu=a100"
    })
  })

  it("allocates each GPU, CPU and byte of memory only once", () => {
    const of = (limits: { readonly gpus?: number | "all"; readonly cpus?: number; readonly memoryBytes?: number }) =>
      needs({ type: "container", image: "image", ...limits })
    const one = machine("a", { workers: [of({ gpus: 1, cpus: 6, memoryBytes: 12 * 1024 ** 3 })] })
    expect(obstacleOf(of({ gpus: 1 }), one)).toBeUndefined()
    expect(obstacleOf(of({ gpus: 2 }), one)).toBe("has 1 of 2 GPUs free")
    expect(obstacleOf(of({ gpus: "all" }), one)).toBe("has 1 of 2 GPUs free")
    expect(obstacleOf(of({ cpus: 3 }), one)).toBe("has 2 of 8 CPUs free")
    expect(obstacleOf(of({ memoryBytes: 8 * 1024 ** 3 }), one)).toBe("has 4 of 16 GiB of memory free")
    expect(obstacleOf(of({ gpus: "all" }), machine("b", { capacity: { workers: 1, cpus: 1, memoryBytes: 1, gpus: 0 } })))
      .toBe("has 0 GPUs, and a worker of this endpoint needs 1")
  })
})
