import { describe, expect, it } from "@effect/vitest"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as WorkerConfig from "../src/runtime/WorkerConfig.ts"

const read = (env: WorkerConfig.Environment, argv: ReadonlyArray<string> = []) => Effect.runSync(WorkerConfig.read(env, argv))
const problem = (env: WorkerConfig.Environment, argv: ReadonlyArray<string> = []) =>
  Effect.runSync(Effect.flip(WorkerConfig.read(env, argv))).message

const base = "http://127.0.0.1:4600/v2/ep"
const minimal = {
  PLATFORM_WEBHOOK_GET_JOB: `${base}/job-take/$ID`,
  PLATFORM_WEBHOOK_POST_OUTPUT: `${base}/job-done/$RUNPOD_POD_ID/$ID`,
  PLATFORM_POD_ID: "w1"
}

// docs/spec/worker-protocol.md#addresses
describe("addresses", () => {
  it.each<[string, string, string]>([
    ["with a query", `${base}/job-take/$ID?gpu=none`, `${base}/job-take/w%201?gpu=none`],
    ["with an empty query", `${base}/job-take/$ID?`, `${base}/job-take/w%201?`],
    ["without a query", `${base}/job-take/$ID`, `${base}/job-take/w%201?`],
    ["with the worker's own placeholder", `${base}/job-take/$RUNPOD_POD_ID`, `${base}/job-take/w%201?`],
    ["with the worker's placeholder under the other prefix", `${base}/job-take/\${PLATFORM_POD_ID}`, `${base}/job-take/w%201?`],
    ["without any placeholder", `${base}/job-take/me`, `${base}/job-take/me?`],
    [
      "with an unresolved placeholder",
      `${base}/job-take/$ID?gpu=$RUNPOD_GPU_TYPE_ID`,
      `${base}/job-take/w%201?gpu=$RUNPOD_GPU_TYPE_ID`
    ]
  ])("job-take %s", (_name, template, expected) => {
    const { platform } = read({ ...minimal, PLATFORM_POD_ID: "w 1", PLATFORM_WEBHOOK_GET_JOB: template })
    expect(platform?.take).toBe(expected)
    expect(platform?.takeBatch).toBe(expected.replace("/job-take/", "/job-take-batch/"))
    expect(platform?.stop).toBe(expected.replace("/job-take/", "/job-stop/"))
  })

  it("an address that does not end in job-take has neither batches nor stops", () => {
    const { platform } = read({ ...minimal, PLATFORM_WEBHOOK_GET_JOB: "https://example.com/next?for=$ID" })
    expect(platform).toMatchObject({ take: "https://example.com/next?for=w1", takeBatch: undefined, stop: undefined })
  })

  it.each<[string, string, string]>([
    ["with a query", `${base}/job-done/$RUNPOD_POD_ID/$ID?gpu=none`, `${base}/job-done/w1/j1?gpu=none`],
    ["without a query", `${base}/job-done/$RUNPOD_POD_ID/$ID`, `${base}/job-done/w1/j1?`],
    ["with the job twice", `${base}/job-done/$ID?again=$ID`, `${base}/job-done/j1?again=j1`]
  ])("job-done %s", (_name, template, expected) => {
    const { platform } = read({ ...minimal, PLATFORM_WEBHOOK_POST_OUTPUT: template })
    expect(platform?.done.join("j1")).toBe(expected)
  })

  it("job-stream is derived from job-done when it is not set", () => {
    expect(read(minimal).platform?.stream.join("j1")).toBe(`${base}/job-stream/w1/j1?`)
    const own = { ...minimal, PLATFORM_WEBHOOK_POST_STREAM: `${base}/chunks/$ID` }
    expect(read(own).platform?.stream.join("j1")).toBe(`${base}/chunks/j1?`)
  })

  it.each([
    ["http://a/b?", "http://a/b?k=a%20b"],
    ["http://a/b?x=1", "http://a/b?x=1&k=a%20b"],
    ["http://a/b?x=1&", "http://a/b?x=1&k=a%20b"]
  ])("a value is appended to %s", (url, expected) => {
    expect(WorkerConfig.appendQuery(url, "k", "a b")).toBe(expected)
  })
})

