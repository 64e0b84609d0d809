/**
 * Plants a random value in every place where a platform holds a secret, shows that it arrived there, lets jobs and requests fail in the ways
 * in which secrets escape, and searches for the values in everything that the platform wrote or returned.
 *
 * The places where a value may be are listed with the value (`shownBy`, `files`), with the page that says so. Every other place is a leak.
 */
import { verify } from "@stint/webhooks/verify"
import { createHash, randomBytes } from "node:crypto"
import { once } from "node:events"
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { tmpdir } from "node:os"
import { basename, join, relative } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { formsOf, holdersOf } from "./CanarySearch.ts"
import { runCommand } from "./CommandInProcess.ts"
import { FIXTURES, type JobObject, PlatformProcess, until } from "./PlatformProcess.ts"

/** Where a value may be. */
interface Permission {
  /** Operations that return it to callers who may have it, such as `GET /api/v1/endpoints`. */
  readonly shownBy?: ReadonlyArray<string>
  /** Files in the data folder that hold it in plain text. */
  readonly files?: RegExp
}

const random = (name: string) => `canary-${name}-${randomBytes(16).toString("hex")}`

/** The database holds what callers sent, and what the platform must be able to use (SECURITY.md). */
const DATABASE = /^stint\.db(?:-wal)?$/

/** The operations that show an endpoint to its operators, with `env` (docs/operations/secrets.md). */
const ENDPOINT_ANSWERS = [
  "POST /api/v1/endpoints",
  "GET /api/v1/endpoints",
  "GET /api/v1/endpoints/{endpoint}",
  "GET /api/v1/endpoints/{endpoint}/releases",
  "GET /api/v1/endpoints/{endpoint}/releases/{number}"
]

/** The operations that show the output of a job to its callers. */
const OUTPUT_ANSWERS = [
  ...["GET", "POST"].flatMap((method) => ["status", "status-sync"].map((name) => `${method} /v2/{endpoint}/${name}/{id}`)),
  "GET /v2/{endpoint}/events/{id}",
  "GET /v2/{endpoint}/stream/{id}",
  "GET /api/v1/endpoints/{endpoint}/webhooks/deliveries/{delivery}"
]

/** The delivery log shows operators what was sent, and where (docs/operations/README.md#webhooks). */
const DELIVERY_ANSWERS = [
  "GET /api/v1/endpoints/{endpoint}/webhooks/deliveries",
  "GET /api/v1/endpoints/{endpoint}/webhooks/deliveries/{delivery}"
]

/** The operations that show a schedule, with its input and webhook, to operators. */
const SCHEDULE_ANSWERS = [
  "PUT /api/v1/endpoints/{endpoint}/schedules/{schedule}",
  "GET /api/v1/endpoints/{endpoint}/schedules/{schedule}",
  "GET /api/v1/schedules"
]

/** The operations that show a batch, with its webhook, to the key that created it. */
const BATCH_ANSWERS = ["GET /v2/{endpoint}/batch", "GET /v2/{endpoint}/batch/{id}"]

/** A webhook contains what its receiver has a right to: the job with its input, its output and its own address. */
const WEBHOOKS = "the bodies of webhooks"

/** The values that the test chooses. Values that the platform generates are added once it has generated them. */
const chosen = {
  /** `STINT_API_KEY`. */
  adminKey: random("admin-key"),
  /** A stored secret: encrypted, masked in what workers write. */
  secret: `hf_"canary"_${randomBytes(16).toString("hex")}`,
  /** The key that encrypts the secrets, in a variable. */
  secretsKey: randomBytes(32).toString("base64"),
  /** An endpoint's variable, which is not one of the platform's secrets. */
  plain: random("env"),
  s3Secret: random("s3"),
  input: random("input"),
  output: random("output"),
  webhookQuery: random("signature"),
  webhookPassword: random("password"),
  failingQuery: random("failing"),
  collectorKey: random("collector"),
  alertQuery: random("alert"),
  alertSecret: randomBytes(32).toString("base64"),
  /** Keys that the platform does not know, in the places to which clients send them. */
  wrongKey: random("wrong-key"),
  headerKey: random("header-key"),
  queryKey: random("query-key"),
  cookie: random("cookie"),
  basic: random("basic"),
  header: random("header")
}

