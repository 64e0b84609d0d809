import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { figuresOf } from "../src/PrintedTables.ts"
import { rows } from "../src/Rows.ts"

const file = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url))

describe("`pnpm bench`", () => {
  it("knows every row on the page of figures, and each row has benchmarks or says where its figure comes from", () => {
    const page = readFileSync(file("../docs/spec/figures.md"), "utf8")
    expect(rows.map(({ id }) => id)).toEqual([...page.matchAll(/^\| (P\d+)/gm)].map(([, id]) => id))
    const scripts = rows.flatMap(({ benchmarks }) => benchmarks.map(({ script }) => script))
    expect(scripts.length).toBeGreaterThan(8)
    expect(scripts.filter((script) => !existsSync(file(`src/${script}.ts`)))).toEqual([])
    expect(rows.filter(({ benchmarks, elsewhere }) => (benchmarks.length === 0) !== (elsewhere !== undefined))).toEqual([])
  })

  it("reads the figures in printed tables, and omits columns that are derived from others", () => {
    const output = `Worker loop at concurrency 1 (7 rounds, Node 26.10.0)

|        | median jobs/s | range         | ratio |
| ------ | ------------: | ------------: | ----: |
| bare   |          2100 |   2000 - 2200 | 1.00x |
| worker |          2205 |   2100 - 2300 | 1.05x |

Idle, 100 endpoints, 1 min each (Node 26.10.0)

|     | of a core | slope        |
| --- | --------: | -----------: |
| all |     4.1 % | 0.01 MiB/min |
`
    expect([...figuresOf(output)]).toEqual([
      ["Worker loop at concurrency 1: bare, median jobs/s", 2100],
      ["Worker loop at concurrency 1: worker, median jobs/s", 2205],
      ["Idle, 100 endpoints, 1 min each (Node 26.10.0): all, of a core", 4.1]
    ])
  })
})
