import { assert, describe, it } from "@effect/vitest"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { addressOf, fileOf, pagesIn, type SidebarItem, sidebarOf, targetOf } from "../site-pages.ts"
import { root } from "../workspace.ts"

const linksOf = (items: ReadonlyArray<SidebarItem>): ReadonlyArray<string> =>
  items.flatMap(({ items = [], link }) => [...(link === undefined ? [] : [link]), ...linksOf(items)])

/** Calls a function with a folder that contains these pages. */
const withPages = (pages: Readonly<Record<string, string>>, use: (folder: string) => void) => {
  const folder = mkdtempSync(join(tmpdir(), "stint-site-"))
  try {
    for (const [path, text] of Object.entries(pages)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    }
    use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe("the pages of the site", () => {
  it("are all in the sidebar, each once and with a title", () => {
    const sidebar = sidebarOf(root)
    const pages = pagesIn(root).filter((page) => page !== "site/index.md")
    assert.isAbove(pages.length, 60)
    assert.deepStrictEqual(linksOf(sidebar).toSorted(), pages.map(addressOf).toSorted())
    assert.deepStrictEqual(sidebar.map(({ text }) => text), ["Tutorial", "How-to guides", "Reference", "Explanation"])
    const titles = sidebar.flatMap(({ items = [] }) => items.flatMap(({ items = [] }) => items.map(({ text }) => text)))
    for (const title of titles) assert.match(title, /^\S.*\S$/)
  })

  it("are in the order in which the README of their folder links to them", () => {
    withPages({
      "docs/operations/README.md": "# Operations\n\n[z](z.md) and [b](b.md#part)\n",
      "docs/operations/a.md": "# A\n",
      "docs/operations/b.md": "# B\n",
      "docs/operations/z.md": "# Z of `code`\n"
    }, (folder) => {
      assert.deepStrictEqual(linksOf(sidebarOf(folder)), ["/operations/", "/operations/z", "/operations/b", "/operations/a"])
    })
  })

  it("fail the build when no section contains them", () => {
    withPages({ "docs/nowhere/page.md": "# A page\n" }, (folder) => {
      assert.throws(() => sidebarOf(folder), /docs\/nowhere\/page\.md: not in the sidebar/)
    })
  })

  it("have the address that matches their file", () => {
    const addresses = [
      "docs/learning/README.md",
      "docs/learning/batch.md",
      "packages/queue/README.md",
      "CONTRIBUTING.md",
      "site/index.md"
    ]
      .map((page) => [addressOf(page), fileOf(page)])
    assert.deepStrictEqual(addresses, [
      ["/learning/", "learning/index.md"],
      ["/learning/batch", "learning/batch.md"],
      ["/packages/queue", "packages/queue.md"],
      ["/contributing", "contributing.md"],
      ["/", "index.md"]
    ])
  })

  it("link to other pages by address, and to the rest of the repository by path", () => {
    const target = (link: string) => targetOf(root, "docs/learning/README.md", link)
    assert.deepStrictEqual(target("../spec/handler.md#facade"), { to: "site", path: "/spec/handler#facade" })
    assert.deepStrictEqual(target("../operations/"), { to: "site", path: "/operations/" })
    assert.deepStrictEqual(target("../../packages/queue/README.md"), { to: "site", path: "/packages/queue" })
    assert.deepStrictEqual(target("../../examples/"), { to: "file", path: "examples" })
    assert.deepStrictEqual(target("../../scripts/arrows.ts"), { to: "file", path: "scripts/arrows.ts" })
    for (const link of ["nowhere.md", "../operations/nothing"]) {
      assert.throws(() => target(link), `docs/learning/README.md: the link "${link}" is dead.`)
    }
    for (const link of ["https://effect.website", "#streaming", "/openapi.json"]) assert.isUndefined(target(link))
  })
})
