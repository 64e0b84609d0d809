/**
 * Two platforms with one PostgreSQL database (docs/operations/many-nodes.md): real processes, a real database, and kill -9.
 */
import { missing, startCluster, type TestCluster } from "@stint/store-postgres/testing"
import { randomBytes } from "node:crypto"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { runCommand } from "./CommandInProcess.ts"
import { FIXTURES, type JobObject, PlatformProcess, until } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "stint.config.ts")]

/** How long a state may take to appear on a busy machine. Milliseconds. */
const LIMIT = 180_000

const TERMINAL = new Set(["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"])

/** A request to a node that may be gone or without its database: undefined when it gave no response, or 503. */
const attempt = async (
  platform: PlatformProcess,
  method: string,
  path: string,
  body?: unknown
): Promise<unknown> => {
  try {
    const answer = await platform.request(method, path, body)
    if (answer.status === 503) return undefined
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300)
    return answer.body
  } catch (error) {
    // The connection was refused or cut.
    if (error instanceof TypeError) return undefined
    throw error
  }
}

describe.skipIf(missing !== undefined)(missing ?? "two nodes with one database", () => {
  let cluster: TestCluster
  let first: PlatformProcess
  let second: PlatformProcess
  let workerKey = ""

  beforeAll(async () => {
    cluster = await startCluster({ fsync: true })
    const settings = {
      STINT_DATABASE: cluster.url("postgres"),
      STINT_API_KEY: randomBytes(24).toString("hex"),
      STINT_SECRETS_KEY: randomBytes(32).toString("base64")
    }
    first = await PlatformProcess.create(CONFIG, settings)
    second = await PlatformProcess.create(CONFIG, settings)
    // Each node accepts it.
    workerKey = await first.workerKey("joined")
  }, LIMIT)
  afterAll(async () => {
    await first?.[Symbol.asyncDispose]()
    await second?.[Symbol.asyncDispose]()
    await cluster?.stop()
  }, LIMIT)

  /** A worker's call to take a job of the endpoint `joined`. Repeated while it returns nothing. */
  const take = async (platform: PlatformProcess, worker: string): Promise<{ readonly id: string }> =>
    until(`a job for ${worker}`, async () => {
      const { body, status } = await platform.request("GET", `/v2/joined/job-take/${worker}`, undefined, workerKey)
      return status === 200 ? (body as { readonly id: string }) : undefined
    }, LIMIT)
  const call = async (platform: PlatformProcess, path: string, body: unknown) =>
    expect((await platform.request("POST", `/v2/joined/${path}`, body, workerKey)).status).toBe(200)

  it("gives a job that one node received to a worker that waits at the other, and returns its result to the caller", async () => {
    const taken = take(second, "ann")
    const ended = first.runSync("joined", { n: 1 })
    const { id } = await taken
    await call(second, `job-done/ann/${id}`, { output: "from the other node" })
    expect(await ended).toMatchObject({ id, status: "COMPLETED", output: "from the other node" })
  }, LIMIT)

  it("streams the chunks that a worker sends to the other node", async () => {
    const id = await first.run("joined", {})
    const response = await fetch(`${first.url}/v2/joined/events/${id}`, { headers: { authorization: `Bearer ${first.key}` } })
    const text = response.text()
    expect((await take(second, "ann")).id).toBe(id)
    await call(second, `job-stream/ann/${id}`, { output: "chunk-one" })
    await call(second, `job-done/ann/${id}`, { output: "the end" })
    expect(await text).toMatch(/chunk-one[^]*the end/)
  }, LIMIT)

  it("cancels, through one node, a job whose worker listens at the other", async () => {
    const id = await second.run("joined", {})
    expect((await take(second, "ann")).id).toBe(id)
    const stops = until("the stop signal", async () => {
      const { body, status } = await second.request("GET", "/v2/joined/job-stop/ann", undefined, workerKey)
      return status === 200 ? body : undefined
    }, LIMIT)
    expect((await first.request("POST", `/v2/joined/cancel/${id}`)).body).toMatchObject({ status: "CANCELLED" })
    expect(JSON.stringify(await stops)).toContain(id)
  }, LIMIT)

  it("retries and explains a job through either node", async () => {
    const id = await first.run("joined", {})
    expect((await take(second, "ann")).id).toBe(id)
    await until("the worker in the health of the other node", async () => {
      const { body } = await first.request("GET", "/v2/joined/health")
      return (body as { readonly workers: { readonly running: number } }).workers.running > 0 ? true : undefined
    }, LIMIT)
    await call(second, `job-done/ann/${id}`, { error: "the disk is full" })
    expect(await first.ended("joined", id)).toMatchObject({ status: "FAILED" })
    expect((await first.request("POST", `/v2/joined/retry/${id}`)).body).toMatchObject({ status: "IN_QUEUE" })
    const { body } = await second.request("GET", `/v2/joined/status/${id}?explain`)
    expect(body).toMatchObject({ id, status: "IN_QUEUE", explain: {} })
    expect((await take(second, "ann")).id).toBe(id)
    await call(second, `job-done/ann/${id}`, { output: 2 })
    expect(await first.ended("joined", id)).toMatchObject({ status: "COMPLETED", output: 2 })
  }, LIMIT)

  it("drains and stops worker processes with the command line through either node, whichever started them", async () => {
    for (const near of [first, second]) {
      const stint = (...args: ReadonlyArray<string>) =>
        runCommand([...args, "--json"], { env: { STINT_URL: near.url, STINT_API_KEY: near.key } })
      const workerOf = (id: string) =>
        until(`the worker of ${id}`, async () => {
          const { status, workerId } = await near.job("slow", id)
          return status === "IN_PROGRESS" ? workerId : undefined
        }, LIMIT)
      const isListed = async (worker: string) => {
        const { stdout } = await stint("workers", "list", "slow")
        return (JSON.parse(stdout) as ReadonlyArray<{ readonly id: string }>).some(({ id }) => id === worker)
      }

      const drained = await near.run("slow", { ms: 4_000 })
      const worker = await workerOf(drained)
      await until("the worker in the list of this node", async () => (await isListed(worker)) || undefined, LIMIT)
      expect(JSON.parse((await stint("workers", "drain", "slow", worker)).stdout)).toMatchObject({
        id: worker,
        state: "draining",
        leaving: "drain"
      })
      const next = await near.run("slow", { ms: 10 })
      expect(await near.ended("slow", next, LIMIT)).toMatchObject({ status: "COMPLETED" })
      expect((await near.job("slow", next)).workerId, "a drained worker got a job").not.toBe(worker)
      expect(await near.ended("slow", drained, LIMIT)).toMatchObject({ status: "COMPLETED", workerId: worker })
      await until("its exit", async () => (await isListed(worker)) ? undefined : true, LIMIT)

      const stopped = await near.run("slow", { ms: 6_000 })
      const victim = await workerOf(stopped)
      await until("the worker in the list of this node", async () => (await isListed(victim)) || undefined, LIMIT)
      expect((await stint("workers", "stop", "slow", victim, "--yes")).code).toBe(0)
      expect(await near.ended("slow", stopped, LIMIT)).toMatchObject({ status: "COMPLETED", retries: 1 })
      expect((await near.job("slow", stopped)).workerId).not.toBe(victim)
      expect(await stint("workers", "stop", "slow", victim, "--yes")).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("has no worker")
      })
    }
  }, LIMIT)

  it("drains an external worker through a node that the worker does not call", async () => {
    const poll = (platform: PlatformProcess) => platform.request("GET", "/v2/joined/job-take/eve", undefined, workerKey)
    await poll(second)
    const drained = await until("the worker at the other node", async () => {
      const { body, status } = await first.request("POST", "/api/v1/endpoints/joined/workers/eve/drain")
      return status === 200 ? body : undefined
    }, LIMIT)
    expect(drained).toMatchObject({ id: "eve", state: "draining", leaving: "drain", external: true })
    const id = await first.run("joined", {})
    for (const node of [first, second]) expect((await poll(node)).status, "a drained worker got a job").not.toBe(200)
    expect((await take(second, "ann")).id).toBe(id)
    await call(second, `job-done/ann/${id}`, { output: 1 })
  }, LIMIT)

  it("knows the keys, revocations, secrets and endpoints of the other node within seconds", async () => {
    const created = await first.request("POST", "/api/v1/keys", { name: "shop", scopes: ["jobs"], endpoints: ["joined"] })
    expect(created.status).toBe(201)
    const { key, secret } = created.body as { readonly key: { readonly id: string }; readonly secret: string }
    const status = async () => (await fetch(`${second.url}/v2/joined/health`, { headers: { authorization: secret } })).status
    await until("the key at the other node", async () => (await status()) === 200 ? true : undefined, LIMIT)
    expect((await first.request("POST", `/api/v1/keys/${key.id}/revoke`)).status).toBeLessThan(300)
    await until("the revocation at the other node", async () => (await status()) === 401 ? true : undefined, LIMIT)

    expect((await first.request("PUT", "/api/v1/secrets/TOKEN", { value: "a long secret value" })).status).toBeLessThan(300)
    await until("the secret at the other node", async () => {
      const { body } = await second.request("GET", "/api/v1/secrets")
      return JSON.stringify(body).includes("TOKEN") ? true : undefined
    }, LIMIT)

    const endpoint = await first.request("POST", "/api/v1/endpoints", { id: "fresh", source: { type: "external" } })
    expect(endpoint.status, JSON.stringify(endpoint.body)).toBe(201)
    expect(await second.run("fresh", {})).toMatch(/./)
  }, LIMIT)

  it("counts the calls of the other node against a rate limit, each once", async () => {
    // A node counts the calls of another from the first heartbeat on that it has read. That heartbeat also shows the other's workers.
    const taking = take(second, "zoe")
    await until("a heartbeat of the second node at the first", async () => {
      const { body } = await first.request("GET", "/v2/joined/health")
      return (body as { readonly workers: { readonly idle: number } }).workers.idle > 0 ? true : undefined
    }, LIMIT)
    const id = await second.run("joined", {})
    expect((await taking).id).toBe(id)
    await call(second, `job-done/zoe/${id}`, { output: 1 })
    const limited = { id: "limited", source: { type: "external" }, rateLimit: { limit: 1_000, perMs: 86_400_000 } }
    expect((await first.request("POST", "/api/v1/endpoints", limited)).status).toBe(201)
    const left = async (platform: PlatformProcess) => {
      const response = await fetch(`${platform.url}/v2/limited/run`, {
        method: "POST",
        headers: { authorization: `Bearer ${platform.key}`, "content-type": "application/json" },
        body: JSON.stringify({ input: {} })
      })
      expect(response.status).toBe(200)
      return Number(/;r=(\d+)/.exec(response.headers.get("ratelimit") ?? "")?.[1])
    }
    for (let call = 1; call <= 30; call++) expect(await left(first)).toBe(1_000 - call)
    let calls = 0
    await until("the calls of the first node at the second", async () => {
      calls += 1
      return (await left(second)) === 1_000 - 30 - calls ? true : undefined
    }, LIMIT)
    const total = 30 + calls
    let more = 0
    await until("the calls of the second node at the first", async () => {
      more += 1
      return (await left(first)) === 1_000 - total - more ? true : undefined
    }, LIMIT)
  }, LIMIT)

  it("accepts the console session of the other node, also after a restart, and ends it everywhere at a logout", async () => {
    const session = (platform: PlatformProcess, method: string, headers: Readonly<Record<string, string>>, body?: string) =>
      fetch(`${platform.url}/api/v1/session`, { method, headers: { origin: platform.url, ...headers }, body: body ?? null })
    const login = async (platform: PlatformProcess) => {
      const response = await session(platform, "POST", {}, JSON.stringify({ key: platform.key }))
      expect(response.status).toBe(200)
      return /=([\w-]+);/.exec(response.headers.get("set-cookie") ?? "")?.[1] ?? ""
    }
    // Behind a load balancer, the nodes have one address. Here, the name of the cookie contains the port of each.
    const statusOf = async (platform: PlatformProcess, value: string, method = "GET") =>
      (await session(platform, method, { cookie: `stint_session_${new URL(platform.url).port}=${value}` })).status
    const [stays, ends] = [await login(first), await login(first)]
    for (const node of [first, second]) expect([await statusOf(node, stays), await statusOf(node, ends)]).toEqual([200, 200])
    expect(await statusOf(second, ends, "DELETE")).toBe(204)
    const isOver = async (platform: PlatformProcess) => (await statusOf(platform, ends)) === 401 ? true : undefined
    await until("the logout at the other node", () => isOver(first), LIMIT)
    await second.end("SIGKILL")
    await second.start()
    expect(await statusOf(second, stays)).toBe(200)
    // It has learned the logout from the other node.
    expect(await statusOf(second, ends)).toBe(401)
    expect([await statusOf(first, stays), await statusOf(first, ends)]).toEqual([200, 401])
  }, LIMIT)

  it("creates one job for an idempotency key that both nodes receive at once", async () => {
    const submit = async (platform: PlatformProcess, key: string) => {
      const response = await fetch(`${platform.url}/v2/joined/run`, {
        method: "POST",
        headers: { authorization: `Bearer ${platform.key}`, "content-type": "application/json", "idempotency-key": key },
        body: JSON.stringify({ input: { key } })
      })
      expect(response.status).toBe(200)
      return (await response.json() as JobObject).id
    }
    for (const key of Array.from({ length: 20 }, (_, n) => `order-${n}`)) {
      const ids = await Promise.all([submit(first, key), submit(second, key), submit(first, key), submit(second, key)])
      expect(new Set(ids).size, ids.join(" ")).toBe(1)
    }
  }, LIMIT)

  /** The job, once it has ended. Asks again while the node is gone or without its database. */
  const ended = (platform: PlatformProcess, id: string): Promise<JobObject> =>
    until(`job ${id} to end`, async () => {
      const job = await attempt(platform, "GET", `/v2/slow/status/${id}`) as JobObject | undefined
      return job !== undefined && TERMINAL.has(job.status) ? job : undefined
    }, LIMIT)

  /**
   * Eight callers submit a job through one node and await its end through the other, again and again. Disturbs the nodes at the same time, and then
   * checks that each acknowledged job has ended once.
   */
  const underLoad = async (title: string, disturb: () => Promise<void>) => {
    const ends = new Map<string, string>()
    const record = (job: JobObject) => {
      const end = JSON.stringify([job.status, job.output, job.retries])
      expect(ends.get(job.id) ?? end, `job ${job.id} ended twice`).toBe(end)
      ends.set(job.id, end)
      expect(job.status, JSON.stringify(job)).toBe("COMPLETED")
    }
    const acknowledged: Array<string> = []
    const state = { isOver: false, refused: 0 }
    const caller = async (n: number) => {
      const [near, far] = n % 2 === 0 ? [first, second] : [second, first]
      while (!state.isOver) {
        const body = await attempt(near, "POST", "/v2/slow/run", { input: { ms: 5, n: acknowledged.length } })
        if (body === undefined) {
          state.refused += 1
          await new Promise((next) => setTimeout(next, 100))
          continue
        }
        const { id } = body as JobObject
        acknowledged.push(id)
        record(await ended(far, id))
      }
    }
    const calling = Promise.all(Array.from({ length: 8 }, (_, n) => caller(n)))
    const more = (count: number) => until(`${count} ended jobs`, () => ends.size >= count ? true : undefined, LIMIT)
    await Promise.race([more(30), calling])
    await disturb()
    await Promise.race([more(ends.size + 30), calling])
    state.isOver = true
    await calling
    for (const platform of [first, second]) for (const id of acknowledged) record(await ended(platform, id))
    expect(ends.size).toBe(acknowledged.length)
    process.stdout.write(`${title}: ${acknowledged.length} jobs acknowledged, ${state.refused} refused, 0 lost, 0 ended twice\n`)
  }

  it("loses no job and ends none twice when each node in turn is killed under load, and moves its workers", async () => {
    await underLoad("kill -9 of each node", async () => {
      for (const node of [first, second]) {
        const other = node === first ? second : first
        const before = Date.now()
        await node.end("SIGKILL")
        // Whichever node ran the workers: the other one runs jobs now.
        expect(await ended(other, await other.run("slow", { n: -1 }))).toMatchObject({ status: "COMPLETED" })
        process.stdout.write(`the other node ended a job ${Date.now() - before} ms after the kill\n`)
        await node.start()
      }
    })
  }, LIMIT)

  it("loses no job and ends none twice when PostgreSQL is killed under load, and both nodes recover by themselves", async () => {
    await underLoad("kill of PostgreSQL", async () => {
      await cluster.ctl("-m", "immediate", "stop")
      await until("503 from both nodes", async () => {
        const answers = await Promise.all(
          [first, second].map(async (node) => (await node.request("POST", "/v2/slow/run", { input: {} })).status)
        )
        return answers.every((status) => status === 503) ? true : undefined
      }, LIMIT)
      await cluster.ctl("start")
    })
  }, LIMIT)
})
