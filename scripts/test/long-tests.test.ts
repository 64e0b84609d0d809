import { existsSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { aloneTests, orderOf, pairedTests } from "../long-tests.ts"
import { root } from "../workspace.ts"

it("names each file of the long tier that runs beside others once, and only files that exist", () => {
  expect(pairedTests.length).toBeGreaterThan(0)
  expect(new Set(pairedTests).size).toBe(pairedTests.length)
  expect(pairedTests.filter((file) => !file.endsWith(".long.test.ts") || !existsSync(join(root, file)))).toEqual([])
})

it("orders the files that run alone by the commit, and leaves none out", () => {
  const files = aloneTests()
  expect(files).toContain("apps/cli/test/Crashes.long.test.ts")
  expect(files.filter((file) => pairedTests.includes(file))).toEqual([])
  const orders = ["a", "b"].map((seed) => orderOf(files, seed))
  for (const order of orders) expect(order.toSorted()).toEqual(files.toSorted())
  expect(orders[0]).not.toEqual(orders[1])
  expect(orderOf(files, "a")).toEqual(orders[0])
})
