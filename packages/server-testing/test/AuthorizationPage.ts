/**
 * Writes docs/reference/authorization.md. `vitest -u` on AuthorizationMatrix.test.ts updates the page.
 */
import type { KeyScope } from "@stint/contract/AccessKey"
import type { Guard } from "@stint/contract/Permission"
import { NAMED, OPEN, type Rule } from "./AuthorizationRules.ts"

const SCOPES: ReadonlyArray<KeyScope> = ["jobs:submit", "jobs:read", "jobs:manage", "jobs", "worker", "agent", "deploy", "admin"]

const row = (cells: ReadonlyArray<string>, widths: ReadonlyArray<number>) =>
  `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`

/** A table as dprint formats it. */
const table = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = head.map((cell, at) => Math.max(3, cell.length, ...rows.map((cells) => cells[at]?.length ?? 0)))
  return [row(head, widths), row(widths.map((width) => "-".repeat(width)), widths), ...rows.map((cells) => row(cells, widths))]
    .join("\n")
}

/** What a key that is limited to some endpoints gets for other endpoints. */
const limitOf = ({ id, permission, template }: Rule): string => {
  if (permission === undefined || permission.guard === "operator" || permission.guard === "owner") return ""
  if (template.includes("{endpoint}")) return "403"
  // A bulk operation belongs to the key that started it.
  if (template.includes("{bulk}")) return "404"
  return NAMED[id]?.answer === "forbidden" ? "omitted; 403 if named" : "omitted"
}

const TITLES: { readonly [guard in Guard]: string } = {
  caller: "Jobs of one endpoint",
  viewer: "State of all endpoints of a key",
  manager: "Changes to jobs of all endpoints of a key",
  operator: "Endpoints, releases, schedules, secrets",
  owner: "The platform",
  worker: "Workers",
  agent: "Agents"
}

const TEXTS: { readonly [guard in Guard]: string } = {
  caller: "",
  viewer: "A key that is limited to endpoints sees only these.",
  manager: "A key that is limited to endpoints changes only their jobs.",
  operator: "Keys with these scopes are always valid for every endpoint.",
  owner: "Keys with this scope are always valid for every endpoint.",
  worker:
    "These operations also accept the [derived worker key](../spec/authentication.md#worker-keys) of the endpoint, and that of the worker in the URL. No other operation does.",
  agent:
    "Only `stint agent` calls these. No other scope suffices, not even `admin`, because an agent receives the secrets of the endpoints whose workers it runs. " +
    "The platform places only workers of the key's endpoints on its agents."
}

const section = (guard: Guard, rules: ReadonlyArray<Rule>): string => {
  const found = rules.filter(({ permission }) => permission?.guard === guard)
  const scopes = SCOPES.filter((scope) => found.some(({ permission }) => permission?.scopes.includes(scope)))
  const limits = found.map(limitOf)
  const hasLimits = limits.some((limit) => limit !== "")
  const rows = found.map((rule, at) => [
    `\`${rule.id}\``,
    `${rule.method} \`${rule.template}\``,
    ...scopes.map((scope) => rule.permission?.scopes.includes(scope) === true ? "yes" : ""),
    ...(hasLimits ? [limits[at] ?? ""] : [])
  ])
  const head = ["operation", "request", ...scopes.map((scope) => `\`${scope}\``), ...(hasLimits ? ["other endpoints"] : [])]
  return [`## ${TITLES[guard]}`, ...(TEXTS[guard] === "" ? [] : [TEXTS[guard]]), table(head, rows)].join("\n\n")
}

const GUARDS: ReadonlyArray<Guard> = ["caller", "viewer", "manager", "worker", "agent", "operator", "owner"]

const anchor = (title: string) => title.toLowerCase().replaceAll(/[^\w -]/g, "").replaceAll(" ", "-")

/** The page. */
export const pageOf = (rules: ReadonlyArray<Rule>): string => {
  const open = rules.filter(({ permission }) => permission === undefined)
  const titles = [...GUARDS.map((guard) => TITLES[guard]), "Without a key", "Other routes"]
  return `${
    [
      "# Authorization",
      titles.map((title) => `- [${title}](#${anchor(title)})`).join("\n"),
      "This page lists the scopes that each operation of the HTTP API accepts. A key needs one of the scopes in the operation's row. A test generates the page " +
      "from the declarations that the server's guards read. Another test sends a request for each pair of an operation and a key: every scope and " +
      "combination of parts, limited to endpoints or not, for an endpoint that the key permits, another one, a deleted one and one that never existed, with valid " +
      "keys, sessions of the console, and keys that are missing, unknown, malformed, expired, rotated or revoked " +
      "([AuthorizationMatrix.test.ts](../../packages/server-testing/test/AuthorizationMatrix.test.ts)).",
      "A request without a valid key gets 401; a request whose key lacks the scope gets 403. The column \"other endpoints\" shows what a key that is " +
      "limited to endpoints gets for the others: no response contains their names, and the response is the same whether such an endpoint exists or not. " +
      "[Authentication](../spec/authentication.md) is the specification.",
      ...GUARDS.map((guard) => section(guard, rules)),
      "## Without a key",
      table(
        ["operation", "request", "reason"],
        open.map(({ id, method, template }) => [`\`${id}\``, `${method} \`${template}\``, OPEN[id] ?? ""])
      ),
      "## Other routes",
      "These are not in the OpenAPI document.",
      table(["request", "accepts"], [
        ["GET `/metrics`", "the scopes of \"State of all endpoints of a key\", for all endpoints only"],
        ["GET, POST `/api/v1/session`", "the same scopes: the console shows what the key permits"],
        ["DELETE `/api/v1/session`", "anyone: it ends the session of the cookie in the request"],
        ["GET `/`, `/docs`, `/openapi.json`, `/console/*`", "anyone: they contain no data of the platform"]
      ])
    ].join("\n\n")
  }\n`
}
