/**
 * The pages of the documentation site, their addresses and their order in the sidebar. The site has every page of docs/: a new page appears
 * in the sidebar of its folder without further registration.
 *
 * ```
 *   docs/learning/README.md    /learning/
 *   docs/learning/batch.md     /learning/batch
 *   CONTRIBUTING.md            /contributing
 *   packages/queue/README.md   /packages/queue
 *   site/index.md              /
 * ```
 */
import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join, posix } from "node:path"

/** A page, or a titled list of pages. */
export interface SidebarItem {
  readonly text: string
  readonly link?: string
  readonly items?: Array<SidebarItem>
  readonly collapsed?: boolean
}

interface Section {
  readonly text: string
  /** Globs of paths from the root of the repository. Pages that match an earlier glob come first. */
  readonly pages: ReadonlyArray<string>
  readonly collapsed?: boolean
}

/**
 * The sidebar: first what a new user does, then tasks, then reference, then reasons. A page is in the first section that matches it, so a
 * section for single pages comes before the section for their folder.
 */
const CHAPTERS: ReadonlyArray<{ readonly text: string; readonly sections: ReadonlyArray<Section> }> = [
  {
    text: "Tutorial",
    sections: [{
      text: "Start here",
      pages: ["docs/learning/your-own-handler.md", "docs/learning/README.md", "docs/introduction/!(README).md"]
    }]
  },
  {
    text: "How-to guides",
    sections: [
      { text: "Write and call endpoints", pages: ["docs/learning/*.md"] },
      { text: "Operate a platform", pages: ["docs/operations/**/*.md"] },
      { text: "Extend Stint", pages: ["docs/extending/*.md"], collapsed: true }
    ]
  },
  {
    text: "Reference",
    sections: [
      { text: "APIs, CLI, settings", pages: ["docs/reference/*.md"] },
      {
        text: "Proof",
        pages: ["docs/reliability/*.md", "docs/benchmarks/*.md", "docs/benchmarks/reports/*.md"],
        collapsed: true
      },
      { text: "Plugins of the worker", pages: ["docs/reference/plugins/*.md"], collapsed: true },
      { text: "Specification", pages: ["docs/spec/*.md"], collapsed: true },
      { text: "Packages", pages: ["packages/*/README.md"], collapsed: true }
    ]
  },
  {
    text: "Explanation",
    sections: [
      { text: "How Stint works", pages: ["docs/introduction/README.md", "SECURITY.md", "CONTRIBUTING.md"] },
      { text: "Decisions", pages: ["docs/decisions/*.md"], collapsed: true }
    ]
  }
]

/** The globs of all pages. */
const PAGES = ["docs/**/*.md", "packages/*/README.md", "{CONTRIBUTING,SECURITY}.md", "site/index.md"]

const HOME = "site/index.md"

/** The paths of all pages, from the root of the repository. */
export const pagesIn = (root: string): ReadonlyArray<string> => globSync(PAGES, { cwd: root }).toSorted()

/** The address of a page on the site. */
export const addressOf = (page: string): string => {
  if (page === HOME) return "/"
  const path = page.replace(/^docs\//, "").replace(/\.md$/, "")
  if (path.startsWith("packages/")) return `/${dirname(path)}`
  return `/${path.endsWith("README") ? path.slice(0, -"README".length) : path === path.toUpperCase() ? path.toLowerCase() : path}`
}

/** The file that VitePress would have at the page's address. */
export const fileOf = (page: string): string => `${addressOf(page).slice(1).replace(/(^|\/)$/, "$1index")}.md`

/** The first heading of a page, without Markdown marks. */
export const titleOf = (source: string): string =>
  (/^# +(.+)$/m.exec(source)?.[1] ?? "").replaceAll(/\[([^\]]*)\]\([^)]*\)|[`*]/g, "$1").trim()

/** The pages that a page links to, in order. */
const linksIn = (page: string, source: string): ReadonlyArray<string> =>
  Array.from(source.matchAll(/\]\(([^)#\s]+\.md)/g), ([, target = ""]) => posix.join(posix.dirname(page), target))

/**
 * The sidebar. Within a section, the folder's README comes first, followed by the pages in the order in which it links to them, and then by
 * the other pages in alphabetical order. Throws when a page is in no section.
 */
export const sidebarOf = (root: string): Array<SidebarItem> => {
  const rest = new Set(pagesIn(root).filter((page) => page !== HOME))
  const read = (page: string) => readFileSync(join(root, page), "utf8")
  const chapters = CHAPTERS.map(({ sections, text }) => ({
    text,
    sections: sections.map((section) => ({
      ...section,
      found: section.pages.map((pattern) =>
        [...rest].filter((page) => posix.matchesGlob(page, pattern)).map((page) => {
          rest.delete(page)
          return page
        })
      )
    }))
  }))
  if (rest.size > 0) {
    throw new Error(
      `${[...rest].join(", ")}: not in the sidebar of the site. Add the folder to CHAPTERS in scripts/site-pages.ts.`
    )
  }
  /** The pages of one glob, in their order in the sidebar. */
  const ordered = (pages: ReadonlyArray<string>): ReadonlyArray<string> => {
    const readme = posix.join(posix.dirname(pages[0] ?? ""), "README.md")
    const order = existsSync(join(root, readme)) ? [readme, ...linksIn(readme, read(readme))] : []
    const rank = (page: string) => order.includes(page) ? order.indexOf(page) : order.length
    return pages.toSorted((left, right) => rank(left) - rank(right) || left.localeCompare(right))
  }
  return chapters.map(({ sections, text }) => ({
    text,
    items: sections.map(({ collapsed, found, text }) => ({
      text,
      ...(collapsed === undefined ? {} : { collapsed }),
      items: found.flatMap(ordered).map((page) => ({ text: titleOf(read(page)), link: addressOf(page) }))
    }))
  }))
}

/**
 * The target of a relative link: a page of the site, or another file of the repository. Throws for a dead link.
 *
 * @returns `site` with an address, `file` with a path from the root, or undefined for a link that stays as it is
 */
export const targetOf = (
  root: string,
  page: string,
  link: string
): { readonly to: "site" | "file"; readonly path: string } | undefined => {
  if (/^(?:[a-z][a-z0-9+.-]*:|\/|#)/i.test(link)) return undefined
  const [path = "", anchor] = link.split("#", 2)
  const target = posix.join(posix.dirname(page), decodeURI(path)).replace(/\/$/, "")
  const hash = anchor === undefined ? "" : `#${anchor}`
  for (const candidate of [target, `${target}/README.md`]) {
    const isPage = PAGES.some((pattern) => posix.matchesGlob(candidate, pattern)) && existsSync(join(root, candidate))
    if (isPage) return { to: "site", path: addressOf(candidate) + hash }
  }
  if (!existsSync(join(root, target))) {
    throw new Error(`${page}: the link "${link}" is dead. ${target} does not exist.`)
  }
  return { to: "file", path: target + hash }
}
