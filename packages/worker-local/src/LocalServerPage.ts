/**
 * The documentation page of the local API: one file without anything from outside, readable in light and dark, with lines to paste
 * that have the real address in them, and a form to try the handler.
 */
import { shellWord } from "@stint/worker/TestInput"
import * as Schema from "effect/Schema"
import * as LocalJobQueue from "./LocalJobQueue.ts"
import type { LocalResponse } from "./LocalServerHttp.ts"

/** What the page is about. */
export interface PageOptions {
  /** The `Host` of the request: where the reader reached the API. */
  readonly host: string | undefined
  readonly port: number
  /** Of the SDK. */
  readonly version: string
  /** A body that the handler can be tried with, JSON text. */
  readonly sample: string
}

const ENTITIES: { readonly [character: string]: string } = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;"
}
const escape = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character)

const JSON_HEADER = "-H 'Content-Type: application/json'"

interface Route {
  readonly method: "GET" | "POST"
  readonly path: string
  readonly description: string
  readonly curl: (base: string, body: string) => string
}

const ROUTES: ReadonlyArray<Route> = [
  {
    method: "POST",
    path: "/runsync",
    description:
      "Runs a job and answers with its result. Waits up to 90 s, or ?wait=MS; a job that takes longer goes on, and /status has it.",
    curl: (base, body) => `curl -s -X POST ${base}/runsync ${JSON_HEADER} -d ${shellWord(body)}`
  },
  {
    method: "POST",
    path: "/run",
    description: "Starts a job and answers at once with its id. With \"webhook\" beside \"input\" the result is sent there.",
    curl: (base, body) => `curl -s -X POST ${base}/run ${JSON_HEADER} -d ${shellWord(body)}`
  },
  {
    method: "POST",
    path: "/status/{id}",
    description:
      "Waits for a job and answers with its result, up to 90 s, or ?wait=MS. With ?wait=0 it shows the latest progress under output.",
    curl: (base) => `curl -s -X POST ${base}/status/ID`
  },
  {
    method: "POST",
    path: "/stream/{id}",
    description:
      "What a generator has yielded and nobody has read. Waits for one chunk, up to 10 s, or ?wait=MS. Ask again until the status is an end.",
    curl: (base) => `curl -s -X POST ${base}/stream/ID`
  },
  {
    method: "POST",
    path: "/cancel/{id}",
    description: "Ends a job: one that waits is dropped, one that runs is stopped.",
    curl: (base) => `curl -s -X POST ${base}/cancel/ID`
  },
  {
    method: "GET",
    path: "/health",
    description: "Jobs and workers by state.",
    curl: (base) => `curl -s ${base}/health`
  }
]

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d8dce2, #343a44); --soft: light-dark(#f4f5f7, #1b1f26); --dim: light-dark(#5a6472, #9aa4b2); --ink: light-dark(#14181f, #e8ebf0); --accent: light-dark(#0b5fce, #7db4ff); --back: light-dark(#fff, #12151a) }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 56rem; padding: 2.5rem 1.25rem 4rem; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back) }
h1 { font-size: 1.6rem; margin: 0 0 .25rem } h2 { font-size: 1.1rem; margin: 2.5rem 0 .75rem }
p { margin: .25rem 0 .75rem } .dim { color: var(--dim) }
code, pre, textarea { font: 13.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
article { border: 1px solid var(--line); border-radius: 8px; padding: .75rem 1rem; margin: .75rem 0 }
article h3 { margin: 0 0 .25rem; font-size: 1rem } article h3 b { color: var(--accent); font-weight: 600; margin-right: .5rem }
pre { position: relative; margin: .5rem 0 0; padding: .6rem .75rem; background: var(--soft); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere }
textarea { width: 100%; min-height: 5rem; padding: .6rem .75rem; color: inherit; background: var(--soft); border: 1px solid var(--line); border-radius: 6px; resize: vertical }
button { font: inherit; padding: .4rem .9rem; margin: .5rem .5rem 0 0; border: 1px solid var(--line); border-radius: 6px; color: inherit; background: var(--soft); cursor: pointer }
button.first { color: var(--back); background: var(--accent); border-color: var(--accent) }
button:disabled { opacity: .5; cursor: default } :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
#answer:empty { display: none } #answer { max-height: 30rem; overflow: auto }
a { color: var(--accent) }
`

/** Runs in the page. A stream is read until the job has ended; everything else is one call. */
const SCRIPT = `
const input = document.getElementById("input"), answer = document.getElementById("answer")
const buttons = [...document.querySelectorAll("#try button")], stop = document.getElementById("stop")
let job, ended = true
const post = async (path, body) => {
  const response = await fetch(path, { method: "POST", body })
  return response.json()
}
const show = (value) => { answer.textContent += JSON.stringify(value, null, 2) + "\\n"; answer.scrollTop = answer.scrollHeight }
const isEnd = (status) => status !== "IN_QUEUE" && status !== "IN_PROGRESS"
const run = async (read) => {
  answer.textContent = ""
  ended = false
  for (const button of buttons) button.disabled = button !== stop
  try {
    const started = await post("/run", JSON.stringify({ input: JSON.parse(input.value) }))
    show(started)
    job = started.id
    if (job === undefined) return
    for (;;) {
      const next = await post("/" + read + "/" + job)
      if (next.status === undefined || isEnd(next.status) || (next.stream ?? []).length > 0) show(next)
      if (next.status === undefined || isEnd(next.status)) return
    }
  } catch (error) {
    answer.textContent += (error instanceof SyntaxError ? "The input is not JSON: " + error.message : String(error)) + "\\n"
  } finally {
    ended = true
    job = undefined
    for (const button of buttons) button.disabled = button === stop
  }
}
document.getElementById("run").onclick = () => void run("status")
document.getElementById("stream").onclick = () => void run("stream")
stop.onclick = async () => { if (!ended && job !== undefined) await post("/cancel/" + job) }
input.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && ended) void run("status") }
`

const routeHtml = (base: string, body: string) => ({ curl, method, path, description }: Route): string =>
  `<article><h3><b>${method}</b><code>${escape(path)}</code></h3>${escape(description)}<pre>${
    escape(curl(base, body))
  }</pre></article>`

const decodeBody = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ input: Schema.Json })))

/** The input of a body, for the form. */
const inputOf = (body: string): string => JSON.stringify(decodeBody(body).input, undefined, 2)

/** The page, as an answer. Its policy lets it reach the local API and nothing else. */
export const page = ({ host, port, sample, version }: PageOptions): LocalResponse => {
  // What a client says of itself goes into lines to paste only if it can be nothing but an address.
  const base = `http://${
    host !== undefined && /^[\w.-]+(?::\d+)?$|^\[[\da-f:.]+\](?::\d+)?$/i.test(host) ? host : `127.0.0.1:${port}`
  }`
  return {
    status: 200,
    headers: {
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-store",
      "content-security-policy":
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer"
    },
    text: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Local API</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>Local API</h1>
<p class="dim">Your handler at <code>${escape(base)}</code>, run by the same runtime as a deployed worker. Stint SDK ${
      escape(version)
    }.</p>
</header>
<main>
<section id="try" aria-labelledby="try-title">
<h2 id="try-title">Try it</h2>
<label for="input" class="dim">The job's <code>input</code>, as JSON</label>
<textarea id="input" spellcheck="false">${escape(inputOf(sample))}</textarea>
<div><button id="run" class="first" type="button">Run</button><button id="stream" type="button">Run and stream</button><button id="stop" type="button" disabled>Cancel</button></div>
<pre id="answer" aria-live="polite"></pre>
</section>
<section aria-labelledby="routes-title">
<h2 id="routes-title">Routes</h2>
<p class="dim">Answers have the deployed endpoint's shape: <code>id</code>, <code>status</code>, <code>output</code> or <code>error</code>, <code>delayTime</code> and <code>executionTime</code> in milliseconds.</p>
${ROUTES.map(routeHtml(base, sample)).join("\n")}
</section>
<section aria-labelledby="clients-title">
<h2 id="clients-title">Clients of the deployed endpoint</h2>
<p>Give them the base address <code>${
      escape(base)
    }/v2</code>, any endpoint id and any key. Under <code>/v2/{any id}/</code> the same routes answer as a deployed endpoint does: <code>GET</code> works for status and stream, and status does not wait.</p>
</section>
<section aria-labelledby="limits-title">
<h2 id="limits-title">Limits</h2>
<p>10 MiB for the body of /run, 20 MiB for /runsync and for a result, 1 MiB for a chunk, as on a platform. Jobs live in the memory of the process: the newest ${LocalJobQueue.MAX_FINISHED_JOBS} ended ones are kept, and nothing outlives Ctrl-C. There are no keys.</p>
</section>
</main>
<script>${SCRIPT}</script>
</body>
</html>
`
  }
}
