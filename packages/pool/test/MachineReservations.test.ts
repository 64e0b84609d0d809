import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import * as Reservations from "../src/MachineReservations.ts"
import type { Reservation } from "../src/WorkerPool.ts"

const GIB = 1024 ** 3

const needsOf = (needs: Partial<Reservation>): Reservation => ({ gpus: 0, cpus: 0, memoryBytes: 0, ...needs })

/** A machine with two GPUs, and a clock that the test sets. */
const make = (capacity: Partial<Reservations.MachineCapacity> = {}) => {
  const clock = { now: 0 }
  const machine = Reservations.make({ cpus: 4, memoryBytes: 8 * GIB, gpuIds: ["0", "1"], ...capacity }, () => clock.now)
  let workers = 0
  /** Asks for a worker, and reserves if it is permitted. */
  const ask = (endpoint: string, needs: Partial<Reservation>) => {
    const obstacle = machine.obstacleOf(endpoint, needsOf(needs))
    if (obstacle !== undefined) return obstacle
    const worker = `${endpoint}-${++workers}`
    return { worker, gpuIds: machine.reserve({ worker, endpoint, needs: needsOf(needs) }) }
  }
  return { ...machine, ask, clock }
}

describe("the reservations of a machine", () => {
  it("assign each GPU to one worker, and say what is missing", () => {
    const { ask, release } = make()
    expect(ask("llm", { gpus: 1 })).toEqual({ worker: "llm-1", gpuIds: ["0"] })
    expect(ask("tts", { gpus: 1 })).toEqual({ worker: "tts-2", gpuIds: ["1"] })
    expect(ask("asr", { gpus: 1 })).toEqual({ problem: "has 0 of 2 GPUs free", blockedBy: [] })
    release("llm-1")
    expect(ask("asr", { gpus: 1 })).toEqual({ worker: "asr-3", gpuIds: ["0"] })
  })

  it("count CPUs and memory", () => {
    const { ask } = make()
    ask("one", { cpus: 3, memoryBytes: 6 * GIB })
    expect(ask("two", { cpus: 1.5 })).toMatchObject({ problem: "has 1 of 4 CPUs free" })
    expect(ask("two", { memoryBytes: 2.5 * GIB })).toMatchObject({ problem: "has 2 of 8 GiB of memory free" })
    expect(ask("two", { cpus: 1, memoryBytes: 2 * GIB })).toHaveProperty("worker")
  })

  it("give all GPUs only to a worker that is alone with them, and only on a machine that has some", () => {
    const { ask, release } = make()
    ask("one", { gpus: 1 })
    expect(ask("all", { gpus: "all" })).toMatchObject({ problem: "has 1 of 2 GPUs free" })
    release("one-1")
    expect(ask("all", { gpus: "all" })).toMatchObject({ gpuIds: ["0", "1"] })
    expect(make({ gpuIds: [] }).ask("all", { gpus: "all" })).toMatchObject({
      problem: "has 0 GPUs, and a worker of this endpoint needs 1"
    })
  })

  it("name the endpoint's own workers, if the machine would suffice without them", () => {
    const { ask } = make()
    ask("llm", { gpus: 1 })
    ask("llm", { gpus: 1 })
    expect(ask("llm", { gpus: 1 })).toMatchObject({ blockedBy: ["llm-1"] })
    expect(ask("llm", { gpus: 2 })).toMatchObject({ blockedBy: ["llm-1", "llm-2"] })
    expect(ask("llm", { gpus: 3 })).toMatchObject({ blockedBy: [] })
    expect(ask("tts", { gpus: 1 })).toMatchObject({ blockedBy: [] })
  })

  it("keep the GPUs of workers that an earlier platform started", () => {
    const { ask, reserve } = make()
    reserve({ worker: "old", endpoint: "llm", needs: needsOf({ gpus: 1 }) }, ["1"])
    expect(ask("tts", { gpus: 1 })).toMatchObject({ gpuIds: ["0"] })
    expect(ask("asr", { gpus: 1 })).toMatchObject({ problem: "has 0 of 2 GPUs free" })
  })

  it("let the endpoint that has waited longest go first, for as long as its turn lasts", () => {
    const { ask, clock, release } = make({ gpuIds: ["0"] })
    ask("a", { gpus: 1 })
    ask("b", { gpus: 1 })
    ask("a", { gpus: 1 })
    release("a-1")
    expect(ask("a", { gpus: 1 })).toEqual({
      problem: "keeps its free capacity for endpoint b, which has waited longer",
      blockedBy: []
    })
    expect(ask("b", { gpus: 1 })).toMatchObject({ worker: "b-2" })
    ask("b", { gpus: 1 })
    release("b-2")
    expect(ask("b", { gpus: 1 })).toMatchObject({ problem: expect.stringContaining("for endpoint a") })
    // Endpoint a no longer needs the room.
    clock.now += Reservations.TURN_MILLIS
    expect(ask("b", { gpus: 1 })).toMatchObject({ worker: "b-3" })
  })

  it("do not hold back a worker that fits beside the one whose turn it is, or for one that does not fit", () => {
    const { ask, release } = make()
    ask("a", { gpus: 1 })
    ask("b", { gpus: 1 })
    ask("large", { gpus: 2 })
    release("a-1")
    expect(ask("small", { cpus: 1 })).toHaveProperty("worker")
    expect(ask("a", { gpus: 1 })).toHaveProperty("worker")
  })

  it("never exceed the capacity, never assign a GPU twice, and return everything", () => {
    const limits = fc.record({
      gpus: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constant("all" as const)),
      cpus: fc.constantFrom(0, 0.5, 1, 3),
      memoryBytes: fc.constantFrom(0, GIB, 5 * GIB)
    })
    const step = fc.oneof(
      fc.record({ endpoint: fc.constantFrom("a", "b", "c"), needs: limits }),
      fc.record({ release: fc.nat() }),
      fc.record({ wait: fc.integer({ min: 0, max: 3_000 }) })
    )
    let started = 0
    let refused = 0
    fc.assert(fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const { ask, clock, release } = make({ gpuIds: ["0", "GPU-1", "2"] })
      const held = new Map<string, { readonly needs: Reservation; readonly gpuIds: ReadonlyArray<string> }>()
      for (const one of steps) {
        if ("wait" in one) clock.now += one.wait
        else if ("release" in one) {
          const worker = [...held.keys()][one.release % Math.max(1, held.size)]
          if (worker === undefined) continue
          held.delete(worker)
          release(worker)
        } else {
          const result = ask(one.endpoint, one.needs)
          if ("worker" in result) {
            started += 1
            held.set(result.worker, { needs: one.needs, gpuIds: result.gpuIds })
          } else refused += 1
        }
        const all = [...held.values()]
        expect(all.reduce((sum, { needs }) => sum + needs.cpus, 0)).toBeLessThanOrEqual(4)
        expect(all.reduce((sum, { needs }) => sum + needs.memoryBytes, 0)).toBeLessThanOrEqual(8 * GIB)
        const ids = all.flatMap(({ gpuIds }) => gpuIds)
        expect(new Set(ids).size).toBe(ids.length)
        for (const { gpuIds, needs } of all) expect(gpuIds.length).toBe(needs.gpus === "all" ? 3 : needs.gpus)
      }
      for (const worker of held.keys()) release(worker)
      clock.now += Reservations.TURN_MILLIS
      expect(ask("last", { gpus: "all", cpus: 4, memoryBytes: 8 * GIB })).toHaveProperty("worker")
    }))
    expect(started).toBeGreaterThan(100)
    expect(refused).toBeGreaterThan(100)
  })
})
