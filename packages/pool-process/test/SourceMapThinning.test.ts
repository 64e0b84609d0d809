import { assert, describe, it } from "@effect/vitest"
import { build } from "esbuild"
import { SourceMap } from "node:module"
import { basename, join } from "node:path"
import { sourcesOf, thin } from "../src/SourceMapThinning.ts"
import { folder, fresh, script } from "./TestProcesses.ts"

/** A bundle of a user's file and a library's file, with its source map. */
const bundleOf = async () => {
  const library = script(
    `export const outer = (text: string) => {\n  const inner = (word: string) => word.repeat(2) + word.length\n  return inner(text) + inner("x")\n}\n`,
    `${fresh("library")}.ts`
  )
  const user = script(
    `import { outer } from "./${
      basename(library)
    }"\nexport const handler = (job: { input: string }) =>\n  outer(job.input) + outer("y")\n` +
      `console.log(handler({ input: "z" }), /* a comment */ outer("w"))\n`
  )
  const { outputFiles } = await build({
    entryPoints: [user],
    bundle: true,
    minifyIdentifiers: true,
    format: "esm",
    sourcemap: "external",
    sourcesContent: false,
    outdir: join(folder, "out"),
    write: false
  })
  const [map = "", code = ""] = [".map", ".js"].map((end) => outputFiles.find(({ path }) => path.endsWith(end))?.text)
  return { map, code, library: basename(library) }
}

/** The entry that applies to a position of the bundle. */
const entryAt = (map: SourceMap, line: number, column: number) => {
  const entry = map.findEntry(line, column)
  return "originalSource" in entry ? entry : undefined
}

describe("thin source maps", () => {
  it("keep the position of every token of the user's files, and the line of every token of the others", async () => {
    const { code, library, map } = await bundleOf()
    const thinned = thin(map, (source) => source.endsWith(library))
    assert.deepStrictEqual(sourcesOf(thinned), sourcesOf(map))
    const [before, after] = [new SourceMap(JSON.parse(map)), new SourceMap(JSON.parse(thinned))]
    let users = 0
    let others = 0
    code.split("\n").forEach((text, line) => {
      for (let column = 0; column < text.length; column++) {
        const expected = entryAt(before, line, column)
        const found = entryAt(after, line, column)
        if (expected?.originalSource.endsWith(library) === true) {
          others += 1
          assert.deepStrictEqual([found?.originalSource, found?.originalLine], [expected.originalSource, expected.originalLine])
        } else {
          users += 1
          assert.deepStrictEqual(found, expected, `line ${line}, column ${column}`)
        }
      }
    })
    assert.isTrue(users > 50 && others > 50)
    assert.isBelow(thinned.length, map.length)
  })

  it("are the same maps when every source keeps all of its entries", async () => {
    const { map } = await bundleOf()
    assert.deepStrictEqual(JSON.parse(thin(map, () => false)), JSON.parse(map))
  })
})
