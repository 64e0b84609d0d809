/**
 * Builds the client for browsers, measures the bundle, and runs it with only the globals of a browser.
 */
import { build } from "esbuild"
import { join, resolve } from "node:path"
import { createContext, runInContext } from "node:vm"
import { gzipSync } from "node:zlib"
import { describe, expect, it } from "vitest"
import { json, noEvents, respondWith, ScriptedServer } from "../src/testing/ScriptedServer.ts"

const folder = resolve(import.meta.dirname, "..")

const bundle = (contents: string, options: { readonly splitting: boolean; readonly format: "esm" | "iife" }) =>
  build({
    stdin: { contents, resolveDir: import.meta.dirname, loader: "ts" },
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    // The build fails if anything imports a Node module.
    platform: "browser",
    outdir: join(folder, "dist-test"),
    logLevel: "silent",
    globalName: "stint",
    ...options
  })

describe("the promise client in a browser", () => {
  it("is smaller than 10 KB, minified and gzipped, and contains no other package", async () => {
    const { metafile, outputFiles } = await bundle("export { createClient } from \"../src/index.ts\"", {
      splitting: true,
      format: "esm"
    })
    const sources = Object.keys(metafile.inputs)
    expect(sources.some((source) => source.endsWith("src/PromiseClient.ts"))).toBe(true)
    expect(sources.filter((source) => source !== "<stdin>" && !source.startsWith("packages/client/src/"))).toEqual([])
    const size = outputFiles.reduce((sum, { contents }) => sum + gzipSync(contents, { level: 9 }).byteLength, 0)
    expect(size).toBeGreaterThan(1_000)
    expect(size).toBeLessThan(10_000)
  })

  it("runs a job and streams another without Node", async () => {
    const { outputFiles } = await bundle("export { createClient } from \"../src/index.ts\"", { splitting: false, format: "iife" })
    const page = { output: "x" }
    await using server = await ScriptedServer.start(
      json({ id: "j1", status: "COMPLETED", output: { greeting: "Hello" } }),
      json({ id: "j2", status: "IN_QUEUE" }),
      respondWith(200, `id: 1\nevent: chunk\ndata: {"attempt":1,"number":1,"output":"é"}\n\nid: 2`, {
        "content-type": "text/event-stream"
      }),
      noEvents,
      json({ id: "j2", status: "IN_PROGRESS", stream: [page] }),
      json({ id: "j2", status: "COMPLETED", stream: [page, page] })
    )
    const browser = createContext({
      fetch,
      URL,
      AbortController,
      setTimeout,
      clearTimeout,
      performance,
      TextDecoder,
      location: { href: `${server.url}/app/index.html` }
    })
    runInContext(outputFiles[0]!.text, browser)
    const seen: unknown = await runInContext(
      `(async () => {
        const endpoint = stint.createClient({ baseUrl: "/" }).endpoint("hello")
        const output = await endpoint.runSync({ name: "Ada" })
        const chunks = []
        for await (const chunk of endpoint.stream({ from: 3 })) chunks.push(chunk)
        return JSON.stringify({ output, chunks })
      })()`,
      browser
    )
    expect(JSON.parse(String(seen))).toEqual({ output: { greeting: "Hello" }, chunks: ["é", "x", "x", "x"] })
    expect(server.received.map(({ headers, url }) => [url.split("?")[0], headers.authorization])).toEqual([
      ["/v2/hello/runsync", undefined],
      ["/v2/hello/run", undefined],
      ["/v2/hello/events/j2", undefined],
      ["/v2/hello/events/j2", undefined],
      ["/v2/hello/stream/j2", undefined],
      ["/v2/hello/stream/j2", undefined]
    ])
  })
})
