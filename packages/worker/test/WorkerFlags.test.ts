import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as WorkerFlags from "../src/runtime/WorkerFlags.ts"

const flags = (...argv: ReadonlyArray<string>) => Result.getOrThrow(WorkerFlags.read(argv, true))
const mistake = (argv: ReadonlyArray<string>, local = true) => Result.getOrThrow(Result.flip(WorkerFlags.read(argv, local)))

// docs/spec/local-test-mode.md#flags
describe("the flags of local test mode", () => {
  it("without flags all are unset", () => {
    expect(flags()).toEqual({
      testInput: undefined,
      serveApi: false,
      apiPort: undefined,
      apiHost: undefined,
      apiConcurrency: undefined,
      debugger: false
    })
  })

  it("all are read, with their values after a space or after =", () => {
    const expected = { serveApi: true, apiPort: 0, apiHost: "0.0.0.0", apiConcurrency: 3, debugger: true, testInput: "{}" }
    expect(flags(
      ..."--rp_serve_api --rp_api_port 0 --rp_api_host 0.0.0.0 --rp_api_concurrency 3 --rp_debugger --test_input {}".split(" ")
    )).toEqual(expected)
    expect(flags(
      ..."--rp_debugger --test_input={} --rp_api_concurrency=3 --rp_api_host=0.0.0.0 --rp_api_port=0 --rp_serve_api".split(" ")
    )).toEqual(expected)
  })

  it.each([["localhost"], ["::1"], ["fe80::1%eth0"], ["my-machine.local"]])("--rp_api_host takes %s", (host) => {
    expect(flags("--rp_api_host", host).apiHost).toBe(host)
  })

  it("an IPv6 address may stand in brackets", () => {
    expect(flags("--rp_api_host", "[::1]").apiHost).toBe("::1")
  })

  it.each<[string, ReadonlyArray<string>, string, RegExp]>([
    ["a port that is no number", ["--rp_api_port", "http"], "--rp_api_port", /--rp_api_port is "http".*from 0 to 65535/],
    ["a port that is too large", ["--rp_api_port=65536"], "--rp_api_port", /is "65536"/],
    ["a negative port", ["--rp_api_port", "-1"], "--rp_api_port", /is "-1"/],
    ["a port that is missing", ["--rp_api_port"], "--rp_api_port", /is ""/],
    ["a port that is the next flag", ["--rp_api_port", "--rp_debugger"], "--rp_api_port", /is "--rp_debugger"/],
    ["no jobs at all", ["--rp_api_concurrency", "0"], "--rp_api_concurrency", /is "0".*from 1 to 10000/],
    ["half a job", ["--rp_api_concurrency", "1.5"], "--rp_api_concurrency", /is "1\.5"/],
    ["a host with a scheme", ["--rp_api_host", "http://a"], "--rp_api_host", /is "http:\/\/a".*without a port/],
    ["a host that is missing", ["--rp_api_host"], "--rp_api_host", /is ""/],
    ["a host that is the next flag", ["--rp_api_host", "--rp_serve_api"], "--rp_api_host", /is "--rp_serve_api"/],
    ["a value for a switch", ["--rp_serve_api=8000"], "--rp_serve_api", /takes no value.*Leave out "=8000"/],
    ["a misspelt flag", ["--rp_api_prot", "9000"], "--rp_api_prot", /no flag --rp_api_prot\. Did you mean "--rp_api_port"\?/]
  ])("%s is said with its name and value", (_name, argv, flag, message) => {
    expect(mistake(argv)).toMatchObject({ flag, message: expect.stringMatching(message) })
  })

  it("flags of the program's own, and what stands where a value belongs, are left alone", () => {
    expect(flags("--model", "x", "serve", "--test_input", "--rp_no_flag").testInput).toBe("--rp_no_flag")
  })

  it("on a platform an unknown flag is left alone, because another SDK may know it; a wrong value is not", () => {
    expect(Result.isSuccess(WorkerFlags.read(["--rp_other"], false))).toBe(true)
    expect(mistake(["--rp_api_port", "x"], false).flag).toBe("--rp_api_port")
  })
})
