/**
 * The documentation page of the local API. It shows a command to paste for each route, and a form that runs the handler. It loads no other
 * resources.
 */
import { sample, shellWord } from "@stint/worker/TestInput"
import { VERSION } from "@stint/worker/Version"
import { HttpServerResponse } from "effect/http"
import * as LocalJobQueue from "./LocalJobQueue.ts"

const ENTITIES: { readonly [character: string]: string } = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&#39;"
}
const escape = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character)

/** Method, path, description. Routes that run a job have a body. */
const ROUTES = [
  [
    "POST",
    "/runsync",
    "Runs a job and returns its result. Waits up to 90 s, or ?wait=MS; a longer job continues, and /status returns its result."
  ],
  ["POST", "/run", "Starts a job and returns its id. Next to \"input\", \"webhook\" can contain a URL that receives the result."],
  [
    "POST",
    "/status/{id}",
    "Waits for a job and returns its result, up to 90 s, or ?wait=MS. ?wait=0 returns the latest progress as output."
  ],
  [
    "POST",
    "/stream/{id}",
    "Returns the chunks not read yet. Waits for one, up to 8 s, or ?wait=MS. Repeat until the status is terminal."
  ],
  ["POST", "/cancel/{id}", "Cancels a waiting or running job."],
  ["GET", "/health", "Counts jobs and workers by state."]
] as const

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d8dce2, #343a44); --soft: light-dark(#f4f5f7, #1b1f26); --dim: light-dark(#5a6472, #9aa4b2) }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 56rem; padding: 2.5rem 1.25rem 4rem; font: 16px/1.55 system-ui, sans-serif; color: light-dark(#14181f, #e8ebf0); background: light-dark(#fff, #12151a) }
.dim { color: var(--dim) } code, pre, textarea { font: 13.5px/1.5 ui-monospace, Menlo, Consolas, monospace }
pre, textarea { width: 100%; padding: .6rem .75rem; color: inherit; background: var(--soft); border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere }
textarea { min-height: 5rem; resize: vertical } h3 b { color: light-dark(#0b5fce, #7db4ff); margin-right: .5rem }
button { font: inherit; padding: .4rem .9rem; margin: .5rem .5rem 0 0 } :focus-visible { outline: 2px solid; outline-offset: 2px }
#answer:empty { display: none } #answer { max-height: 30rem; overflow: auto }
`

/** Runs in the page: starts a job, then reads its result or its stream until the job has ended. */
const SCRIPT = `
const input = document.getElementById("input"), answer = document.getElementById("answer")
const buttons = [...document.querySelectorAll("button")], cancel = document.getElementById("cancel")
let job
const post = async (path, body) => (await fetch(path, { method: "POST", body })).json()
const show = (value) => { answer.textContent += JSON.stringify(value, null, 2) + "\\n"; answer.scrollTop = answer.scrollHeight }
const run = async (read) => {
  answer.textContent = ""
  for (const button of buttons) button.disabled = button !== cancel
  try {
    const started = await post("/run", JSON.stringify({ input: JSON.parse(input.value) }))
    show(started)
    for (job = started.id; job !== undefined;) {
      const next = await post("/" + read + "/" + job)
      const hasEnded = next.status !== "IN_QUEUE" && next.status !== "IN_PROGRESS"
      if (hasEnded || (next.stream ?? []).length > 0) show(next)
      if (hasEnded) job = undefined
    }
  } catch (error) {
    answer.textContent += (error instanceof SyntaxError ? "The input is not JSON: " + error.message : String(error)) + "\\n"
  } finally {
    job = undefined
    for (const button of buttons) button.disabled = button === cancel
  }
}
document.getElementById("run").onclick = () => void run("status")
document.getElementById("stream").onclick = () => void run("stream")
cancel.onclick = async () => { if (job !== undefined) await post("/cancel/" + job) }
`

const routeHtml = (base: string, body: string) => ([method, path, description]: typeof ROUTES[number]): string => {
  const call = `curl -s${method === "POST" ? " -X POST" : ""} ${base}${path.replace("{id}", "ID")}`
  const json = path.startsWith("/run") ? ` -H 'Content-Type: application/json' -d ${shellWord(body)}` : ""
  return `<h3><b>${method}</b><code>${path}</code></h3>${escape(description)}<pre>${escape(call + json)}</pre>`
}

/** The input of the sample body, indented. */
const inputOf = (body: string): string => {
  const value: unknown = JSON.parse(body)
  return JSON.stringify(Reflect.get(Object(value), "input"), undefined, 2)
}

/** The page. Its content security policy permits requests to the local API only. */
export const page = (host: string | undefined, baseUrl: string): HttpServerResponse.HttpServerResponse => {
  // The Host header of a request is used in the commands to paste only if it is an address.
  const base = host !== undefined && /^[\w.-]+(?::\d+)?$|^\[[\da-f:.]+\](?::\d+)?$/i.test(host) ? `http://${host}` : baseUrl
  const body = sample()
  const text = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Local API</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<h1>Local API</h1>
<p class="dim">Your handler at <code>${escape(base)}</code>, run by the runtime of a deployed worker. Stint SDK ${
    escape(VERSION)
  }.</p>
<h2 id="try">Try it</h2>
<label for="input" class="dim">The job's <code>input</code>, as JSON</label>
<textarea id="input" spellcheck="false">${escape(inputOf(body))}</textarea>
<div><button id="run">Run</button><button id="stream">Run and stream</button><button id="cancel" disabled>Cancel</button></div>
<pre id="answer" aria-live="polite"></pre>
<h2>Routes</h2>
${ROUTES.map(routeHtml(base, body)).join("\n")}
<h2>Clients of a deployed endpoint</h2>
<p>Use the base address <code>${
    escape(base)
  }/v2</code> with any endpoint id and any key. Below <code>/v2/{any id}/</code> the server has all operations of a deployed endpoint: <code>GET</code> works for status and stream, and status does not wait.</p>
<h2>Limits</h2>
<p>10 MiB for the body of /run, 20 MiB for /runsync and for a result, 1 MiB for a chunk. Jobs are in the memory of the process, which stores the newest ${LocalJobQueue.MAX_FINISHED_JOBS} ended jobs for an hour. There are no keys.</p>
<script>${SCRIPT}</script>
</body>
</html>
`
  return HttpServerResponse.text(text, {
    contentType: "text/html; charset=utf-8",
    headers: {
      "cache-control": "no-store",
      "content-security-policy":
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer"
    }
  })
}
