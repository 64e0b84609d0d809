/**
 * The settings of knip. They extend knip.json with the TypeScript blocks of the documentation, so that an import in a block counts as a
 * use.
 *
 * An exported name counts as used when another file uses it: a module, a test, an example, a benchmark or a block. A public name that no
 * file in this repository uses must have `@public` in its doc comment. Names that a src/index.ts re-exports are public.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { blocksOf } from "./doc-blocks.ts"
import { root } from "./workspace.ts"

export default {
  ...JSON.parse(readFileSync(join(root, "knip.json"), "utf8")),
  compilers: { md: (source: string) => blocksOf(source).flatMap(({ lines }) => lines).join("\n") }
}
