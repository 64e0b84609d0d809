/**
 * The TypeScript blocks of the documentation: those that are marked `ts`.
 *
 * A block is a module of its own. What it takes for granted stands before it in a comment, which readers do not see:
 *
 * ```
 *   <!-- given
 *   import * as sdk from "@stint/sdk"
 *   declare const resize: (file: string) => Promise<Uint8Array>
 *   -->
 *
 *   <!-- follows -->            continues the block before it, with everything that this one had
 *   <!-- file: report.ts -->    other blocks of the page can import it as ./report.ts
 * ```
 */
import { globSync } from "node:fs"

/** One block, as a module. */
export interface Block {
  /** Those of the page; all lines outside the block are blank, so that a line keeps its number. */
  readonly lines: ReadonlyArray<string>
  /** Where its code begins, from 1. */
  readonly first: number
  readonly file: string | undefined
}

/** The blocks of a page. */
export const blocksOf = (source: string): ReadonlyArray<Block> => {
  const blocks: Array<Block> = []
  let inside: "text" | "given" | "code" | "other" = "text"
  let own: Array<readonly [number, string]> = []
  let file: string | undefined
  let follows = false
  let first = 0
  for (const [index, line] of source.split("\n").entries()) {
    switch (inside) {
      case "text":
        if (line === "<!-- given") inside = "given"
        else if (line === "<!-- follows -->") follows = true
        else if (line.startsWith("<!-- file: ")) file = line.split(" ")[2]
        else if (line === "```ts") {
          inside = "code"
          first = index + 2
        } else if (line.startsWith("```")) inside = "other"
        break
      case "given":
        if (line === "-->") inside = "text"
        else own.push([index, line])
        break
      case "code":
        if (line !== "```") {
          own.push([index, line])
          break
        }
        {
          const lines = Array.from({ length: index }, (_, at) => follows ? blocks.at(-1)?.lines[at] ?? "" : "")
          for (const [at, text] of own) lines[at] = text
          blocks.push({ lines, first, file })
        }
        own = []
        file = undefined
        follows = false
        inside = "text"
        break
      case "other":
        if (line === "```") inside = "text"
        break
    }
  }
  return blocks
}

/** The pages whose blocks are compiled, from the root of the workspace. */
export const pagesOf = (root: string): ReadonlyArray<string> =>
  globSync(["README.md", "docs/**/*.md", "{packages,apps}/*/README.md"], { cwd: root }).toSorted()
