import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { Graph, Mermaid, Pipeline } from "../src/index.ts"

const Charge = Pipeline.make("charge", { input: Schema.Number }).step("pay", (n) => n).end(Schema.Number)

const make = (page: () => unknown, output: Schema.ConstraintCodec<unknown, unknown>, undo = false) =>
  Pipeline.make("gallery", { input: Schema.String })
    .step("list", (text) => text.split(""))
    .select(({ list }) => list.length)
    .all("extras", { paid: (p) => p.run("charge", Charge, undo ? { undo: () => {} } : {}), nap: (p) => p.sleep("cool", "1 day") })
    .branch("size", ({ list }) => list.length > 1 ? "zip" : "plain", {
      zip: (p) => p.step("pack", () => 1),
      plain: (p) => p.select(() => 2)
    })
    .waitFor("go", Schema.Boolean)
    .step("page", page, { output })
    .end(Schema.Unknown)

const ref = (page: () => unknown) => Graph.refOf(make(page, Schema.Unknown).definition)

describe("the graph of a pipeline", () => {
  const graph = Graph.graphOf(make(() => "", Schema.String).definition)

  it("lists every node with its address, its kind and the nodes before it", () => {
    expect(graph.nodes.map(({ address, endpoint, kind, needs = [] }) => [address, kind, endpoint, needs.join()])).toEqual([
      ["list", "step", undefined, ""],
      ["extras", "all", undefined, "list"],
      ["extras.paid.charge", "run", "charge", "extras"],
      ["extras.nap.cool", "sleep", undefined, "extras"],
      ["size", "branch", undefined, "extras.paid.charge,extras.nap.cool"],
      ["size.zip.pack", "step", undefined, "size"],
      ["go", "waitFor", undefined, "size.zip.pack,size"],
      ["page", "step", undefined, "go"]
    ])
  })

  it("draws itself as a Mermaid flowchart, with the state of a run", () => {
    expect(Mermaid.toMermaid(graph)).toBe(`flowchart TD
  n0["list"]
  n1{{"extras<br/><small>all</small>"}}
  n2[["charge<br/><small>run charge</small>"]]
  n3("cool<br/><small>sleep</small>")
  n4{"size<br/><small>branch</small>"}
  n5["pack"]
  n6(["go<br/><small>waitFor</small>"])
  n7["page"]
  n0 --> n1
  n1 --> n2
  n1 --> n3
  n2 --> n4
  n3 --> n4
  n4 -->|zip| n5
  n5 --> n6
  n4 --> n6
  n6 --> n7
`)
    const marked = Mermaid.toMermaid(graph, new Map([["page", { state: "failed", note: "no paper" }]]))
    expect(marked).toContain("n7[\"page<br/>no paper\"]:::failed")
    expect(marked).toContain("classDef failed")
  })
})

describe("the hash of a definition", () => {
  it("does not change with the code of a step", () => {
    expect(ref(() => 1).hash).toBe(ref(() => 2).hash)
    expect(ref(() => 1).hash).toMatch(/^[0-9a-f]{64}$/)
  })

  it("changes with the Schema of an output and with the nodes", () => {
    const hashes = [
      ref(() => 1).hash,
      Graph.refOf(make(() => "", Schema.String).definition).hash,
      Graph.refOf(make(() => 1, Schema.Number).definition).hash,
      Graph.refOf(Charge.definition).hash
    ]
    expect(new Set(hashes).size).toBe(hashes.length)
  })

  it("does not depend on the order in which a Schema lists its fields", () => {
    const one = Graph.fingerprint(Schema.Struct({ a: Schema.String, b: Schema.Number }))
    expect(Graph.fingerprint(Schema.Struct({ b: Schema.Number, a: Schema.String }))).toBe(one)
    expect(Graph.fingerprint(Schema.Struct({ a: Schema.String, b: Schema.optionalKey(Schema.Number) }))).not.toBe(one)
  })

  it("says whether the run has compensations", () => {
    expect(Graph.refOf(make(() => 1, Schema.Unknown).definition).undo).toBe(false)
    expect(Graph.refOf(make(() => 1, Schema.Unknown, true).definition).undo).toBe(true)
  })
})
