/**
 * What existing clients and workers require of a server (docs/spec/compatibility.md#required-behaviour), as checks that need only its address and keys. So
 * they also apply to other servers that speak the protocol: `pnpm wire --url URL --key KEY --endpoint ID --worker-key KEY`.
 *
 * The endpoint must have no other callers and workers while the checks run. They use no waits that depend on the server's settings, except for the
 * longest hold of a poll.
 */
import { randomUUID } from "node:crypto"
import { gzipSync } from "node:zlib"

/** The server to check. */
export interface WireServer {
  /** Without a slash at the end. */
  readonly url: string
  /** A key of the jobs API. */
  readonly key: string
  /** An endpoint whose jobs no worker takes. */
  readonly endpoint: string
  /** A key of the worker protocol for the endpoint. */
  readonly workerKey: string
}

/** A check. `run` fails with an error that says what is wrong. */
export interface WireCheck {
  /** The number in docs/spec/compatibility.md#required-behaviour. */
  readonly requirement: number
  readonly title: string
  readonly run: (server: WireServer) => Promise<void>
}

/** The longest time that a server may hold a poll. Milliseconds. */
const LONGEST_HOLD = 90_000

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: unknown
}

interface Sent {
  readonly method?: string
  readonly body?: string | Uint8Array<ArrayBuffer>
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const call = async (server: WireServer, path: string, { body, headers = {}, key, method }: Sent = {}): Promise<Answer> => {
  const response = await fetch(`${server.url}/v2/${server.endpoint}/${path}`, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    signal: AbortSignal.timeout(LONGEST_HOLD + 10_000),
    headers: { authorization: key ?? `Bearer ${server.key}`, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body })
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: parsed(text) }
}

