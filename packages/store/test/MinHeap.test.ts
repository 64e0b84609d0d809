import * as fc from "fast-check"
import { assert, it } from "vitest"
import * as MinHeap from "../src/memory/MinHeap.ts"

it("pops the smallest value first after any sequence of pushes and pops", () => {
  const operation = fc.oneof({ weight: 3, arbitrary: fc.integer() }, { weight: 2, arbitrary: fc.constant("pop" as const) })
  fc.assert(fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
    const heap = MinHeap.make<number>((a, b) => a < b)
    let sorted: Array<number> = []
    for (const operation of operations) {
      if (operation === "pop") {
        assert.strictEqual(heap.pop(), sorted[0])
        sorted = sorted.slice(1)
      } else {
        heap.push(operation)
        sorted = [...sorted, operation].sort((a, b) => a - b)
      }
      assert.strictEqual(heap.peek(), sorted[0])
      assert.strictEqual(heap.size(), sorted.length)
    }
    for (const value of sorted) assert.strictEqual(heap.pop(), value)
    assert.strictEqual(heap.pop(), undefined)
  }))
})
