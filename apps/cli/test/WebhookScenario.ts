/**
 * Webhooks between real processes: a platform that is killed twice, and receivers that fail, hang and reset connections
 * (R10, docs/spec/figures.md#reliability).
 */
import { SeededRandom } from "@stint/store-testing"
import { verify } from "@stint/webhooks/verify"
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import { result, type ScenarioOptions, type ScenarioResult, STORM } from "./FaultScenarios.ts"
import { FaultWorld } from "./FaultWorld.ts"
import { until } from "./PlatformProcess.ts"

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly response: ServerResponse
}

/** A webhook receiver on the loopback interface. */
const receiver = async (behave: (received: Received) => void) => {
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => behave({ headers: request.headers, body: Buffer.concat(parts).toString(), response }))
    // The connections of a killed platform fail.
    request.on("error", () => {})
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("not listening")
  return {
    url: `http://127.0.0.1:${address.port}/hook`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, "close")
    }
  }
}

/** Submits jobs with webhooks. `limitMs`: how long to wait for the last delivery. */
export const webhooks = async (
  { env, jobs, limitMs, nodes, seed = SeededRandom.runSeed() }: ScenarioOptions & {
    readonly jobs: number
    readonly limitMs: number
  }
): Promise<ScenarioResult> => {
  await using world = await FaultWorld.create(STORM, {
    STINT_WEBHOOKS_ALLOW: "127.0.0.1",
    STINT_WEBHOOKS_TIMEOUT: "1 second",
    ...env
  }, nodes)
  const { history, platform } = world
  const answered = await platform.request("GET", "/api/v1/endpoints/storm/webhooks/secret")
  const { secret } = answered.body as { readonly secret: string }
  const random = SeededRandom.seededRandom(seed)
  const tried = new Set<string>()
  const notified = new Set<string>()
  let faults = 0

  const behave = ({ body, headers, response }: Received) => {
    const at = Date.now()
    const { id, status } = JSON.parse(body)
    let signed = true
    try {
      verify(secret, headers, body)
    } catch {
      signed = false
    }
    // Each delivery fails at most once, because the retry delays are too long for a test. An accepted delivery counts even without a response.
    const dice = tried.has(id) ? 1 : random()
    tried.add(id)
    const accepted = dice >= 0.3
    history.record({ _tag: "Notified", at, job: id, status, signed, accepted })
    if (accepted) notified.add(id)
    else faults += 1
    if (dice < 0.03) return
    if (dice < 0.15) return void response.destroy()
    response.writeHead(accepted ? 204 : 500 + Math.floor(random() * 4)).end()
  }
  await using first = await receiver(behave)
  await using second = await receiver(behave)
  await using third = await receiver(behave)
  const urls = [first.url, second.url, third.url]

  for (let count = 0; count < 2; count++) world.startWorker()
  const ids: Array<string> = []
  let n = 0
  const submitting = Promise.all(Array.from({ length: 8 }, async () => {
    while (n < jobs) {
      const own = n++
      const webhook = urls[own % urls.length] ?? first.url
      const input = { n: own, log: undefined, fails: own % 50 === 0 ? 1 : 0 }
      const id = await world.submit(input, { key: `order ${own}`, webhook })
      ids.push(id)
      if (own % 20 === 0) await world.cancel(id)
    }
  }))
  for (const share of [0.15, 0.35]) {
    await until("some jobs to be notified", () => notified.size >= share * jobs ? true : undefined, limitMs)
    await world.killPlatform()
  }
  await submitting
  // The history reports the jobs whose end no receiver accepted.
  await until("all jobs to be notified", () => notified.size >= jobs ? true : undefined, limitMs).catch(() => {})
  for (const id of ids) await world.observe(id)
  return result(world, { notified: true, cancelGrace: 1_000 }, { "webhook faults": faults, "webhooks accepted": notified.size })
}
