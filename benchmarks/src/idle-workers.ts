/**
 * The workers of the idle benchmark, all in one process: each has a connection that waits for a job and, where it is a whole one, another that
 * waits for a stop signal and a third for its heartbeat.
 */
import * as Schema from "effect/Schema"
import process from "node:process"
import { open, requestBytes } from "./HttpConnection.ts"

const Environment = Schema.Struct({ variables: Schema.Record(Schema.String, Schema.String) })

const decode = Schema.decodeUnknownSync(
  Schema.Struct({ environments: Schema.Array(Environment), workersEach: Schema.Int, whole: Schema.Boolean })
)

/** The host and the path of a variable's address, for one worker. */
const addressOf = (variable: string | undefined, worker: string) => {
  const { host, pathname, search } = new URL((variable ?? "").replace(/\$\w+/, worker))
  return { host, path: pathname + search }
}

/** Sends a request, and again as soon as it is answered. */
const poll = async (host: string, request: Buffer): Promise<void> => {
  const connection = await open(host)
  const next = () =>
    connection.send(request, ({ body, status }) => {
      if (status !== 200 && status !== 204) throw new Error(`a poll was answered ${status}: ${body}`)
      next()
    })
  next()
}

const beat = async (host: string, request: Buffer, intervalMs: number): Promise<void> => {
  const connection = await open(host)
  const send = () =>
    connection.send(request, ({ body, status }) => {
      if (status !== 200) throw new Error(`a ping was answered ${status}: ${body}`)
    })
  // Workers that started one after the other beat one after the other.
  setTimeout(() => {
    send()
    setInterval(send, intervalMs)
  }, Math.random() * intervalMs)
}

const start = async (message: unknown): Promise<void> => {
  const { environments, whole, workersEach } = decode(message)
  for (const { variables } of environments) {
    const key = variables["PLATFORM_AI_API_KEY"] ?? ""
    for (let n = 0; n < workersEach; n++) {
      const worker = `idle-${n}`
      const take = addressOf(variables["PLATFORM_WEBHOOK_GET_JOB"], worker)
      await poll(take.host, requestBytes(take.host, "GET", `${take.path}&job_in_progress=0`, key, undefined))
      if (!whole) continue
      // Workers know its address by that of job-take.
      await poll(take.host, requestBytes(take.host, "GET", take.path.replace("/job-take/", "/job-stop/"), key, undefined))
      const ping = addressOf(variables["PLATFORM_WEBHOOK_PING"], worker)
      const interval = Number(variables["PLATFORM_PING_INTERVAL"] ?? 10_000)
      await beat(ping.host, requestBytes(ping.host, "GET", ping.path, key, undefined), interval)
    }
  }
  process.send?.("ready")
}

process.once("message", (message) => void start(message))
process.once("disconnect", () => process.exit())