// docs/spec/rulings.md#prefix
describe("prefixes", () => {
  const environment = (prefix?: "PLATFORM_" | "RUNPOD_") =>
    workerEnvironment({
      baseUrl: "http://127.0.0.1:4600",
      endpoint: "ep",
      worker: "w1",
      key: "secret",
      pingIntervalMs: 4000,
      ...(prefix === undefined ? {} : { prefix })
    })

  it.each<["PLATFORM_" | "RUNPOD_" | undefined, string, string]>([
    ["PLATFORM_", "PLATFORM_", "json"],
    ["RUNPOD_", "RUNPOD_", "query"],
    [undefined, "PLATFORM_", "json"]
  ])("the platform's own variables under %s", (prefix, found, form) => {
    const { endpoint, identity, log, platform } = read(environment(prefix))
    expect(identity).toMatchObject({ workerId: "w1", hostname: "w1" })
    expect(endpoint).toBe("ep")
    expect(log.json).toBe(true)
    expect(platform).toMatchObject({
      prefix: found,
      take: `${base}/job-take/w1?gpu=none`,
      ping: { url: `${base}/ping/w1?gpu=none`, interval: 4000, form }
    })
    expect(platform?.key === undefined ? undefined : Redacted.value(platform.key)).toBe("secret")
    expect(JSON.stringify(platform)).not.toContain("secret")
  })

  it("each variable falls back separately, and an empty one counts as unset", () => {
    const { endpoint, identity } = read({
      ...minimal,
      PLATFORM_POD_ID: " ",
      RUNPOD_POD_ID: "w2",
      PLATFORM_ENDPOINT_ID: "mine",
      RUNPOD_ENDPOINT_ID: "other"
    })
    expect(identity.workerId).toBe("w2")
    expect(endpoint).toBe("mine")
  })

  it.effect("the layer reads the variables from the environment", () =>
    Effect.gen(function*() {
      const config = yield* WorkerConfig.WorkerConfig
      expect(config.platform?.take).toBe(`${base}/job-take/w1?gpu=none`)
    }).pipe(
      Effect.provide(WorkerConfig.layer([])),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: environment("RUNPOD_") }))
    ))
})

describe("defaults", () => {
  // docs/spec/environment.md#set-by-the-platform
  it("are the defaults of the specification", () => {
    const settings = read({ ...minimal, PLATFORM_POD_ID: undefined })
    expect(settings.identity.workerId).toMatch(/^[0-9a-f-]{36}$/)
    expect(settings.identity.hostname).not.toBe("")
    expect(settings.log).toEqual({ level: "DEBUG", json: false })
    expect(settings.shutdownGrace).toBeUndefined()
    expect(settings.unreachableLimit).toBeUndefined()
    expect(settings.platform?.ping).toBeUndefined()
    expect(read({ ...minimal, PLATFORM_WEBHOOK_PING: `${base}/ping/$RUNPOD_POD_ID` }).platform?.ping?.interval).toBe(10_000)
  })
})

describe("local test mode", () => {
  it.each<[string, WorkerConfig.Environment, ReadonlyArray<string>, boolean]>([
    ["without an address for jobs", {}, [], true],
    ["with an address for jobs", minimal, [], false],
    ["with --test_input", minimal, ["--test_input", "{}"], true],
    ["with --test_input=", minimal, ["--test_input={}"], true],
    ["with --rp_serve_api", minimal, ["--rp_serve_api"], true],
    ["with the other flags", minimal, ["--rp_debugger", "--rp_api_port", "1", "--rp_log_level", "INFO"], false]
  ])("%s", (_name, env, argv, local) => {
    expect(WorkerConfig.isLocal(env, argv)).toBe(local)
    expect(read(env, argv).platform === undefined).toBe(local)
  })

  it("reads the flags", () => {
    expect(read({}, ["--rp_serve_api", "--test_input", "{\"input\":1}", "--rp_log_level=warn", "--rp_debugger"])).toMatchObject({
      flags: { serveApi: true, testInput: "{\"input\":1}", debugger: true },
      log: { level: "WARN" }
    })
  })
})

it("an invalid flag prevents the start", () => {
  expect(problem({}, ["--rp_api_port", "http"])).toMatch(/--rp_api_port is "http"/)
  expect(problem({}, ["--rp_log_level", "loud"])).toMatch(/--rp_log_level is "loud".*NOTSET, TRACE, DEBUG, INFO, WARN, ERROR/)
})

describe("an invalid value is reported with its variable and value", () => {
  it.each<[string, WorkerConfig.Environment, RegExp]>([
    [
      "job-take that is not a URL",
      { ...minimal, PLATFORM_WEBHOOK_GET_JOB: "job-take" },
      /PLATFORM_WEBHOOK_GET_JOB is "job-take".*address/
    ],
    ["job-take with another scheme", { ...minimal, PLATFORM_WEBHOOK_GET_JOB: "ftp://a/b" }, /"ftp:\/\/a\/b".*http or https/],
    [
      "a missing job-done",
      { ...minimal, PLATFORM_WEBHOOK_POST_OUTPUT: undefined },
      /PLATFORM_WEBHOOK_POST_OUTPUT is not.*worker-env/
    ],
    ["job-done without $ID", { ...minimal, PLATFORM_WEBHOOK_POST_OUTPUT: `${base}/done` }, /must contain \$ID/],
    ["an interval that is not a number", {
      ...minimal,
      RUNPOD_WEBHOOK_PING: `${base}/ping/x`,
      RUNPOD_PING_INTERVAL: "10s"
    }, /RUNPOD_PING_INTERVAL is "10s".*milliseconds/],
    ["a negative grace period", { PLATFORM_SHUTDOWN_GRACE: "-1" }, /PLATFORM_SHUTDOWN_GRACE is "-1".*0 or more/],
    ["an unknown log level", { PLATFORM_LOG_LEVEL: "warning" }, /PLATFORM_LOG_LEVEL is "warning".*Did you mean "WARN"/]
  ])("%s", (_name, env, expected) => {
    expect(problem(env)).toMatch(expected)
  })
})