type Made =
  | "jobsKey"
  | "rotatedKey"
  | "deployKey"
  | "revokedKey"
  | "session"
  | "workerKey"
  | "ownWorkerKey"
  | "workerSecret"
  | "webhookSecret"
  | "leaseToken"

type Name = keyof typeof chosen | Made

const KEY_ANSWERS = { shownBy: ["POST /api/v1/keys"] }

const PERMITTED: { readonly [name in Name]: Permission } = {
  adminKey: {},
  secret: {},
  secretsKey: {},
  plain: { shownBy: ENDPOINT_ANSWERS, files: DATABASE },
  s3Secret: { files: DATABASE },
  input: {
    shownBy: [...DELIVERY_ANSWERS.slice(1), WEBHOOKS, ...SCHEDULE_ANSWERS, "GET /v2/{endpoint}/job-take/{worker}"],
    files: DATABASE
  },
  output: { shownBy: [...OUTPUT_ANSWERS, ...ENDPOINT_ANSWERS, WEBHOOKS], files: DATABASE },
  webhookQuery: { shownBy: [...DELIVERY_ANSWERS, WEBHOOKS, ...SCHEDULE_ANSWERS, ...BATCH_ANSWERS], files: DATABASE },
  webhookPassword: { shownBy: [...DELIVERY_ANSWERS, WEBHOOKS], files: DATABASE },
  failingQuery: { shownBy: [...DELIVERY_ANSWERS, WEBHOOKS], files: DATABASE },
  collectorKey: {},
  alertQuery: {},
  alertSecret: {},
  wrongKey: {},
  headerKey: {},
  queryKey: {},
  cookie: {},
  basic: {},
  header: {},
  jobsKey: KEY_ANSWERS,
  rotatedKey: { shownBy: ["POST /api/v1/keys/{key}/rotate"] },
  deployKey: KEY_ANSWERS,
  revokedKey: KEY_ANSWERS,
  session: { shownBy: ["POST /api/v1/session"] },
  workerKey: { shownBy: ["GET /api/v1/endpoints/{endpoint}/worker-env"] },
  ownWorkerKey: { shownBy: ["GET /api/v1/endpoints/{endpoint}/worker-env (one worker)"] },
  workerSecret: { files: /^worker-secret$/ },
  webhookSecret: {
    shownBy: ["GET /api/v1/endpoints/{endpoint}/webhooks/secret"],
    files: DATABASE
  },
  leaseToken: { shownBy: ["GET /v2/{endpoint}/job-take/{worker}"] }
}

/** One response, or one text that the platform wrote. */
interface Text {
  readonly from: string
  readonly text: string
  /** The HTTP status of a response. */
  readonly status?: number
}

