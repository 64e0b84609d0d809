import { readFileSync } from "node:fs"
import { expect, it } from "vitest"
import { PAGE, reliabilityPage } from "../reliability-page.ts"

it("docs/reliability is as `node scripts/reliability-page.ts` writes it, with a row for each invariant", () => {
  const page = reliabilityPage()
  expect(readFileSync(PAGE, "utf8")).toBe(page)
  expect([...page.matchAll(/^\| (R\d+) /gm)].map(([, id]) => id)).toEqual(Array.from({ length: 15 }, (_, at) => `R${at + 1}`))
})
