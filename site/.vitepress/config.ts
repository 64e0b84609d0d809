/**
 * The documentation site. `pnpm site` serves it and `pnpm site build` builds it into site/dist; both run scripts/site.ts.
 */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join, relative, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { defineConfig, type MarkdownOptions } from "vitepress"
import type * as DocLinks from "../../scripts/doc-links.ts"
import type * as SitePages from "../../scripts/site-pages.ts"

const root = resolve(import.meta.dirname, "../..")

// Node imports these at run time, because VitePress bundles this file without knowing the repository's language level.
const script = (name: string) => pathToFileURL(join(root, "scripts", name)).href
const { slugOf }: typeof DocLinks = await import(script("doc-links.ts"))
const { fileOf, pagesIn, sidebarOf, targetOf }: typeof SitePages = await import(script("site-pages.ts"))

/** Pages outside this folder import Vue, which only VitePress depends on. */
const fromVitePress = createRequire(createRequire(import.meta.url).resolve("vitepress/package.json"))

/** The address of the repository's files, when package.json names the repository. */
const repository: string | undefined = (() => {
  const { repository } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const url = typeof repository === "string" ? repository : repository?.url
  return url?.replace(/^git\+/, "").replace(/\.git$/, "")
})()

/** Adapts a page's links to the site. Links to other files in the repository become plain text when the repository has no address. */
const links: NonNullable<MarkdownOptions["config"]> = (md) => {
  md.core.ruler.push("repository-links", (state) => {
    const page = relative(root, state.env.realPath ?? state.env.path)
    for (const { children } of state.tokens) {
      let plain = false
      for (const token of children ?? []) {
        if (token.type === "link_close" && plain) {
          token.tag = "span"
          plain = false
        }
        const href = token.type === "link_open" ? token.attrGet("href") : null
        const target = href === null ? undefined : targetOf(root, page, href)
        if (target === undefined) continue
        if (target.to === "site") token.attrSet("href", target.path)
        else if (repository !== undefined) token.attrSet("href", `${repository}/blob/main/${target.path}`)
        else {
          token.type = "file_open"
          token.tag = "span"
          token.attrs = [["class", "repository-file"], ["title", target.path]]
          plain = true
        }
      }
    }
  })
}

export default defineConfig({
  title: "Stint",
  description: "Typed serverless jobs on your own machines",
  lang: "en",
  srcDir: root,
  // All Markdown that is not a page (PAGES).
  srcExclude: ["README.md", "**/CHANGELOG.md", ".*/**", "{apps,benchmarks,examples,scripts}/**", "packages/*/!(README.md)/**"],
  outDir: resolve(import.meta.dirname, "../dist"),
  cacheDir: resolve(import.meta.dirname, "cache"),
  rewrites: Object.fromEntries(pagesIn(root).map((page) => [page, fileOf(page)])),
  cleanUrls: true,
  // Search engines and link previews do not matter for a site that runs on the reader's machine.
  head: [["link", { rel: "icon", href: "data:," }]],
  markdown: { config: links, anchor: { slugify: slugOf }, theme: { light: "github-light", dark: "github-dark" } },
  vite: {
    resolve: {
      alias: [
        { find: /^vue$/, replacement: fromVitePress.resolve("vue/dist/vue.runtime.esm-bundler.js") },
        {
          find: /^vue\/server-renderer$/,
          replacement: resolve(fromVitePress.resolve("vue/package.json"), "../server-renderer/index.mjs")
        }
      ]
    },
    build: { chunkSizeWarningLimit: 2_000 },
    server: { fs: { allow: [root] } }
  },
  themeConfig: {
    outline: { level: [2, 3] },
    search: { provider: "local" },
    sidebar: sidebarOf(root),
    nav: [
      { text: "Tutorial", link: "/learning/your-own-handler" },
      { text: "How-to", link: "/learning/write-a-worker" },
      { text: "Operate", link: "/operations/" },
      { text: "Reference", link: "/reference/" },
      { text: "How it works", link: "/introduction/" }
    ],
    docFooter: { prev: "Previous", next: "Next" },
    ...(repository === undefined ? {} : { socialLinks: [{ icon: "github", link: repository }] })
  }
})