interface Received {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A server on the loopback interface that keeps what it receives. */
const receiver = async (statusOf: (url: string) => number) => {
  const received: Array<Received> = []
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part)).on("end", () => {
      const url = request.url ?? ""
      received.push({ url, headers: request.headers, body: Buffer.concat(parts).toString() })
      response.writeHead(statusOf(url), { "content-type": "application/json" }).end("{}")
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return {
    host: `127.0.0.1:${port}`,
    received,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}

const digest = (text: string) => createHash("sha256").update(text).digest("hex")

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === "object" && value !== null

/** The value at a path in a JSON body. */
const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>((found, key) => isRecord(found) ? found[key] : undefined, value)

const textAt = (value: unknown, ...path: ReadonlyArray<string | number>): string => {
  const found = at(value, ...path)
  if (typeof found !== "string") throw new Error(`no text at ${path.join(".")} of ${JSON.stringify(value)}`)
  return found
}

const s3ConfigOf = (accessSecret: string) => ({
  accessId: "id",
  accessSecret,
  endpointUrl: "https://s3.example.com",
  bucketName: "bucket"
})

/** GET operations with an effect: they submit a job, or act for a worker. */
const EFFECTIVE = /\/(?:openai|job-|ping)/

/** How long a test reads a stream of events. Milliseconds. */
const STREAM_MILLIS = 500

describe("a value in each place that holds a secret", () => {
  const texts: Array<Text> = []
  const values = new Map<Name, string>(Object.entries(chosen) as ReadonlyArray<[keyof typeof chosen, string]>)
  let folder: string
  let platform: PlatformProcess
  let hooks: Awaited<ReturnType<typeof receiver>>
  let collector: Awaited<ReturnType<typeof receiver>>
  const jobs = { canary: new Array<string>(), outside: new Array<string>() }

  const valueOf = (name: Name) => {
    const value = values.get(name)
    if (value === undefined) throw new Error(`${name} was not planted`)
    return value
  }

  /** The events that the platform sends, from its start to its end. */
  const events = { text: "", stop: new AbortController() }
  const follow = async () => {
    const { body } = await fetch(`${platform.url}/api/v1/events`, {
      headers: { authorization: `Bearer ${chosen.adminKey}` },
      signal: events.stop.signal
    })
    for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) events.text += part
  }

  /** Sends a request and keeps the response under the name of the operation. */
  const call = async (
    operation: string,
    path: string,
    { headers = {}, body, key = chosen.adminKey }: {
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: unknown
      readonly key?: string | null
    } = {}
  ) => {
    const response = await fetch(platform.url + path, {
      method: operation.split(" ", 1)[0] ?? "GET",
      signal: AbortSignal.timeout(60_000),
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    let text = ""
    if (response.headers.get("content-type")?.startsWith("text/event-stream") === true) {
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
      setTimeout(() => void reader?.cancel(), STREAM_MILLIS)
      for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) text += part.value
    } else {
      text = await response.text()
    }
    texts.push({ from: operation, status: response.status, text: `${JSON.stringify([...response.headers])}\n${text}` })
    const isJson = response.headers.get("content-type")?.includes("json") === true && text !== ""
    const json: unknown = isJson ? JSON.parse(text) : undefined
    return { status: response.status, headers: response.headers, json, text }
  }

  const run = async (input: unknown, rest: Readonly<Record<string, unknown>> = {}, key?: string): Promise<JobObject> => {
    const { json } = await call("POST /v2/{endpoint}/run", "/v2/canary/run", {
      body: { input, ...rest },
      ...(key === undefined ? {} : { key })
    })
    const id = textAt(json, "id")
    jobs.canary.push(id)
    return platform.ended("canary", id)
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "stint-canaries-"))
    await mkdir(join(folder, "home"))
    await mkdir(join(folder, "tmp"))
    hooks = await receiver((url) => url.includes(chosen.failingQuery) ? 500 : 204)
    collector = await receiver(() => 200)
    platform = await PlatformProcess.create(["serve"], {
      HOME: join(folder, "home"),
      TMPDIR: join(folder, "tmp"),
      STINT_API_KEY: chosen.adminKey,
      STINT_SECRETS_KEY: chosen.secretsKey,
      STINT_WEBHOOKS_ALLOW: "127.0.0.1",
      STINT_ALERT_URL: `http://${hooks.host}/alert?token=${chosen.alertQuery}`,
      STINT_ALERT_SECRET: `whsec_${chosen.alertSecret}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://${collector.host}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_HEADERS: `x-collector-key=${chosen.collectorKey}`,
      OTEL_BSP_SCHEDULE_DELAY: "10",
      OTEL_METRIC_EXPORT_INTERVAL: "500"
    })
    void follow().catch(() => {
      // The platform has ended.
    })
  }, 60_000)
  afterAll(async () => {
    events.stop.abort()
    await platform[Symbol.asyncDispose]()
    hooks.close()
    collector.close()
    await rm(folder, { recursive: true, force: true })
  })

  it("arrives there: keys are accepted, workers have their variables, receivers verify signatures", async () => {
    const newKey = async (scope: string) => {
      const { json } = await call("POST /api/v1/keys", "/api/v1/keys", {
        body: { name: scope, scopes: [scope], ...(scope === "deploy" ? {} : { endpoints: "all" }) }
      })
      return { id: textAt(json, "key", "id"), secret: textAt(json, "secret") }
    }
    const [jobsKey, rotated, revoked, deploy] = [
      await newKey("jobs"),
      await newKey("jobs"),
      await newKey("jobs"),
      await newKey("deploy")
    ]
    values.set("jobsKey", jobsKey.secret).set("revokedKey", revoked.secret).set("deployKey", deploy.secret)
    const { json: rotation } = await call("POST /api/v1/keys/{key}/rotate", `/api/v1/keys/${rotated.id}/rotate`, {
      body: { graceMs: 0 }
    })
    values.set("rotatedKey", textAt(rotation, "secret"))
    await call("POST /api/v1/keys/{key}/revoke", `/api/v1/keys/${revoked.id}/revoke`, { body: {} })
    await call("PUT /api/v1/secrets/{secret}", "/api/v1/secrets/token", { body: { value: chosen.secret }, key: deploy.secret })
    const login = await call("POST /api/v1/session", "/api/v1/session", {
      body: { key: jobsKey.secret },
      key: null,
      headers: { origin: platform.url }
    })

    // The command bundles the handler, as an operator would.
    const created = await runCommand([
      ...["endpoints", "create", "canary", "--handler", join(FIXTURES, "canary.ts"), "--secret", "TOKEN=token"],
      ...["--env", `PLAIN=${chosen.plain}`, "--env", `OUTPUT=${chosen.output}`, "--max-attempts", "1", "--workers-max", "1"],
      // What a worker exports by itself is not masked (docs/operations/secrets.md).
      ...["--env", "OTEL_SDK_DISABLED=true", "--idle-timeout", "1h"]
    ], { env: { STINT_URL: platform.url, STINT_API_KEY: chosen.adminKey, XDG_CONFIG_HOME: platform.configDir } })
    expect(created).toMatchObject({ code: 0 })
    texts.push({ from: "stint endpoints create", text: created.stdout + created.stderr })
    await call("POST /api/v1/endpoints", "/api/v1/endpoints", {
      body: { id: "outside", source: { type: "external" }, leaseToken: "required", env: { PLAIN: chosen.plain } },
      key: deploy.secret
    })
    const cookie = login.headers.get("set-cookie")?.split(";", 1)[0] ?? ""
    values.set("session", cookie.split("=")[1] ?? "")
    expect((await call("GET /v2/{endpoint}/health", "/v2/canary/health", { key: null, headers: { cookie } })).status).toBe(200)
    expect((await call("GET /v2/{endpoint}/health", "/v2/canary/health", { key: revoked.secret })).status).toBe(401)
    for (const key of [jobsKey.secret, valueOf("rotatedKey")]) {
      expect((await call("GET /v2/{endpoint}/health", "/v2/canary/health", { key })).status).toBe(200)
    }

    const secret = await call("GET /api/v1/endpoints/{endpoint}/webhooks/secret", "/api/v1/endpoints/canary/webhooks/secret")
    values.set("webhookSecret", textAt(secret.json, "secret"))
    const webhook = `http://user:${chosen.webhookPassword}@${hooks.host}/hook?sig=${chosen.webhookQuery}`
    const proof = await run(
      { how: "prove", text: chosen.input },
      { webhook, s3Config: s3ConfigOf(chosen.s3Secret) },
      jobsKey.secret
    )
    expect(proof.output).toMatchObject({
      token: digest(chosen.secret),
      plain: digest(chosen.plain),
      s3: digest(chosen.s3Secret),
      input: digest(chosen.input)
    })
    // Workers have none of the platform's secrets.
    const environment = textAt(proof.output, "environment").split("").toReversed().join("")
    expect(environment).toContain(chosen.plain)
    for (const name of ["adminKey", "secretsKey", "collectorKey", "alertQuery", "alertSecret", "jobsKey"] as const) {
      expect(environment, name).not.toContain(valueOf(name))
    }
    const hook = await until("the webhook", () => hooks.received.find(({ url }) => url.includes(chosen.webhookQuery)))
    expect(() => verify(valueOf("webhookSecret"), hook.headers, hook.body)).not.toThrow()
    expect(Buffer.from((hook.headers.authorization ?? "").replace("Basic ", ""), "base64").toString()).toContain(
      chosen.webhookPassword
    )
    await call("POST /api/v1/alerts/test", "/api/v1/alerts/test", { body: {} })
    const alert = await until("the alert", () => hooks.received.find(({ url }) => url.includes(chosen.alertQuery)))
    expect(() => verify(`whsec_${chosen.alertSecret}`, alert.headers, alert.body)).not.toThrow()

    const env = await call("GET /api/v1/endpoints/{endpoint}/worker-env", "/api/v1/endpoints/outside/worker-env")
    const own = await call(
      "GET /api/v1/endpoints/{endpoint}/worker-env (one worker)",
      "/api/v1/endpoints/outside/worker-env?worker=w-2"
    )
    values.set("workerKey", textAt(env.json, "variables", "RUNPOD_AI_API_KEY"))
    values.set("ownWorkerKey", textAt(own.json, "variables", "RUNPOD_AI_API_KEY"))
    values.set("workerSecret", (await readFile(join(platform.dataDir, "worker-secret"), "utf8")).trim())
    const canary = await call("GET /api/v1/endpoints/{endpoint}/worker-env", "/api/v1/endpoints/canary/worker-env")
    const reported = await call("POST /v2/{endpoint}/handler-schema/{worker}", "/v2/canary/handler-schema/w-3", {
      key: textAt(canary.json, "variables", "RUNPOD_AI_API_KEY"),
      body: { input: { description: `The token is ${chosen.secret}.` }, output: {}, streams: false }
    })
    expect(reported.status).toBe(200)

    const submitted = await call("POST /v2/{endpoint}/run", "/v2/outside/run", { body: { input: { text: chosen.input } } })
    const id = textAt(submitted.json, "id")
    jobs.outside.push(id)
    const taken = await call("GET /v2/{endpoint}/job-take/{worker}", "/v2/outside/job-take/w-2", {
      key: valueOf("ownWorkerKey"),
      headers: { "stint-lease-token": "1" }
    })
    const token = textAt(taken.json, "leaseToken")
    // The part that cannot be guessed.
    values.set("leaseToken", token.split(".")[1] ?? "")
    const deliver = (lease: string) =>
      call("POST /v2/{endpoint}/job-done/{worker}/{id}", `/v2/outside/job-done/w-2/${id}?lease_token=${lease}`, {
        key: valueOf("workerKey"),
        body: { output: { text: chosen.output } }
      })
    expect((await deliver(token.replace(/.$/, "!"))).status).toBe(409)
    expect((await deliver(token)).status).toBe(200)
    expect(await until("the key of the collector", () => collector.received[0])).toMatchObject({
      headers: { "x-collector-key": chosen.collectorKey }
    })
    for (const value of values.values()) expect(value.length).toBeGreaterThan(15)
  }, 120_000)

  it("stays there while jobs print and throw it, webhooks fail, and requests contain it in the wrong places", async () => {
    for (const how of ["print", "throw", "exit", "return"]) {
      const job = await run({ how, text: chosen.input }, { webhook: `http://${hooks.host}/?sig=${chosen.failingQuery}` })
      expect(job.status).toBe(how === "throw" || how === "exit" ? "FAILED" : "COMPLETED")
    }
    await run({ how: "return" }, { webhook: `http://user:${chosen.webhookPassword}@127.0.0.1:1/?sig=${chosen.webhookQuery}` })
    await until(
      "failed deliveries",
      () => hooks.received.filter(({ url }) => url.includes(chosen.failingQuery)).length >= 4 || undefined
    )

    const { adminKey, basic, cookie, header, headerKey, queryKey, wrongKey } = chosen
    const submit = "/v2/canary/run"
    for (const path of [submit, "/v2/nowhere/run", "/api/v1/endpoints", "/no-such-path", "/metrics", "/v2/canary/job-take/w"]) {
      const method = path.endsWith("/run") ? "POST" : "GET"
      const send = (query: string, key: string | null, headers: Readonly<Record<string, string>> = {}) =>
        call(`${method} ${path}`, path + query, { key, headers })
      for (const name of ["wrongKey", "rotatedKey", "revokedKey", "workerKey", "ownWorkerKey"] as const) {
        await send("", valueOf(name))
      }
      await send("", null, { "x-api-key": headerKey })
      await send(`?api_key=${queryKey}&token=${queryKey}`, null)
      await send("", null, { cookie: `stint_session=${cookie}; other=${cookie}` })
      await send("", null, { authorization: `Basic ${Buffer.from(`user:${basic}`).toString("base64")}` })
      await send("", `${adminKey}${wrongKey}`)
      await send("", adminKey, { "x-secret": header, referer: `https://example.com/?key=${header}` })
      await send("", adminKey, {
        traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
        tracestate: "a=b",
        "idempotency-key": "order"
      })
    }
    // Bodies that are refused: a login's key, a secret that is too long, an s3Config of the wrong shape.
    const origin = { origin: platform.url }
    await call("POST /api/v1/session (refused)", "/api/v1/session", { body: { key: wrongKey }, key: null, headers: origin })
    await call("POST /api/v1/session (refused)", "/api/v1/session", { body: { key: [wrongKey] }, key: null, headers: origin })
    await call("PUT /api/v1/secrets/{secret}", "/api/v1/secrets/token", { body: { value: [chosen.secret] } })
    await call("PUT /api/v1/secrets/{secret}", "/api/v1/secrets/token", { body: { value: chosen.secret.repeat(2_000) } })
    await call(`POST ${submit}`, submit, { body: { input: 1, s3Config: { accessSecret: chosen.s3Secret } } })
    await call(`POST ${submit}`, submit, {
      body: { input: 1, webhook: `ftp://user:${chosen.webhookPassword}@host/?sig=${chosen.webhookQuery}` }
    })
  }, 120_000)

  it("is in no response: every GET in the OpenAPI document, for every endpoint and job", async () => {
    const { json: document, text } = await call("GET /openapi.json", "/openapi.json", { key: null })
    expect(text).toContain("openapi")
    const paths = at(document, "paths")
    if (!isRecord(paths)) throw new Error("no paths")
    const templates = Object.entries(paths).flatMap(([path, methods]) => isRecord(methods) && "get" in methods ? [path] : [])
    expect(templates.length).toBeGreaterThan(40)
    const { json: groups } = await call("GET /api/v1/errors", "/api/v1/errors")
    const { json: deliveries } = await call(
      "GET /api/v1/endpoints/{endpoint}/webhooks/deliveries",
      "/api/v1/endpoints/canary/webhooks/deliveries"
    )
    const listed = at(deliveries, "deliveries")
    const { json: batch } = await call("POST /v2/{endpoint}/batch", "/v2/canary/batch", {
      body: {
        requests: [{ input: { how: "print", text: chosen.input }, s3Config: s3ConfigOf(chosen.s3Secret) }],
        webhook: `http://${hooks.host}/?sig=${chosen.webhookQuery}`
      }
    })
    const { json: bulk } = await call("POST /api/v1/bulk", "/api/v1/bulk", {
      body: { action: "cancel", query: "endpoint:canary tag:none", holdMs: 60_000 }
    })
    await call("PUT /api/v1/endpoints/{endpoint}/schedules/{schedule}", "/api/v1/endpoints/canary/schedules/nightly", {
      body: { cron: "0 3 * * *", input: { text: chosen.input }, webhook: `http://${hooks.host}/?sig=${chosen.webhookQuery}` }
    })
    const { json: keys } = await call("GET /api/v1/keys", "/api/v1/keys")
    const known: Readonly<Record<string, ReadonlyArray<string>>> = {
      batch: [textAt(batch, "id")],
      bulk: [textAt(bulk, "id")],
      key: [textAt(keys, "keys", 0, "id")],
      fingerprint: [textAt(groups, "groups", 0, "fingerprint"), textAt(groups, "groups", 1, "fingerprint")],
      delivery: Array.isArray(listed) ? listed.map((one) => textAt(one, "id")) : [],
      number: ["1"],
      secret: ["token"],
      worker: ["w"],
      route: ["models"],
      schedule: ["nightly"]
    }
    expect(known["delivery"]?.length).toBeGreaterThan(4)
    for (const template of templates) {
      if (EFFECTIVE.test(template)) continue
      for (const endpoint of template.includes("{endpoint}") ? ["canary", "outside"] as const : ["canary"] as const) {
        const names = [...template.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name).filter((name) => name !== "endpoint")
        const last = names.at(-1)
        const idsOf = (name: string) => known[name === "id" && template.includes("/batch/") ? "batch" : name] ?? jobs[endpoint]
        const ids = last === undefined ? [""] : idsOf(last)
        for (const id of ids) {
          const path = template.replaceAll(
            /\{(\w+)\}/g,
            (_, name: string) => name === "endpoint" ? endpoint : name === last ? id : "none"
          )
          for (const query of /\/status\//.test(template) ? ["", "?explain"] : [""]) await call(`GET ${template}`, path + query)
        }
      }
    }
    for (const path of ["/metrics", "/docs", "/", "/healthz", "/readyz"]) await call(`GET ${path}`, path)
    // Every other operation has returned something to search, except those for builds, pipeline runs and agents, because there are none.
    const isEmpty = (template: string) => EFFECTIVE.test(template) || /\/(?:build|steps|definitions\/|agents\/)/.test(template)
    const succeeded = new Set(texts.flatMap(({ from, status = 0 }) => status >= 200 && status < 300 ? [from] : []))
    expect(templates.filter((template) => !isEmpty(template) && !succeeded.has(`GET ${template}`))).toEqual([])
    expect(succeeded).toContain("GET /metrics")
    const logs = texts.filter(({ from }) => from === "GET /v2/{endpoint}/logs/{id}").map((one) => one.text).join("\n")
    expect(logs.match(/\[secret token\]/g)?.length).toBeGreaterThan(2)
  }, 120_000)

  it("is nowhere else: output, log, traces, metrics, files and backups, while the platform runs and after its end", async () => {
    const archive = join(folder, "archive")
    await mkdir(archive)
    const backup = await runCommand(["backup", join(archive, "stint.tar")], {
      env: {
        STINT_URL: platform.url,
        STINT_API_KEY: chosen.adminKey,
        STINT_DATA_DIR: platform.dataDir,
        XDG_CONFIG_HOME: platform.configDir
      }
    })
    expect(backup.code).toBe(0)
    const exported = (path: string, part: string) =>
      until(
        `${part} in ${path}`,
        () => collector.received.some(({ body, url }) => url === path && body.includes(part)) || undefined
      )
    await exported("/v1/traces", "401 Unauthorized: [secret token]")
    await exported("/v1/traces", "webhook completed")
    await exported("/v1/metrics", "stint")
    await until("the failed job in the events", () => events.text.includes("\"status\":\"FAILED\"") || undefined)

    const leaksOf = async (name: Name): Promise<ReadonlyArray<string>> => {
      const value = valueOf(name)
      const { files, shownBy = [] } = PERMITTED[name]
      const forms = formsOf(value)
      const written = [
        ...texts,
        { from: "the output of the platform", text: platform.output },
        { from: "the stream of events", text: events.text },
        { from: WEBHOOKS, text: hooks.received.map(({ body }) => body).join("\n") },
        ...collector.received.map(({ body, url }) => ({ from: `the export to ${url}`, text: body }))
      ]
      const inText = written.filter(({ from, text }) => !shownBy.includes(from) && forms.some((form) => text.includes(form))).map(
        ({ from }) => from
      )
      const inData = (await holdersOf(platform.dataDir, value)).filter((file) =>
        files === undefined || !files.test(relative(platform.dataDir, file))
      )
      const elsewhere = (await Promise.all([folder, platform.configDir].map((one) => holdersOf(one, value)))).flat()
        // A backup holds the database and the secret that worker keys are derived from (docs/operations/backup.md).
        .filter((file) => basename(file) !== "stint.tar" || files === undefined)
      return [...new Set([...inText, ...inData, ...elsewhere])].map((place) => `${name} in ${place}`)
    }
    const search = async () => (await Promise.all([...values.keys()].map(leaksOf))).flat()
    expect(await search()).toEqual([])

    // Shows that the search finds values where they are.
    for (const [name, { files, shownBy = [] }] of Object.entries(PERMITTED) as ReadonlyArray<[Name, Permission]>) {
      const forms = formsOf(valueOf(name))
      const shown = texts.filter(({ text }) => forms.some((form) => text.includes(form))).map(({ from }) => from)
      for (const operation of shownBy.slice(0, 1)) expect(shown, `${name} in ${operation}`).toContain(operation)
      if (files !== undefined) {
        expect((await holdersOf(platform.dataDir, valueOf(name))).length, `${name} in a file`).toBeGreaterThan(0)
      }
    }

    expect(await platform.end("SIGTERM")).toMatchObject({ code: 0 })
    expect(await search()).toEqual([])
  }, 120_000)
})

describe("the error of a platform that cannot start", () => {
  const secret = random("start")
  const bucket = {
    STINT_PAYLOADS: "s3://bucket",
    STINT_PAYLOADS_ENDPOINT: "http://127.0.0.1:1",
    STINT_PAYLOADS_ACCESS_KEY_ID: "id",
    STINT_PAYLOADS_SECRET_ACCESS_KEY: secret
  }
  it.each<readonly [setting: string, env: Readonly<Record<string, string>>]>([
    ["STINT_API_KEY", { STINT_API_KEY: `${secret} ${secret}` }],
    ["STINT_SECRETS_KEY", { STINT_SECRETS_KEY: secret }],
    ["STINT_ALERT_URL", { STINT_ALERT_URL: `ftp://user:${secret}@host/?token=${secret}`, STINT_ALERT_SECRET: secret }],
    ["STINT_ALERT_SECRET", { STINT_ALERT_URL: `https://host/?token=${secret}`, STINT_ALERT_SECRET: secret }],
    ["PostgreSQL", { STINT_DATABASE: `postgres://user:${secret}@127.0.0.1:1/stint` }],
    ["STINT_DATABASE", { STINT_DATABASE: `mysql://user:${secret}@host/stint` }],
    ["127.0.0.1:1", bucket]
  ])("names %s and does not contain its value", async (named, env) => {
    const dataDir = await mkdtemp(join(tmpdir(), "stint-canary-start-"))
    const { code, stderr, stdout } = await runCommand(["serve"], {
      env: { STINT_DATA_DIR: dataDir, XDG_CONFIG_HOME: `${dataDir}-config`, STINT_API_KEY: random("key"), PORT: "0", ...env }
    })
    const files = await holdersOf(dataDir, secret)
    await rm(dataDir, { recursive: true })
    expect({ code, stdout: stdout.includes(secret), stderr: stderr.includes(secret), files }).toEqual({
      code: 1,
      stdout: false,
      stderr: false,
      files: []
    })
    expect(stderr).toContain(named)
  }, 60_000)
})
