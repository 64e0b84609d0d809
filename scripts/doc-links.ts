/**
 * Checks the links of the documentation: citations of pages in TypeScript, and relative links in Markdown. The linked file must exist, and
 * if the link has an anchor, the heading must exist too.
 */
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve } from "node:path"
import { root } from "./workspace.ts"

const FOLDERS = "{docs,packages,apps,examples,benchmarks,scripts}/**"

const filesOf = (extension: string): ReadonlyArray<string> =>
  globSync([`*.${extension}`, `${FOLDERS}/*.${extension}`], {
    cwd: root,
    // Excluded, because the scripts' tests contain pages from a workspace that does not exist.
    exclude: ["**/node_modules", "**/dist", "**/.stint", "scripts/test"]
  })

const linesOf = (file: string): ReadonlyArray<string> => readFileSync(join(root, file), "utf8").split("\n")

/** The lines of a page. Lines of code blocks are blank, so that each line keeps its number. */
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

/** The anchor that GitHub generates for a heading without links. GitHub numbers repeated anchors of a page: `a`, `a-1`. */
export const slugOf = (heading: string): string =>
  heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, "").replaceAll(" ", "-")

/** The anchors of a page's headings. */
const anchorsOf = (page: string): ReadonlySet<string> => {
  const anchors = new Set<string>()
  for (const line of textOf(page)) {
    const [, heading] = /^#{1,6}\s+(.*?)\s*#*$/.exec(line) ?? []
    if (heading === undefined) continue
    const anchor = slugOf(heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"))
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

/** A link. Its target is relative to the folder `from`: the root, or the folder of the file. */
interface Link {
  readonly file: string
  readonly line: number
  readonly target: string
  readonly from: string
}

/** A citation is the path of a page relative to the root, with an anchor if it cites a section. */
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

/** Returns one line for each broken link: `file:line: problem (link)`. */
export const brokenLinks = (): ReadonlyArray<string> =>
  [...filesOf("ts").flatMap(citationsOf), ...filesOf("md").flatMap(linksOf)].flatMap((link) => {
    const problem = problemOf(link)
    return problem === undefined ? [] : [`${link.file}:${link.line}: ${problem} (${link.target})`]
  })
