/**
 * The Helm chart has the objects of `stint kubernetes manifests`. Helm does not run here: a renderer for the few template functions that the chart
 * uses stands in for it, and fails on every other function.
 */
import * as Predicate from "effect/Predicate"
import { readdirSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { describe, expect, it } from "vitest"
import { parse, parseAllDocuments } from "yaml"
import type { Installation } from "../src/kubernetes/Installation.ts"
import { manifestsOf } from "../src/kubernetes/Manifests.ts"
import { at, entries } from "./VerbCalls.ts"

const CHART = resolve(import.meta.dirname, "../helm/stint")
const templates = readdirSync(join(CHART, "templates")).map((name) => readFileSync(join(CHART, "templates", name), "utf8"))
const defaults: unknown = parse(readFileSync(join(CHART, "values.yaml"), "utf8"))

/** The chart's context: `.Values.ingress.host`. */
const valueAt = (context: unknown, path: string): unknown => {
  const value = at(context, ...path.split(".").slice(1))
  if (value === undefined) throw new Error(`there is no ${path}`)
  return value
}

/** Whether Go's templates treat the value as true. */
const isTrue = (value: unknown): boolean => value !== "" && value !== 0 && value !== false

const conditionOf = (context: unknown, condition: string): boolean => {
  const [, negation, plain, compared, limit] = /^(not )?(\.[\w.]+)$|^gt \(int (\.[\w.]+)\) (\d+)$/.exec(condition) ?? []
  if (compared !== undefined) return Number(valueAt(context, compared)) > Number(limit)
  if (plain === undefined) throw new Error(`the renderer does not know: if ${condition}`)
  return isTrue(valueAt(context, plain)) !== (negation !== undefined)
}

const FUNCTIONS: Readonly<Record<string, (value: unknown) => string>> = {
  quote: (value) => JSON.stringify(String(value)),
  toJson: (value) => JSON.stringify(value)
}

const textOf = (context: unknown, expression: string): string => {
  const [first = "", ...functions] = expression.split(" | ")
  const [, problem, path = ""] = /^(?:required "([^"]+)" )?(\.[\w.]+)$/.exec(first) ?? []
  const value = valueAt(context, path)
  if (problem !== undefined && !isTrue(value)) throw new Error(problem)
  const text = functions.reduce<unknown>((found, name) => {
    const apply = FUNCTIONS[name]
    if (apply === undefined) throw new Error(`the renderer does not know: ${name}`)
    return apply(found)
  }, value)
  if (Predicate.isObject(text)) throw new Error(`${expression} is an object`)
  return String(text)
}

const render = (context: unknown, template: string): string => {
  /** For each open `if`: whether its current branch counts. */
  const open: Array<boolean> = []
  const lines = template.split("\n").filter((line) => {
    const [, word, condition = ""] = /^\{\{- (if|else|end)(?: (.+))? \}\}$/.exec(line) ?? []
    if (word === "if") open.push(conditionOf(context, condition))
    else if (word === "else") open.push(!open.pop())
    else if (word === "end") open.pop()
    return word === undefined && open.every((counts) => counts)
  })
  if (open.length > 0) throw new Error("an if has no end")
  const text = lines.join("\n").replaceAll(/\{\{ (.+?) \}\}/g, (_, expression: string) => textOf(context, expression))
  if (text.includes("{{")) throw new Error(`the renderer does not know: ${/\{\{.*/.exec(text)?.[0]}`)
  return text
}

const objectsOf = (values: object): ReadonlyArray<unknown> => {
  const context = { Values: { ...Object.fromEntries(entries(defaults)), ...values }, Release: { Namespace: "prod", Revision: 7 } }
  return templates.flatMap((template) => parseAllDocuments(render(context, template)).map((one): unknown => one.toJS()))
    .filter((object) => object !== null)
}

/** Without what differs on purpose: the namespace that Helm itself creates, the Job's name, and how changed settings are noticed. */
const comparable = (objects: ReadonlyArray<unknown>) =>
  Object.fromEntries(objects.flatMap((object) => {
    const [kind, name] = [at(object, "kind"), at(object, "metadata", "name")].map(String)
    if (kind === "Namespace" && name === "prod") return []
    const copy: Record<string, unknown> = JSON.parse(JSON.stringify(object, (key, value: unknown) => {
      if (key === "annotations") return undefined
      if (key === "kubernetes.json") return JSON.parse(String(value))
      return kind === "Job" && typeof value === "string" ? value.replace(/^stint-migrate-\w+$/, "stint-migrate") : value
    }))
    return [[`${kind} ${kind === "Job" ? "stint-migrate" : name}`, copy]]
  }))

describe("the Helm chart", () => {
  const base = {
    image: "registry.example.com/stint:1",
    namespace: "prod",
    workersNamespace: "prod-workers",
    pods: {},
    endpoints: {}
  }
  const pods = { labels: { quoted: "a \"b\"" } }
  const installations: ReadonlyArray<readonly [string, object, Installation]> = [
    ["two nodes", {}, { ...base, store: { _tag: "Database", port: 5432, nodes: 2 } }],
    ["one node with a database on another port", { nodes: 1, databasePort: 6432 }, {
      ...base,
      store: { _tag: "Database", port: 6432, nodes: 1 }
    }],
    ["one node with a volume", { volume: "20Gi" }, { ...base, store: { _tag: "Volume", size: "20Gi" } }],
    ["an Ingress, and settings of pods", { ingress: { host: "jobs.example.org", className: "nginx", tlsSecret: "t" }, pods }, {
      ...base,
      store: { _tag: "Database", port: 5432, nodes: 2 },
      ingress: { host: "jobs.example.org", className: "nginx", tlsSecret: "t" },
      pods
    }],
    ["an Ingress of the cluster's class", { ingress: { host: "jobs.example.org", className: "", tlsSecret: "t" } }, {
      ...base,
      store: { _tag: "Database", port: 5432, nodes: 2 },
      ingress: { host: "jobs.example.org", tlsSecret: "t" }
    }]
  ]
  it.each(installations)("has the objects that the command prints: %s", (_, values, installation) => {
    const image = { image: installation.image }
    expect(comparable(objectsOf({ ...image, ...values }))).toEqual(comparable(manifestsOf(installation)))
  })

  it("needs an image, and replaces the nodes when the pod settings change", () => {
    expect(() => objectsOf({})).toThrow("Set image to an image of the platform.")
    const annotations = (values: object) =>
      objectsOf({ image: "x", ...values }).map((object) => at(object, "spec", "template", "metadata", "annotations"))
    expect(annotations({})).not.toEqual(annotations({ pods }))
  })

  it("is filled in by a renderer that fails on anything it does not know", () => {
    const context = { Values: { a: "", n: 2 } }
    expect(render(context, "{{- if .Values.a }}\nx\n{{- else }}\ny{{ .Values.n }}\n{{- end }}")).toBe("y2")
    for (
      const template of [
        "{{ .Values.b }}",
        "{{ .Values.n | nindent 4 }}",
        "{{- range .Values.n }}",
        "{{- if .Values.n }}",
        "{{ include \"x\" . }}"
      ]
    ) {
      expect(() => render(context, template), template).toThrow()
    }
  })
})
