/**
 * An endpoint with a model, on a real platform with this test's own hub: the waiting job sees the download, and why it fails or is retried; the
 * worker starts when the model is there and finds it without a request; a restart downloads nothing.
 */
import { Explanation } from "@stint/contract/Explanation"
import { makeTestHub } from "@stint/models/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { join } from "node:path"
import { expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const decodeStatus = Schema.decodeUnknownSync(Schema.Struct({
  status: Schema.String,
  output: Schema.optionalKey(Schema.Unknown),
  explain: Explanation
}))
const decodeId = Schema.decodeUnknownSync(Schema.Struct({ id: Schema.String }))

const COMMIT = "a".repeat(40)

it("starts the worker when its model is there, and shows the download and its failures to the waiting job", async () => {
  const scope = await Effect.runPromise(Scope.make())
  const hub = await Effect.runPromise(Scope.provide(makeTestHub, scope))
  hub.models.set("acme/whisper", {
    commit: COMMIT,
    files: {
      "config.json": { content: Buffer.from("{\"layers\":2}") },
      "model.safetensors": { content: Buffer.alloc(100_000, 7), lfs: true }
    }
  })
  hub.faults.status = { code: 401, error: "GatedRepo" }
  try {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "modelled.config.ts")], {
      STINT_MODELS_HUB: hub.url
    })
    const submit = async () => decodeId((await platform.request("POST", "/v2/whisper/run", { input: { a: 1 } })).body).id
    const look = async (id: string) => decodeStatus((await platform.request("GET", `/v2/whisper/status/${id}?explain`)).body)
    const job = await submit()
    const failing = await until("the failed download", async () => {
      const { explain } = await look(job)
      return explain.reason === "failing" ? explain : undefined
    })
    expect(failing.words).toMatch(/The model acme\/whisper cannot be downloaded: the hub responded with status 401 \(GatedRepo\)/)
    expect(failing.cause).toMatch(/Accept them at .+ \(stint secrets set hf-token\)/)

    let open = () => {}
    hub.faults.gate = new Promise((resolve) => {
      open = resolve
    })
    hub.faults.status = undefined
    // As an operator would after accepting the conditions.
    await stint(platform, ["endpoints", "update", "whisper", "--workers-max", "2"])
    const downloading = await until("the download", async () => {
      const { explain } = await look(job)
      return explain.reason === "model" && /\d B of /.test(explain.words) ? explain : undefined
    })
    expect(downloading.words).toMatch(/the endpoint's model acme\/whisper is being downloaded: 0 B of 100 kB/)
    expect(platform.output).not.toContain("Starting worker")

    // The hub cuts off each body, then works again.
    hub.faults.cuts = Infinity
    open()
    const retried = await until("the retried download", async () => {
      const { explain } = await look(job)
      return explain.words.includes("retried") ? explain : undefined
    }, 60_000)
    expect(retried).toMatchObject({ reason: "model" })
    expect(retried.words).toMatch(
      /is being downloaded: \d+ k?B of 100 kB.* The download is being retried: \S.+\. A worker starts when it is there\./
    )
    hub.faults.cuts = 0
    const done = await until("the job's end", async () => {
      const found = await look(job)
      return found.status === "COMPLETED" ? found : undefined
    }, 60_000)
    const home = join(platform.dataDir, "models/huggingface-cache")
    expect(done.output).toEqual({
      config: "{\"layers\":2}",
      variables: {
        HF_HOME: home,
        HF_HUB_CACHE: join(home, "hub"),
        HF_HUB_OFFLINE: "1",
        PLATFORM_MODEL: "acme/whisper"
      }
    })

    await platform.end("SIGKILL")
    hub.faults.status = { code: 503 }
    await platform.start()
    const again = await submit()
    await until("the second job's end", async () => (await look(again)).status === "COMPLETED" || undefined, 60_000)
    expect(platform.output.split("Downloaded the model acme/whisper")).toHaveLength(2)
    expect((await stint(platform, ["models", "list"])).stdout).toMatch(/acme\/whisper +main +aaaaaaaaaaaa +2 +100 kB .+ whisper/)
  } finally {
    await Effect.runPromise(Scope.close(scope, Exit.void))
  }
}, 300_000)
