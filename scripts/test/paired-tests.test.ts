import { existsSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { pairedTests } from "../paired-tests.ts"
import { root } from "../workspace.ts"

it("names each file of the long tier that runs beside others once, and only files that exist", () => {
  expect(pairedTests.length).toBeGreaterThan(0)
  expect(new Set(pairedTests).size).toBe(pairedTests.length)
  expect(pairedTests.filter((file) => !file.endsWith(".long.test.ts") || !existsSync(join(root, file)))).toEqual([])
})