const require = (isRight: boolean, wrong: string): void => {
  if (!isRight) throw new Error(wrong)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === "object" && value !== null

/** A value in a JSON answer: `at(answer, "output", "name")`. */
const at = (answer: Answer, ...path: ReadonlyArray<string>): unknown =>
  path.reduce((value: unknown, name) => (isRecord(value) ? value[name] : undefined), answer.json)

const expectStatus = (answer: Answer, wanted: number, what: string): void =>
  require(answer.status === wanted, `${what} returned ${answer.status} and not ${wanted}: ${answer.text.slice(0, 300)}`)

const expectEqual = (actual: unknown, wanted: unknown, what: string): void =>
  require(
    JSON.stringify(actual) === JSON.stringify(wanted),
    `${what} is ${JSON.stringify(actual)} and not ${JSON.stringify(wanted)}`
  )

/** Submits a job. `rest`: more keys of the body. */
const submit = async (server: WireServer, input: unknown, rest: object = {}): Promise<string> => {
  const answer = await call(server, "run", { body: JSON.stringify({ input, ...rest }) })
  expectStatus(answer, 200, "run")
  const id = at(answer, "id")
  require(typeof id === "string", `run returned no id: ${answer.text}`)
  return String(id)
}

/** A worker that takes the submitted job. */
const take = async (
  server: WireServer,
  query = "?job_in_progress=0"
): Promise<{ readonly worker: string; readonly answer: Answer }> => {
  const worker = `w-${randomUUID()}`
  const answer = await call(server, `job-take/${worker}${query}`, { key: server.workerKey })
  expectStatus(answer, 200, "job-take")
  return { worker, answer }
}

/** Submits a job that a worker then takes. */
const started = async (server: WireServer, input: unknown = { name: "Ada" }, rest: object = {}) => {
  const id = await submit(server, input, rest)
  const { answer, worker } = await take(server)
  expectEqual(at(answer, "id"), id, "the id of the taken job")
  const deliver = (body: object, more: Sent & { readonly query?: string } = {}) =>
    call(server, `job-done/${worker}/${id}?isStream=false${more.query ?? ""}`, {
      body: JSON.stringify(body),
      key: server.workerKey,
      ...more
    })
  const stream = (output: unknown) =>
    call(server, `job-stream/${worker}/${id}?isStream=false`, { body: JSON.stringify({ output }), key: server.workerKey })
  return { id, worker, job: answer, deliver, stream }
}

const statusOf = async (server: WireServer, id: string): Promise<Answer> => {
  const answer = await call(server, `status/${id}`)
  expectStatus(answer, 200, "status")
  return answer
}

const cancel = async (server: WireServer, id: string): Promise<void> => {
  expectStatus(await call(server, `cancel/${id}`, { method: "POST" }), 200, "cancel")
}

/** The checks. They can run in any order, one at a time. */
export const wireChecks: ReadonlyArray<WireCheck> = [
  {
    requirement: 1,
    title: "accepts `Bearer KEY` and the bare key, and no other key",
    run: async (server) => {
      expectStatus(await call(server, "health"), 200, "health with a bearer key")
      expectStatus(await call(server, "health", { key: server.key }), 200, "health with the bare key")
      expectStatus(await call(server, "health", { key: `Bearer ${server.key}x` }), 401, "health with a wrong key")
    }
  },
  {
    requirement: 2,
    title: "accepts `&key=value` at the end of an address without a query",
    run: async (server) => {
      const id = await submit(server, 1)
      const { answer, worker } = await take(server, "&job_in_progress=0")
      expectEqual(at(answer, "id"), id, "the id of the taken job")
      const done = await call(server, `job-done/${worker}/${id}&isStream=false`, {
        body: "{\"output\":1}",
        key: server.workerKey
      })
      expectStatus(done, 200, "job-done")
      expectEqual(at(await statusOf(server, id), "output"), 1, "the output")
    }
  },
  {
    requirement: 3,
    title: "reads raw JSON under a form content type, as UTF-8",
    run: async (server) => {
      const { deliver, id } = await started(server)
      const headers = { "content-type": "application/x-www-form-urlencoded", charset: "utf-8" }
      expectStatus(await deliver({ output: "grün 🌱" }, { headers }), 200, "job-done")
      expectEqual(at(await statusOf(server, id), "output"), "grün 🌱", "the output")
    }
  },
  {
    requirement: 4,
    title: "holds job-take for less than 90 s and returns 204 when there is no job; a job is `application/json`",
    run: async (server) => {
      const begun = performance.now()
      const empty = await call(server, `job-take/w-${randomUUID()}?job_in_progress=0`, { key: server.workerKey })
      expectStatus(empty, 204, "job-take without a job")
      require(performance.now() - begun < LONGEST_HOLD, `job-take was held for ${Math.round(performance.now() - begun)} ms`)
      const { deliver, job } = await started(server)
      expectEqual(job.headers.get("content-type"), "application/json", "the content type of job-take")
      await deliver({ output: 1 })
    }
  },
  {
    requirement: 5,
    title: "treats a result with IN_PROGRESS as progress, and ignores it after the job's end",
    run: async (server) => {
      const { deliver, id } = await started(server)
      expectStatus(await deliver({ status: "IN_PROGRESS", output: "half" }), 200, "progress")
      const running = await statusOf(server, id)
      expectEqual([at(running, "status"), at(running, "output")], ["IN_PROGRESS", "half"], "the job after its progress")
      expectStatus(await deliver({ output: "whole" }), 200, "the result")
      await deliver({ status: "IN_PROGRESS", output: "late" })
      const ended = await statusOf(server, id)
      expectEqual([at(ended, "status"), at(ended, "output")], ["COMPLETED", "whole"], "the job after late progress")
    }
  },
  {
    requirement: 6,
    title: "accepts a repeated result, and rejects the result of a worker that does not have the job",
    run: async (server) => {
      const { deliver, id } = await started(server)
      const stranger = await call(server, `job-done/w-${randomUUID()}/${id}?isStream=false`, {
        body: "{\"output\":\"stolen\"}",
        key: server.workerKey
      })
      require(stranger.status >= 400 && stranger.status < 500, `the result of another worker returned ${stranger.status}`)
      expectStatus(await deliver({ output: 1 }), 200, "the result")
      expectStatus(await deliver({ output: 1 }), 200, "the repeated result")
      expectEqual(at(await statusOf(server, id), "output"), 1, "the output")
    }
  },
  {
    requirement: 8,
    title: "accepts GET and POST for status, status-sync and stream",
    run: async (server) => {
      const { deliver, id } = await started(server)
      await deliver({ output: 1 })
      for (const operation of ["status", "status-sync", "stream"]) {
        for (const method of ["GET", "POST"]) {
          expectStatus(await call(server, `${operation}/${id}`, { method }), 200, `${method} ${operation}`)
        }
      }
    }
  },
  {
    requirement: 9,
    title: "always returns `stream`, each chunk once and in order, then the terminal status, and `[]` for a cancelled job",
    run: async (server) => {
      const { deliver, id, stream } = await started(server)
      for (const chunk of ["a", "b", "c"]) expectStatus(await stream(chunk), 200, "job-stream")
      const page = await call(server, `stream/${id}`)
      expectEqual(at(page, "stream"), [{ output: "a" }, { output: "b" }, { output: "c" }], "the chunks")
      await stream("d")
      await deliver({ output: [] })
      const last = await call(server, `stream/${id}`)
      expectEqual(at(last, "stream"), [{ output: "d" }], "the last chunks")
      const end = at(last, "status") === "COMPLETED" ? last : await call(server, `stream/${id}`)
      expectEqual(at(end, "status"), "COMPLETED", "the status of the last page")
      const cancelled = await submit(server, 1)
      await cancel(server, cancelled)
      const none = await call(server, `stream/${cancelled}`)
      expectEqual([at(none, "status"), at(none, "stream")], ["CANCELLED", []], "the stream of a cancelled job")
    }
  },
  {
    requirement: 10,
    title: "delivers the input as it was sent, `{}` included",
    run: async (server) => {
      for (const input of [{}, { input: {} }, [], "text", 0, false, { é: [1.5, null, "\u2028"] }]) {
        const { deliver, job } = await started(server, input)
        expectEqual(at(job, "input"), input, "the input")
        await deliver({ output: null })
      }
    }
  },
  {
    requirement: 11,
    title: "ignores unknown keys in a submission, a result, a heartbeat and a take",
    run: async (server) => {
      const id = await submit(server, 1, { unknown: { deep: true } })
      const { answer, worker } = await take(server, "?gpu=none&job_in_progress=0&unknown=1")
      expectEqual(at(answer, "id"), id, "the id of the taken job")
      const ping = await call(server, `ping/${worker}?gpu=none&job_id=${id}&runpod_version=1.12.0&unknown=1`, {
        key: server.workerKey
      })
      expectStatus(ping, 200, "ping")
      const done = await call(server, `job-done/${worker}/${id}?gpu=none&isStream=false&unknown=1`, {
        body: "{\"output\":1,\"unknown\":2}",
        key: server.workerKey
      })
      expectStatus(done, 200, "job-done")
      expectEqual(at(await statusOf(server, id), "status"), "COMPLETED", "the status")
    }
  },
  {
    requirement: 12,
    title: "sends times as integers in milliseconds, and the error of a failed job as a string",
    run: async (server) => {
      const { deliver, id } = await started(server)
      expectStatus(await deliver({ error: "no such city" }), 200, "job-done with an error")
      const failed = await statusOf(server, id)
      expectEqual([at(failed, "status"), at(failed, "error")], ["FAILED", "no such city"], "the failed job")
      for (const time of ["delayTime", "executionTime"]) {
        require(Number.isInteger(at(failed, time)), `${time} is no integer: ${failed.text}`)
      }
    }
  },
  {
    requirement: 13,
    title: "does not use a worker's `X-Request-ID`, which may name another job",
    run: async (server) => {
      const { deliver, id } = await started(server)
      expectStatus(await deliver({ output: 1 }, { headers: { "x-request-id": "another-job" } }), 200, "job-done")
      expectEqual(at(await statusOf(server, id), "output"), 1, "the output")
    }
  },
  {
    requirement: 14,
    title: "returns an empty page of a stream before a client gives up, after 10 s",
    run: async (server) => {
      const { deliver, id } = await started(server)
      const begun = performance.now()
      const page = await call(server, `stream/${id}`)
      expectEqual([at(page, "status"), at(page, "stream")], ["IN_PROGRESS", []], "the page")
      require(performance.now() - begun < 10_000, `the page came after ${Math.round(performance.now() - begun)} ms`)
      await deliver({ output: 1 })
    }
  },
  {
    requirement: 15,
    title: "treats options that are null or empty as absent",
    run: async (server) => {
      const { deliver, job } = await started(server, 1, { webhook: "", policy: null, s3Config: null })
      require(!isRecord(job.json) || !("s3Config" in job.json), `the job has an s3Config: ${job.text}`)
      await deliver({ output: 1 })
    }
  },
  {
    requirement: 16,
    title: "passes s3Config on unchanged",
    run: async (server) => {
      const s3Config = { accessId: "a", accessSecret: "b", endpointUrl: "https://s3.example" }
      const { deliver, job } = await started(server, 1, { s3Config })
      expectEqual(at(job, "s3Config"), s3Config, "s3Config")
      await deliver({ output: 1 })
    }
  },
  {
    requirement: 17,
    title: "decodes bodies with `Content-Encoding: gzip`",
    run: async (server) => {
      const answer = await call(server, "run", {
        body: new Uint8Array(gzipSync("{\"input\":\"zipped\"}")),
        headers: { "content-encoding": "gzip" }
      })
      expectStatus(answer, 200, "run")
      const { answer: job, worker } = await take(server)
      expectEqual(at(job, "input"), "zipped", "the input")
      await call(server, `job-done/${worker}/${String(at(answer, "id"))}?isStream=false`, {
        body: "{\"output\":1}",
        key: server.workerKey
      })
    }
  }
]
