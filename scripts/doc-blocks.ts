/**
 * Reads the code blocks of the documentation, and the HTML comments that say how to compile and run them. Readers do not see the
 * comments. A comment applies to the next block:
 *
 * ```
 *   <!-- given                  TypeScript that the block needs and does not show
 *   import * as sdk from "@stint/sdk"
 *   -->
 *
 *   <!-- follows -->            continues the previous TypeScript block and sees its declarations
 *   <!-- file: report.ts -->    saves the block; other TypeScript blocks of the page can import it as ./report.ts
 * ```
 *
 * check-docs.ts compiles the TypeScript blocks, and doc-runner.ts, which documents the other comments, runs all blocks.
 */
import { globSync } from "node:fs"

/** One TypeScript block, as a module. */
export interface Block {
  /** All lines of the page. Lines outside the block are blank, so that each line keeps its number. */
  readonly lines: ReadonlyArray<string>
  /** The number of the line on which the code starts, from 1. */
  readonly first: number
  readonly file: string | undefined
}

/** A code block of any language, or the lines of a `<!-- shell` comment, with the comments before it. */
export interface Fence {
  /** `sh`, `ts`, `json`, ... Empty when the block has none. */
  readonly language: string
  /** True for a `<!-- shell` comment, which readers do not see. */
  readonly isHidden: boolean
  /** The number of the line on which the code starts, from 1. */
  readonly first: number
  readonly lines: ReadonlyArray<string>
  /** The comments `<!-- name: value -->` before the block, in order. */
  readonly marks: ReadonlyArray<readonly [name: string, value: string]>
  /** The lines of the `<!-- given` comments before the block, with their positions from 0. */
  readonly given: ReadonlyArray<readonly [number, string]>
  /** The number of headings before the block. */
  readonly section: number
}

/** The code blocks of a page, in order. */
export const fencesOf = (source: string): ReadonlyArray<Fence> => {
  const fences: Array<Fence> = []
  let section = 0
  let marks: Array<readonly [string, string]> = []
  let given: Array<readonly [number, string]> = []
  let open: { language: string; isHidden: boolean; first: number; end: string; lines: Array<string> } | undefined
  let comment: "given" | "other" | undefined
  for (const [index, line] of source.split("\n").entries()) {
    if (open !== undefined) {
      if (line !== open.end) {
        open.lines.push(line)
        continue
      }
      const { first, isHidden, language, lines } = open
      fences.push({ language, isHidden, first, lines, marks, given: isHidden ? [] : given, section })
      marks = []
      if (!isHidden) given = []
      open = undefined
    } else if (comment !== undefined) {
      if (line === "-->") comment = undefined
      else if (comment === "given") given.push([index, line])
    } else if (line.startsWith("```")) {
      open = { language: line.slice(3).trim(), isHidden: false, first: index + 2, end: "```", lines: [] }
    } else if (line === "<!-- shell") {
      open = { language: "sh", isHidden: true, first: index + 2, end: "-->", lines: [] }
    } else if (line.startsWith("<!--")) {
      const [, name, value] = /^<!-- ([a-z]+)(?:: *(.*?))? *-->$/.exec(line) ?? []
      if (name !== undefined) marks.push([name, value ?? ""])
      else if (!line.endsWith("-->")) comment = line === "<!-- given" ? "given" : "other"
    } else if (/^#+ /.test(line)) {
      section += 1
    }
  }
  return fences
}

/** The value of a comment before a block. Empty for a comment without a value, undefined without the comment. */
export const markOf = (fence: Fence, name: string): string | undefined => fence.marks.find(([one]) => one === name)?.[1]

/** The TypeScript blocks of a page. */
export const blocksOf = (source: string): ReadonlyArray<Block> => {
  const blocks: Array<Block> = []
  for (const fence of fencesOf(source)) {
    if (fence.language !== "ts") continue
    const { first, given } = fence
    const previous = markOf(fence, "follows") === undefined ? [] : blocks.at(-1)?.lines ?? []
    const lines = Array.from({ length: first - 1 + fence.lines.length }, (_, at) => previous[at] ?? "")
    for (const [at, text] of given) lines[at] = text
    for (const [at, text] of fence.lines.entries()) lines[first - 1 + at] = text
    blocks.push({ lines, first, file: markOf(fence, "file") })
  }
  return blocks
}

/** The pages whose blocks are compiled, relative to the root of the workspace. */
export const pagesOf = (root: string): ReadonlyArray<string> =>
  globSync(["README.md", "docs/**/*.md", "{packages,apps}/*/README.md"], { cwd: root }).toSorted()
