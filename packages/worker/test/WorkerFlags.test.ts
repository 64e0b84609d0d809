import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as WorkerFlags from "../src/runtime/WorkerFlags.ts"

const flags = (...argv: ReadonlyArray<string>) => Result.getOrThrow(WorkerFlags.read(argv, true))
const mistake = (argv: ReadonlyArray<string>, local = true) => Result.getOrThrow(Result.flip(WorkerFlags.read(argv, local)))

// docs/spec/local-test-mode.md#flags
describe("the flags of local test mode", () => {
  it("are all unset without arguments", () => {
    expect(flags()).toEqual({
      testInput: undefined,
      serveApi: false,
      apiPort: undefined,
      apiHost: undefined,
      apiConcurrency: undefined,
      debugger: false
    })
  })

  it("are read with their values after a space or after =", () => {
    const expected = { serveApi: true, apiPort: 0, apiHost: "0.0.0.0", apiConcurrency: 3, debugger: true, testInput: "{}" }
    expect(flags(
      ..."--rp_serve_api --rp_api_port 0 --rp_api_host 0.0.0.0 --rp_api_concurrency 3 --rp_debugger --test_input {}".split(" ")
    )).toEqual(expected)
    expect(flags(
      ..."--rp_debugger --test_input={} --rp_api_concurrency=3 --rp_api_host=0.0.0.0 --rp_api_port=0 --rp_serve_api".split(" ")
    )).toEqual(expected)
  })

  it.each([["localhost"], ["::1"], ["fe80::1%eth0"], ["my-machine.local"]])("--rp_api_host accepts %s", (host) => {
    expect(flags("--rp_api_host", host).apiHost).toBe(host)
  })

  it("--rp_api_host accepts an IPv6 address in brackets", () => {
    expect(flags("--rp_api_host", "[::1]").apiHost).toBe("::1")
  })

  it.each<[string, ReadonlyArray<string>, string, RegExp]>([
    ["a port that is not a number", ["--rp_api_port", "http"], "--rp_api_port", /--rp_api_port is "http".*from 0 to 65535/],
    ["a port that is too large", ["--rp_api_port=65536"], "--rp_api_port", /is "65536"/],
    ["a negative port", ["--rp_api_port", "-1"], "--rp_api_port", /is "-1"/],
    ["a missing port", ["--rp_api_port"], "--rp_api_port", /is ""/],
    ["a port that is the next flag", ["--rp_api_port", "--rp_debugger"], "--rp_api_port", /is "--rp_debugger"/],
    ["a concurrency of zero", ["--rp_api_concurrency", "0"], "--rp_api_concurrency", /is "0".*from 1 to 10000/],
    ["a fractional concurrency", ["--rp_api_concurrency", "1.5"], "--rp_api_concurrency", /is "1\.5"/],
    ["a host with a scheme", ["--rp_api_host", "http://a"], "--rp_api_host", /is "http:\/\/a".*without a port/],
    ["a missing host", ["--rp_api_host"], "--rp_api_host", /is ""/],
    ["a host that is the next flag", ["--rp_api_host", "--rp_serve_api"], "--rp_api_host", /is "--rp_serve_api"/],
    ["a value for a switch", ["--rp_serve_api=8000"], "--rp_serve_api", /takes no value.*Leave out "=8000"/],
    ["a misspelt flag", ["--rp_api_prot", "9000"], "--rp_api_prot", /no flag --rp_api_prot\. Did you mean "--rp_api_port"\?/]
  ])("%s is reported with its flag and value", (_name, argv, flag, message) => {
    expect(mistake(argv)).toMatchObject({ flag, message: expect.stringMatching(message) })
  })

  it("other flags of the program are ignored, and the word after a flag that takes a value is its value", () => {
    expect(flags("--model", "x", "serve", "--test_input", "--rp_no_flag").testInput).toBe("--rp_no_flag")
  })

  it("on a platform an unknown flag is ignored, because another SDK may know it, but an invalid value is reported", () => {
    expect(Result.isSuccess(WorkerFlags.read(["--rp_other"], false))).toBe(true)
    expect(mistake(["--rp_api_port", "x"], false).flag).toBe("--rp_api_port")
  })
})
