/**
 * The workers of the idle benchmark, all in one process. Each has a connection that polls for jobs. With `heartbeats`, each also has a connection that
 * polls for stop signals, and one for heartbeats.
 */
import { untilNextHeartbeat } from "@stint/worker/HeartbeatTimes"
import * as Schema from "effect/Schema"
import process from "node:process"
import { open, requestBytes } from "./HttpConnection.ts"

const Environment = Schema.Struct({ variables: Schema.Record(Schema.String, Schema.String) })

const decode = Schema.decodeUnknownSync(
  Schema.Struct({
    environments: Schema.Array(Environment),
    workersEach: Schema.Int,
    heartbeats: Schema.Literals(["none", "aligned", "spread"])
  })
)

/** The host and path of the URL in a variable, for one worker. */
const addressOf = (variable: string | undefined, worker: string) => {
  const { host, pathname, search } = new URL((variable ?? "").replace(/\$\w+/, worker))
  return { host, path: pathname + search }
}

/** Sends a request, and repeats it after each response. */
const poll = async (host: string, request: Buffer): Promise<void> => {
  const connection = await open(host)
  const next = () =>
    connection.send(request, ({ body, status }) => {
      if (status !== 200 && status !== 204) throw new Error(`a poll returned ${status}: ${body}`)
      next()
    })
  next()
}

/** How much later than planned the timer of a process fires, at most. The workers of this process would otherwise all send at the same moment. */
const TIMER_DELAY_MILLIS = 3

/** `aligned`: at the times of Stint's workers. Otherwise at times that depend on when each worker started, like other SDKs. */
const sendHeartbeats = async (host: string, request: Buffer, intervalMs: number, aligned: boolean): Promise<void> => {
  const connection = await open(host)
  const send = () => {
    const delay = aligned ? untilNextHeartbeat(Date.now(), intervalMs) + Math.random() * TIMER_DELAY_MILLIS : intervalMs
    setTimeout(send, delay)
    connection.send(request, ({ body, status }) => {
      if (status !== 200) throw new Error(`a ping returned ${status}: ${body}`)
    })
  }
  // Spreads the heartbeats over the interval, as if the workers had started at different times.
  setTimeout(send, Math.random() * intervalMs)
}

const start = async (message: unknown): Promise<void> => {
  const { environments, heartbeats, workersEach } = decode(message)
  for (const { variables } of environments) {
    const key = variables["PLATFORM_AI_API_KEY"] ?? ""
    for (let n = 0; n < workersEach; n++) {
      const worker = `idle-${n}`
      const take = addressOf(variables["PLATFORM_WEBHOOK_GET_JOB"], worker)
      await poll(take.host, requestBytes(take.host, "GET", `${take.path}&job_in_progress=0`, key, undefined))
      if (heartbeats === "none") continue
      // Workers derive the address of job-stop from the address of job-take.
      await poll(take.host, requestBytes(take.host, "GET", take.path.replace("/job-take/", "/job-stop/"), key, undefined))
      const ping = addressOf(variables["PLATFORM_WEBHOOK_PING"], worker)
      const interval = Number(variables["PLATFORM_PING_INTERVAL"] ?? 10_000)
      await sendHeartbeats(
        ping.host,
        requestBytes(ping.host, "GET", ping.path, key, undefined),
        interval,
        heartbeats === "aligned"
      )
    }
  }
  process.send?.("ready")
}

process.once("message", (message) => void start(message))
process.once("disconnect", () => process.exit())
