import { describe, expect, it } from "vitest"
import { errorFilterOf, jobsQuery, releasesOf, requestOf, titleOf } from "../src/errors/ErrorFilter.ts"

describe("the filter of errors", () => {
  it("is in the address, and unknown values do not filter", () => {
    expect(errorFilterOf({ endpoint: "resize", state: "open", period: "latest" })).toEqual({
      endpoint: "resize",
      state: "open",
      period: "latest"
    })
    expect(errorFilterOf({ endpoint: 7, state: "new", period: "3y" })).toEqual({ endpoint: "7", state: "", period: "" })
    expect(errorFilterOf(undefined)).toEqual({ endpoint: "", state: "", period: "" })
  })

  it("requests the groups seen since the last release, or since a time", () => {
    const request = (period: "" | "latest" | "24h") => requestOf({ endpoint: "e", state: "", period }, 100_000_000)
    expect(request("latest")).toEqual({ endpoint: "e", state: "", limit: 200, sinceRelease: "latest" })
    expect(request("24h")).toMatchObject({ since: 13_600_000 })
    expect(request("")).not.toHaveProperty("since")
  })
})

describe("a group of errors", () => {
  it("links to its jobs by a text query", () => {
    expect(jobsQuery({ endpoint: "resize", fingerprint: "9f2b6c1d4e5a7083" })).toBe(
      "endpoint:resize error-group:9f2b6c1d4e5a7083"
    )
  })

  it("is described by its class, its message and its releases", () => {
    expect(titleOf({ message: "no user <value>", type: "TypeError" })).toBe("TypeError: no user <value>")
    expect(titleOf({ message: "no user <value>" })).toBe("no user <value>")
    const seen = { count: 1, firstSeen: 0, lastSeen: 0 }
    expect(releasesOf({ releases: [{ release: 5, ...seen }, seen, { release: 3, ...seen }] })).toBe("3, 5")
    expect(releasesOf({ releases: [seen] })).toBe("unknown")
  })
})
