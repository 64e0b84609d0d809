/**
 * Checks the links of the documentation: citations of a page in TypeScript, and relative links in Markdown. The file that a link names has to exist,
 * and, where the link has an anchor, so has the heading.
 */
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { root } from "./workspace.ts"

const FOLDERS = "{docs,packages,examples,benchmarks,scripts}/**"

const filesOf = (extension: string): ReadonlyArray<string> =>
  globSync([`*.${extension}`, `${FOLDERS}/*.${extension}`], {
    cwd: root,
    exclude: ["**/node_modules", "**/dist", "**/.stint"]
  })

const linesOf = (file: string): ReadonlyArray<string> => readFileSync(join(root, file), "utf8").split("\n")

/** The lines of a page. Those of code blocks are blank, so that each keeps its number. */
const textOf = (page: string): ReadonlyArray<string> => {
  let fence: string | undefined
  return linesOf(page).map((line) => {
    const [, marks] = /^\s*(`{3,}|~{3,})/.exec(line) ?? []
    if (fence === undefined) {
      fence = marks
      return marks === undefined ? line : ""
    }
    if (marks !== undefined && line.trim() === marks && marks.startsWith(fence)) fence = undefined
    return ""
  })
}

/** The anchors of a page's headings, as GitHub makes them. */
const anchorsOf = (page: string): ReadonlySet<string> => {
  const anchors = new Set<string>()
  for (const line of textOf(page)) {
    const [, heading] = /^#{1,6}\s+(.*?)\s*#*$/.exec(line) ?? []
    if (heading === undefined) continue
    const text = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase()
    const anchor = text.replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, "").replaceAll(" ", "-")
    let unique = anchor
    for (let count = 1; anchors.has(unique); count++) unique = `${anchor}-${count}`
    anchors.add(unique)
  }
  return anchors
}

const known = new Map<string, ReadonlySet<string>>()

const hasAnchor = (page: string, anchor: string): boolean => {
  const anchors = known.get(page) ?? anchorsOf(page)
  known.set(page, anchors)
  return anchors.has(anchor)
}

/** A link as it was found: its target is a path from the root, or from the folder of its file. */
interface Link {
  readonly file: string
  readonly line: number
  readonly target: string
  readonly from: string
}

/** Citations name a page by its path from the root: a file and, if the citation is of a section, its anchor. */
const CITATION = /(?<![\w/.-])(?:\.{1,2}\/)*(docs\/[\w/-]+\.md(?:#[\w-]+)?)/g

const citationsOf = (file: string): ReadonlyArray<Link> =>
  linesOf(file).flatMap((line, index) =>
    Array.from(line.matchAll(CITATION), ([, target = ""]) => ({ file, line: index + 1, target, from: root }))
  )

/** `[text](target)`, `![text](target)` and `[name]: target`. */
const LINK = /\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)|^\s*\[[^\]]+\]:\s+(\S+)/g

const isRelative = (target: string): boolean => !/^(?:[a-z][a-z0-9+.-]*:|\/\/)/i.test(target)

const linksOf = (file: string): ReadonlyArray<Link> =>
  textOf(file).flatMap((line, index) =>
    Array.from(line.replaceAll(/`[^`]*`/g, "").matchAll(LINK), ([, inline, defined]) => inline ?? defined ?? "")
      .filter(isRelative)
      .map((target) => ({ file, line: index + 1, target, from: dirname(join(root, file)) }))
  )

const problemOf = ({ file, from, target }: Link): string | undefined => {
  const [path = "", anchor] = target.split("#", 2)
  const found = path === "" ? join(root, file) : resolve(from, decodeURI(path))
  const name = relative(root, found)
  if (!existsSync(found)) return `${name} does not exist`
  if (anchor === undefined || !found.endsWith(".md") || hasAnchor(name, anchor)) return undefined
  return `${name} has no heading #${anchor}`
}

/** A line for each link that leads nowhere: `file:line: what is missing (the link)`. */
export const brokenLinks = (): ReadonlyArray<string> =>
  [...filesOf("ts").flatMap(citationsOf), ...filesOf("md").flatMap(linksOf)].flatMap((link) => {
    const problem = problemOf(link)
    return problem === undefined ? [] : [`${link.file}:${link.line}: ${problem} (${link.target})`]
  })
