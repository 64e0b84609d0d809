/**
 * Reads the TypeScript blocks of the documentation, which are code blocks marked `ts`.
 *
 * Each block is a separate module. Declarations that the block uses but does not show are in an HTML comment before the block, which
 * readers do not see:
 *
 * ```
 *   <!-- given
 *   import * as sdk from "@stint/sdk"
 *   declare const resize: (file: string) => Promise<Uint8Array>
 *   -->
 *
 *   <!-- follows -->            continues the previous block and sees its declarations
 *   <!-- file: report.ts -->    other blocks of the page can import it as ./report.ts
 * ```
 */
import { globSync } from "node:fs"

/** One block, as a module. */
export interface Block {
  /** All lines of the page. Lines outside the block are blank, so that each line keeps its number. */
  readonly lines: ReadonlyArray<string>
  /** The number of the line on which the code starts, from 1. */
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

/** The pages whose blocks are compiled, relative to the root of the workspace. */
export const pagesOf = (root: string): ReadonlyArray<string> =>
  globSync(["README.md", "docs/**/*.md", "{packages,apps}/*/README.md"], { cwd: root }).toSorted()
