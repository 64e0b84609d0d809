import { expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as InFlightJobs from "../src/runtime/InFlightJobs.ts"

/** Reads the list as the heartbeat thread does. */
const read = (memory: SharedArrayBuffer): ReadonlyArray<string> => {
  const ids: Array<string> = []
  for (let start = 0; start < memory.byteLength; start += InFlightJobs.SLOT) {
    const [version = 1, length = 0] = new Int32Array(memory, start, 2)
    expect(version % 2).toBe(0)
    if (length > 0) ids.push(Buffer.from(new Uint8Array(memory, start + InFlightJobs.HEADER, length)).toString())
  }
  return ids.sort()
}

it("property: the list contains the jobs that were added and not released, however many there are", () => {
  const id = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 })
  const step = fc.oneof({ weight: 3, arbitrary: id.map((add) => ({ add })) }, fc.nat().map((release) => ({ release })))
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400, size: "max" }), (steps) => {
      const held = InFlightJobs.make()
      const model: Array<{ readonly id: string; readonly release: () => void }> = []
      for (const one of steps) {
        if ("add" in one) model.push({ id: one.add, release: held.add(one.add) })
        else model.splice(one.release % Math.max(1, model.length), 1)[0]?.release()
      }
      expect(read(held.memory)).toEqual(model.map((one) => one.id).sort())
    }),
    { numRuns: 50 }
  )
})

it("stores the lease token after the id", () => {
  const held = InFlightJobs.make()
  const release = held.add("x", "1.token")
  held.add("y")
  expect(read(held.memory)).toEqual(["x\n1.token", "y"])
  release()
  expect(read(held.memory)).toEqual(["y"])
})

it("omits an id that is too long and leaves its slot free", () => {
  const held = InFlightJobs.make()
  const release = held.add("x".repeat(InFlightJobs.SLOT))
  expect(read(held.memory)).toEqual([])
  release()
  held.add("y")
  expect(read(held.memory)).toEqual(["y"])
})
