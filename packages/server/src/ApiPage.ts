/**
 * The API reference as an HTML page, generated from the same definition as `/openapi.json`. The page is self-contained and needs no
 * scripts, so it works on machines without network access.
 */
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { OpenApi } from "effect/http-api"

/** The path of the page. Requires no key, because it contains no data. */
export const DOCS_PATH = "/docs"

type Spec = OpenApi.OpenAPISpec

/** The value at a path in a JSON document of unknown shape. */
const at = (value: unknown, ...keys: ReadonlyArray<string>): unknown =>
  keys.reduce<unknown>(
    (found, key) =>
      typeof found === "object" && found !== null ? Object.entries(found).find(([name]) => name === key)?.[1] : undefined,
    value
  )

const textAt = (value: unknown, ...keys: ReadonlyArray<string>): string => {
  const found = at(value, ...keys)
  return typeof found === "string" ? found : ""
}

const entriesAt = (value: unknown, ...keys: ReadonlyArray<string>): ReadonlyArray<readonly [string, unknown]> => {
  const found = at(value, ...keys)
  return typeof found === "object" && found !== null ? Object.entries(found) : []
}

const escapes: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" }

const escaped = (text: string): string => text.replaceAll(/[&<>"]/g, (character) => escapes[character] ?? "")

/** Text in which words between backticks become code. */
const prose = (text: string): string => escaped(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>")

const code = (value: unknown): string => `<pre><code>${escaped(JSON.stringify(value, null, 2) ?? "")}</code></pre>`

const details = (summary: string, content: string): string => `<details><summary>${summary}</summary>${content}</details>`

/** A short description of a schema's type. */
const typeOf = (schema: unknown): string => {
  const reference = textAt(schema, "$ref")
  if (reference !== "") return reference.split("/").at(-1) ?? ""
  const values = at(schema, "enum")
  if (Array.isArray(values)) return values.join(" | ")
  const type = at(schema, "type")
  return Array.isArray(type) ? type.join(" | ") : typeof type === "string" ? type : "value"
}

const parametersTable = (operation: unknown): string => {
  const rows = entriesAt(operation, "parameters").map(([, parameter]) => {
    const description = textAt(parameter, "description") || textAt(parameter, "schema", "description")
    return `<tr><td><code>${escaped(textAt(parameter, "name"))}</code></td><td>${escaped(textAt(parameter, "in"))}</td><td>${
      escaped(typeOf(at(parameter, "schema")))
    }${at(parameter, "required") === true ? "" : ", optional"}</td><td>${prose(description)}</td></tr>`
  })
  return rows.length === 0 ? "" : `<table>${rows.join("")}</table>`
}

const mediaOf = (body: unknown): string =>
  entriesAt(body, "content").map(([type, media]) => {
    const example = at(media, "example")
    return `<p><code>${escaped(type)}</code></p>${example === undefined ? "" : code(example)}${
      details("Schema", code(at(media, "schema")))
    }`
  }).join("")

/** Headers that apply to all operations and are described at the top of the page. */
const EVERYWHERE = new Set(["RateLimit", "RateLimit-Policy"])

const successResponse = ([status, response]: readonly [string, unknown]): string => {
  const headers = entriesAt(response, "headers")
    .filter(([name]) => !EVERYWHERE.has(name))
    .map(([name, header]) => `<p><code>${escaped(name)}</code> ${prose(textAt(header, "description"))}</p>`)
  return `<p><b>${escaped(status)}</b> ${escaped(textAt(response, "description"))}</p>${headers.join("")}${mediaOf(response)}`
}

/** All errors have the shape shown at the top of the page, so listing the status and name is enough. */
const errorsOf = (responses: ReadonlyArray<readonly [string, unknown]>): string =>
  responses.length === 0
    ? ""
    : `<h4>Errors</h4><ul class="errors">${
      responses.map(([status, response]) => `<li><b>${escaped(status)}</b> ${escaped(textAt(response, "description"))}</li>`)
        .join("")
    }</ul>`

const responsesOf = (operation: unknown): string => {
  const all = entriesAt(operation, "responses")
  const successes = all.filter(([status]) => status.startsWith("2"))
  return `<h4>Responses</h4>${successes.map(successResponse).join("")}${
    errorsOf(all.filter(([status]) => !status.startsWith("2")))
  }`
}

/** The example of a JSON body, on one line. */
const bodyExample = (operation: unknown): string | undefined => {
  const example = at(operation, "requestBody", "content", "application/json", "example")
  return example === undefined ? undefined : JSON.stringify(example)
}

/** The call as a shell command. Only the path parameters have to be replaced. */
const shellLine = (path: string, method: string, operation: unknown): string => {
  const body = bodyExample(operation)
  return [
    `curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}"$STINT_URL${path}"`,
    "-H \"Authorization: Bearer $STINT_API_KEY\"",
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d '${body.replaceAll("'", "'\\''")}'`])
  ].join(" \\\n  ")
}

const badge = (method: string): string => `<span class="method ${escaped(method)}">${escaped(method.toUpperCase())}</span>`

const operationSection = (path: string, method: string, operation: unknown): string => {
  const id = textAt(operation, "operationId")
  const body = at(operation, "requestBody")
  const parameters = parametersTable(operation)
  return `<section id="${escaped(id)}"><h3><a href="#${escaped(id)}">${badge(method)} <code>${escaped(path)}</code></a> <small>${
    escaped(textAt(operation, "summary"))
  }</small></h3><p>${prose(textAt(operation, "description"))}</p>${parameters === "" ? "" : `<h4>Parameters</h4>${parameters}`}${
    body === undefined ? "" : `<h4>Body</h4>${mediaOf(body)}`
  }${details("curl", `<pre><code>${escaped(shellLine(path, method, operation))}</code></pre>`)}${
    responsesOf(operation)
  }</section>`
}

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#ddd, #333); --dim: light-dark(#555, #aaa); --back: light-dark(#f6f6f6, #1d1d1f) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; background: light-dark(#fff, #121214);
  color: light-dark(#111, #eee); overflow-wrap: anywhere }
a { color: inherit }
h3 a { text-decoration: none }
small { color: var(--dim); font-weight: normal }
section { border-top: 1px solid var(--line); padding: .5rem 0 }
pre { background: var(--back); padding: .75rem; overflow: auto; border-radius: 6px; font-size: .85rem }
table { border-collapse: collapse; width: 100%; font-size: .9rem }
td { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; vertical-align: top }
td:not(:last-child) { white-space: nowrap; overflow-wrap: normal }
nav td { border: 0; padding: .1rem .6rem .1rem 0; white-space: normal !important }
nav td:first-child { width: 4rem }
nav td:last-child { color: var(--dim); width: 38% }
h4 { margin: 1.2rem 0 .4rem; font-size: .8rem; text-transform: uppercase; letter-spacing: .05em; color: var(--dim) }
.errors { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; font-size: .9rem }
@media (max-width: 40rem) {
  nav td:last-child { display: none }
  td:not(:last-child) { white-space: normal }
}
.method { font: bold .75rem ui-monospace, monospace; padding: .15rem .4rem; border-radius: 4px; color: #fff; background: #555 }
.get { background: #1a6b3c } .post { background: #1d4f91 } .put, .patch { background: #8a5a00 } .delete { background: #9b1c1c }
summary { cursor: pointer; color: var(--dim) }
`

/** Renders an OpenAPI document as a page. */
const render = (spec: Spec): string => {
  const operations = Object.entries(spec.paths).flatMap(([path, methods]) =>
    entriesAt(methods).map(([method, operation]) => ({ path, method, operation, tag: textAt(operation, "tags", "0") }))
  )
  const groups = spec.tags.map(({ description, name }) => ({
    name,
    description: description ?? "",
    operations: operations.filter(({ tag }) => tag === name)
  }))
  const contents = groups.map(({ name, operations }) =>
    `<h2>${escaped(name)}</h2><table>${
      operations.map(({ method, operation, path }) =>
        `<tr><td>${badge(method)}</td><td><a href="#${escaped(textAt(operation, "operationId"))}"><code>${
          escaped(path)
        }</code></a></td><td>${escaped(textAt(operation, "summary"))}</td></tr>`
      ).join("")
    }</table>`
  )
  const sections = groups.map(({ description, name, operations }) =>
    `<h2>${escaped(name)}</h2><p>${prose(description)}</p>${
      operations.map(({ method, operation, path }) => operationSection(path, method, operation)).join("")
    }`
  )
  const schemas = Object.entries(spec.components.schemas).map(([name, schema]) => details(escaped(name), code(schema)))
  const { description, title } = spec.info
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${
    escaped(title)
  } API</title><style>${STYLE}</style></head><body><h1>${escaped(title)} API</h1><p>${
    prose(description ?? "")
  }. Also available as an OpenAPI document: <a href="/openapi.json">/openapi.json</a>.</p><p>Send a key in the header <code>Authorization</code>, as <code>Bearer KEY</code> or on its own. Every error is an RFC 9457 problem with two additional members: <code>error</code> says what is wrong, and <code>hint</code> says what to do.</p><p>When a rate limit applies, every response has the headers <code>RateLimit</code>, with the remaining calls, and <code>RateLimit-Policy</code>. A call over the limit gets a 429 with <code>Retry-After</code>, in seconds.</p>${
    code({
      type: "/problems/job-not-found",
      title: "Job not found",
      status: 404,
      detail: "There is no job \"x\" on this endpoint.",
      error: "There is no job \"x\" on this endpoint.",
      hint: "Check the id and the endpoint."
    })
  }<nav>${contents.join("")}</nav>${sections.join("")}<h2>Schemas</h2>${schemas.join("")}</body></html>`
}

/** The page, rendered on the first request. */
const page = Effect.sync(() => {
  const text = render(OpenApi.fromApi(Api))
  return HttpServerResponse.text(text, {
    contentType: "text/html; charset=utf-8",
    headers: {
      "cache-control": "no-cache",
      "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      "x-content-type-options": "nosniff"
    }
  })
})

/** The route of the page. */
export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const answer = yield* Effect.cached(page)
  yield* router.add("GET", DOCS_PATH, answer)
}))
