/**
 * The web pages that may call a platform, and the address that it reports.
 */
import { describe, expect, it } from "vitest"
import { parseOrigins } from "../src/config/CorsOrigins.ts"
import * as BannerText from "../src/platform/BannerText.ts"
import { PlatformProcess, stint } from "./PlatformProcess.ts"

describe("STINT_CORS_ORIGINS", () => {
  it("allows requests from pages of these origins only", async () => {
    await using platform = await PlatformProcess.create(["serve"], {
      STINT_CORS_ORIGINS: "https://App.example.com/, http://localhost:5173"
    })
    const asked = async (origin: string) => {
      const headers = { origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization" }
      const { headers: answered, status } = await fetch(`${platform.url}/v2/hello/run`, { method: "OPTIONS", headers })
      return [status, answered.get("access-control-allow-origin")]
    }
    expect(await asked("https://app.example.com")).toEqual([204, "https://app.example.com"])
    expect(await asked("http://localhost:5173")).toEqual([204, "http://localhost:5173"])
    expect(await asked("https://other.example.com")).toEqual([204, null])
  }, 60_000)

  it("is a comma-separated list of origins; trailing slashes and upper case are ignored, and * allows every page", () => {
    expect(parseOrigins(" * ")).toBe("*")
    expect(parseOrigins("")).toEqual([])
    expect(parseOrigins("HTTPS://App.Example.com:443/, https://app.example.com,chrome-extension://abc/")).toEqual([
      "https://app.example.com",
      "chrome-extension://abc"
    ])
  })

  it("prevents startup and describes valid values when it is not a list of origins", async () => {
    for (const origins of ["example.com", "https://a.example.com/path", "https://*.example.com/x", "*, https://a.example.com"]) {
      const { code, stderr, stdout } = await stint(undefined, ["serve"], { STINT_CORS_ORIGINS: origins, PORT: "0" })
      expect(code, origins).toBe(1)
      expect(stdout + stderr, origins).toContain("STINT_CORS_ORIGINS")
      expect(stdout + stderr, origins).toContain("https://app.example.com")
    }
  }, 60_000)
})

describe("the address in the banner", () => {
  const facts: BannerText.BannerFields = {
    baseUrl: "http://192.168.1.5:4600",
    place: { _tag: "Environment" },
    isTerminal: false,
    durability: "none",
    dataDir: undefined,
    endpoints: [],
    sample: { endpoint: "hello", input: {} }
  }

  it("says that it is a guess and how to set it, when it is derived from the listening address", () => {
    const text = BannerText.text({ ...facts, guessedFrom: "http://0.0.0.0:4600" })
    expect(text).toContain("Stint is up at     http://192.168.1.5:4600\n")
    expect(text).toContain("it listens on http://0.0.0.0:4600; set STINT_PUBLIC_URL")
    expect(text).toContain("curl -s http://192.168.1.5:4600/v2/hello/runsync")
  })

  it("has no note when it is configured", () => {
    expect(BannerText.text(facts)).not.toContain("STINT_PUBLIC_URL")
  })
})
