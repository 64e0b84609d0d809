/**
 * The settings of knip: those of knip.json, and the blocks of the documentation as code. What a block imports is used.
 *
 * An exported name is used when another file names it: a module, a test, an example, a benchmark or a block. A name that is public although
 * nothing here names it has `@public` in its doc comment. The names that a src/index.ts re-exports are public: it lists the package.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { blocksOf } from "./doc-blocks.ts"
import { root } from "./workspace.ts"

export default {
  ...JSON.parse(readFileSync(join(root, "knip.json"), "utf8")),
  compilers: { md: (source: string) => blocksOf(source).flatMap(({ lines }) => lines).join("\n") }
}
