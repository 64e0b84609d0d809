/**
 * `/`: describes this server and links to further pages. Browsers receive the console, or this page when the console is not built; all other programs
 * receive JSON. The responses contain no data of the platform, such as names of endpoints, so no key is required.
 */
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { ConsoleFiles } from "../console/ConsoleFiles.ts"
import { PublicAddress } from "../http/PublicAddress.ts"
import { DOCS_PATH, HOME_PATH, OPENAPI_PATH } from "./Paths.ts"

const SUMMARY = "Stint runs typed serverless jobs on your own machines."

const STYLE = `
:root { color-scheme: light dark }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 44rem; margin: 0 auto; padding: 2rem 1rem; background: light-dark(#fff, #121214);
  color: light-dark(#1b1b1f, #e6e6e9) }
h1 { font-size: 1.6rem; margin-bottom: 0 }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
a { color: light-dark(#1d4f91, #8ab4f8) }
code, pre { font: .85rem/1.6 ui-monospace, monospace; background: light-dark(#f4f4f6, #1e1e22); border-radius: 6px }
code { padding: .1rem .3rem }
pre { padding: .8rem 1rem; overflow-x: auto }
pre code { padding: 0; background: none }
dt { font-weight: 600; margin-top: .6rem }
dd { margin: 0 }
`

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" }

const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (character) => escapes[character] ?? "")

const shell = (lines: ReadonlyArray<string>): string => `<pre><code>${escaped(lines.join("\n"))}</code></pre>`

const html = (baseUrl: string): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stint</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<h1>Stint</h1>
<p>${escaped(SUMMARY)} This platform is running.</p>
<h2>Where to go</h2>
<dl>
<dt><a href="${DOCS_PATH}">${DOCS_PATH}</a></dt><dd>Every operation, with a form that sends the request from this page</dd>
<dt><a href="${OPENAPI_PATH}">${OPENAPI_PATH}</a></dt><dd>The same as an OpenAPI document, for tools</dd>
</dl>
<h2>Send a job</h2>
<p>Replace <code>ENDPOINT</code> and the input. On the platform's machine, <code>stint keys print</code> prints the key.</p>
${
    shell([
      `curl -s ${baseUrl}/v2/ENDPOINT/runsync \\`,
      "  -H \"Authorization: Bearer $(stint keys print)\" \\",
      "  -H 'Content-Type: application/json' -d '{\"input\":{}}'"
    ])
  }
<h2>In a terminal</h2>
${
    shell([
      "stint endpoints list                 # the endpoints and their state",
      "stint run ENDPOINT --input '{}'      # submit a job",
      "stint logs ENDPOINT JOB -f           # follow its log",
      "stint --help                         # everything else"
    ])
  }
<p>In a clone of the repository, the command is <code>npx -y pnpm@12 stint</code>, and <code>npx -y pnpm@12 site</code> serves the documentation.</p>
</body>
</html>
`

const json = (baseUrl: string): string =>
  JSON.stringify({
    name: "stint",
    description: SUMMARY,
    documentation: `${baseUrl}${DOCS_PATH}`,
    openapi: `${baseUrl}${OPENAPI_PATH}`,
    jobs: `${baseUrl}/v2/{endpoint}/run`,
    control: `${baseUrl}/api/v1/endpoints`,
    authorization:
      "Send a key in the header Authorization, as Bearer KEY. `stint keys print` prints it on the platform's machine."
  })

const POLICY = `default-src 'none'; style-src 'sha256-${
  createHash("sha256").update(STYLE).digest("base64")
}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** The route of the page. */
export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { baseUrl } = yield* PublicAddress
  const headers = { "cache-control": "no-cache", vary: "accept" }
  const page = HttpServerResponse.text(html(baseUrl), {
    contentType: "text/html; charset=utf-8",
    headers: { ...headers, "content-security-policy": POLICY }
  })
  const document = HttpServerResponse.text(json(baseUrl), { contentType: "application/json", headers })
  const { index } = yield* ConsoleFiles
  yield* router.add(
    "GET",
    HOME_PATH,
    (request) =>
      (request.headers["accept"] ?? "").includes("text/html")
        ? Effect.map(index, (console) => console === undefined ? page : console(request))
        : Effect.succeed(document)
  )
}))
