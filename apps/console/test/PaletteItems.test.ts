import { describe, expect, it } from "vitest"
import type { Session } from "../src/api/Api.ts"
import { paletteItems } from "../src/pages/PaletteItems.ts"

const session = (over: Partial<Session> = {}): Session => ({
  id: "a",
  name: "admin",
  scopes: ["admin"],
  endpoints: "all",
  ...over
})
const labels = (text: string, who = session()) => paletteItems(who, ["gallery", "hello"], text).map(({ label }) => label)

describe("the command palette", () => {
  it("finds pages and endpoints by all words, and lists labels that begin with the text first", () => {
    expect(labels("jobs")).toEqual(["Jobs", "Jobs of gallery", "Jobs of hello", "Failed jobs of gallery", "Failed jobs of hello"])
    expect(labels("hello run")).toEqual(["Run a job on hello"])
    expect(labels("nothing like it")).toEqual([])
  })

  it("finds a job by its id on each endpoint", () => {
    const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
    expect(paletteItems(session(), ["gallery", "a b"], ` ${id} `)).toEqual([
      { label: "Job 0f8fad5b of gallery", href: `/console/jobs/gallery/${id}` },
      { label: "Job 0f8fad5b of a b", href: `/console/jobs/a%20b/${id}` }
    ])
  })

  it("offers only what the key permits", () => {
    const viewer = session({ scopes: ["jobs:read"], endpoints: ["hello"] })
    expect(labels("", viewer)).toEqual([
      "Home",
      "Jobs",
      "Errors",
      "Logs",
      "Pipelines",
      "Workers",
      "Usage",
      "gallery",
      "hello",
      "Jobs of hello",
      "Failed jobs of hello",
      "Logs of hello",
      "Workers of hello",
      "Usage of hello"
    ])
  })
})
