import { assert, describe, expect, it } from "@effect/vitest"
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import { endpointOf } from "@stint/pool/testing"
import type { PullListener } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import type { ServerResponse } from "node:http"
import { join } from "node:path"
import { machinePlatform } from "../src/Images.ts"
import { frame } from "./StubEngine.ts"
import { DIGEST, IMAGE, until, world } from "./TestWorld.ts"

describe("ContainerPool: starts", () => {
  it.live("creates a container without rights, with its limits, labels and variables", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      yield* start(yield* pool(), {
        cpus: 1.5,
        memoryBytes: 256 * 1024 ** 2,
        pids: 64,
        gpus: 2,
        user: "1000:1000",
        command: ["serve"]
      })
      const { Env, HostConfig, ...body } = engine.only.body
      expect(body).toMatchObject({ Image: `sha256:${IMAGE.length}`, Cmd: ["serve"], User: "1000:1000", Tty: false })
      assert.includeMembers(Env as Array<string>, ["GREETING=hello", "RUNPOD_POD_ID=w-1", "RUNPOD_MIN_MEMORY_GB=0.1"])
      expect(HostConfig).toMatchObject({
        ReadonlyRootfs: true,
        CapDrop: ["ALL"],
        SecurityOpt: ["no-new-privileges"],
        Init: true,
        PidsLimit: 64,
        Memory: 256 * 1024 ** 2,
        MemorySwap: 256 * 1024 ** 2,
        NanoCpus: 1_500_000_000,
        DeviceRequests: [{ Driver: "nvidia", Count: 2, Capabilities: [["gpu"]] }],
        NetworkMode: "host"
      })
    }).pipe(Effect.scoped))

  it.live("requests the assigned GPUs, not a number of them, and records them for the next platform", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      yield* start(yield* pool(), { gpus: 1 }, { gpuIds: ["1"] })
      expect(engine.only.body["HostConfig"]).toMatchObject({
        DeviceRequests: [{ Driver: "nvidia", DeviceIDs: ["1"], Capabilities: [["gpu"]] }]
      })
      const [orphan] = (yield* pool()).orphans
      expect(orphan).toMatchObject({ gpuIds: ["1"], reserved: { gpus: 1, cpus: 0, memoryBytes: 0 } })
    }).pipe(Effect.scoped))

  it.live("requests the assigned GPUs of Podman by their CDI names, and starts nothing on a Podman that would ignore the request", () =>
    Effect.gen(function*() {
      const { engine, pool, records, start, startError } = yield* world
      engine.version = { Version: "5.4.2", Components: [{ Name: "Podman Engine" }, { Name: "Conmon" }] }
      const built = yield* pool()
      yield* start(built, { gpus: 2 }, { gpuIds: ["0", "3"] })
      expect(engine.only.body["HostConfig"]).toMatchObject({
        DeviceRequests: [{ Driver: "cdi", DeviceIDs: ["nvidia.com/gpu=0", "nvidia.com/gpu=3"] }]
      })
      engine.overrides.set("POST /containers/create", {
        status: 500,
        message: "container create: setting CDI devices: unresolvable CDI devices nvidia.com/gpu=0"
      })
      assert.match(
        yield* startError(built, { gpus: 1 }),
        /unresolvable CDI devices nvidia\.com\/gpu=0\. Describe the GPUs to the engine: nvidia-ctk cdi generate/
      )
      engine.version = { Version: "4.3.1", Components: [{ Name: "Podman Engine" }] }
      const before = records()
      assert.strictEqual(
        yield* startError(built, { gpus: 1 }),
        `A container of ${IMAGE} cannot be started: Podman 4.3.1 gives no GPUs to containers through its Docker-compatible API. Install ` +
          "Podman 5.4 or later, or Docker with NVIDIA's container runtime, or run the worker as a command."
      )
      assert.deepStrictEqual(records(), before)
      // Without GPUs, the version does not matter.
      yield* start(built)
    }).pipe(Effect.scoped))

  it.live("pulls no image for GPUs that the engine cannot give, neither at a deployment nor at a start", () =>
    Effect.gen(function*() {
      const { engine, outputs, pool, startError } = yield* world
      engine.images.clear()
      engine.pull = (_, __, response) => {
        engine.addImage(IMAGE)
        response.end()
      }
      const built = yield* pool()
      const pulls = () => engine.requests.filter((request) => request === "POST /images/create").length
      const prepare = Effect.fnUntraced(function*(gpus: { readonly gpus?: number }) {
        const endpoint = yield* endpointOf({ source: { type: "container", image: IMAGE, ...gpus } })
        yield* Effect.provide(built.prepare(endpoint), outputs)
      })
      engine.version = { Version: "4.3.1", Components: [{ Name: "Podman Engine" }] }
      yield* prepare({ gpus: 1 })
      assert.match(yield* startError(built, { gpus: 1 }), /Podman 4\.3\.1 gives no GPUs to containers/)
      assert.strictEqual(pulls(), 0)
      // Without GPUs, and with an engine that can give them, a deployment pulls.
      yield* prepare({})
      assert.strictEqual(pulls(), 1)
      engine.images.clear()
      engine.version = { Version: "5.4.0", Components: [{ Name: "Podman Engine" }] }
      yield* prepare({ gpus: 1 })
      assert.strictEqual(pulls(), 2)
    }).pipe(Effect.scoped))

  it.live("says what to install when Docker has no NVIDIA runtime", () =>
    Effect.gen(function*() {
      const { engine, pool, startError } = yield* world
      const built = yield* pool()
      engine.overrides.set("POST /containers/stint-w-1/start", {
        status: 500,
        message: "could not select device driver \"nvidia\" with capabilities: [[gpu]]"
      })
      assert.match(
        yield* startError(built, { gpus: 1 }),
        /Install the NVIDIA Container Toolkit, then nvidia-ctk runtime configure/
      )
    }).pipe(Effect.scoped))

  it.live("uses a network of its own unless the source names one, and says what it needs to make the platform reachable in it", () =>
    Effect.gen(function*() {
      const { engine, pool, startError } = yield* world
      const built = yield* pool()
      // The stub's containers have no process whose network could be entered.
      const error = yield* startError(built, { network: "none" })
      assert.match(
        error,
        /^No worker can be started: the platform cannot enter the network of the container \(.+\)\. This needs a platform/
      )
      expect(engine.created.at(-1)?.body["HostConfig"]).toMatchObject({ NetworkMode: "none" })
      assert.strictEqual(engine.containers.size, 0)
    }).pipe(Effect.scoped))

  it.live("reads the CPU time and the memory of a container from the engine, and returns none when the engine does not report them", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      const { resources } = yield* start(yield* pool())
      if (resources === undefined) return assert.fail("the pool measures no resources")
      engine.only.cpuNanos = 1_234_567_890
      assert.deepStrictEqual(yield* resources, { cpuMillis: 1_234.56789, memoryBytes: undefined })
      engine.only.memory = { usage: 5_000, stats: { inactive_file: 2_000, anon: 3_000 } }
      assert.deepStrictEqual(yield* resources, { cpuMillis: 1_234.56789, memoryBytes: 3_000 })
      engine.only.memory = { usage: 5_000, stats: { total_inactive_file: 1_000 } }
      assert.strictEqual((yield* resources)?.memoryBytes, 4_000)
      engine.only.memory = { usage: 5_000, stats: null }
      assert.strictEqual((yield* resources)?.memoryBytes, 5_000)
      engine.overrides.set("GET /containers/stint-w-1/stats", { status: 500, message: "no cgroup" })
      assert.isUndefined(yield* resources)
      yield* Effect.promise(() => engine.vanish())
      assert.isUndefined(yield* resources)
      yield* Effect.promise(() => engine.appear())
    }).pipe(Effect.scoped))

  it.live("says how to install an engine when there is none, and starts workers once one runs", () =>
    Effect.gen(function*() {
      const { engine, logged, pool, start, startError } = yield* world
      yield* Effect.promise(() => engine.vanish())
      const built = yield* pool()
      assert.strictEqual(
        yield* until("the log line", () => logged[0]),
        "No worker can be started in a container, and containers that an earlier run left without a record are not removed: the " +
          `container engine does not answer: there is no socket ${engine.socket}. Start Docker or Podman (systemctl enable --now ` +
          "podman.socket), or set STINT_ENGINE to the path of its socket. Other workers start without it."
      )
      assert.strictEqual(
        yield* startError(built),
        `No worker can be started: the container engine does not answer: there is no socket ${engine.socket}. Start Docker or Podman ` +
          "(systemctl enable --now podman.socket), or set STINT_ENGINE to the path of its socket."
      )
      yield* Effect.promise(() => engine.appear())
      yield* start(built)
    }).pipe(Effect.scoped))

  it.live("reports the engine's message about a failed start, and leaves no container and no record", () =>
    Effect.gen(function*() {
      const { engine, pool, records, startError } = yield* world
      const built = yield* pool()
      engine.overrides.set("POST /containers/stint-w-1/start", {
        status: 400,
        message: "exec: \"serve\": executable file not found in $PATH"
      })
      assert.strictEqual(
        yield* startError(built),
        `A container of ${IMAGE} cannot be started: exec: "serve": executable file not found in $PATH. Correct the command of endpoint ` +
          "tested, or the image's ENTRYPOINT and CMD."
      )
      engine.overrides.set("POST /containers/create", { status: 409, message: "the name is already in use" })
      assert.match(yield* startError(built), /already has a container stint-w-2 .+ Remove it: docker rm --force stint-w-2\.$/)
      assert.deepStrictEqual([engine.containers.size, records()], [0, []])
    }).pipe(Effect.scoped))

  it.live("mounts the folders that the operator allowed and named volumes, and no other folder", () =>
    Effect.gen(function*() {
      const { dataDir, engine, pool, start, startError } = yield* world
      const models = join(engine.folder, "models")
      mkdirSync(join(models, "llm"), { recursive: true })
      mkdirSync(dataDir, { recursive: true })
      symlinkSync(dataDir, join(models, "link"))
      const built = yield* pool({ volumes: [models] })
      yield* start(built, {
        volumes: [{ source: join(models, "llm"), readOnly: true }, { source: "cache", target: "/cache" }]
      })
      expect(engine.only.body["HostConfig"]).toMatchObject({
        Mounts: [
          { Type: "bind", Source: join(models, "llm"), Target: "/platform-volume", ReadOnly: true },
          { Type: "bind", Source: join(models, "llm"), Target: "/runpod-volume", ReadOnly: true },
          { Type: "volume", Source: "cache", Target: "/cache", ReadOnly: false }
        ]
      })
      for (const source of [dataDir, "/", join(models, "link"), join(models, "../data")]) {
        assert.match(yield* startError(built, { volumes: [{ source }] }), /is not in a folder that the platform may mount/)
      }
      assert.match(
        yield* startError(yield* pool(), { volumes: [{ source: models }] }),
        /the platform mounts no folder of this machine\. Add it to STINT_ENGINE_VOLUMES and restart the platform/
      )
    }).pipe(Effect.scoped))
})

describe("ContainerPool: named volumes", () => {
  it.live("mounts the folder that the operator named, and names the volume whose folder is gone", () =>
    Effect.gen(function*() {
      const { engine, pool, start, startError } = yield* world
      const shared = join(engine.folder, "shared")
      mkdirSync(shared)
      const built = yield* pool({ namedVolumes: { shared, gone: join(engine.folder, "gone") } })
      yield* start(built, { volumes: [{ source: "shared", readOnly: true }, { source: "cache", target: "/cache" }] })
      expect(engine.only.body["HostConfig"]).toMatchObject({
        Mounts: [
          { Type: "bind", Source: shared, Target: "/platform-volume", ReadOnly: true },
          { Type: "bind", Source: shared, Target: "/runpod-volume", ReadOnly: true },
          { Type: "volume", Source: "cache", Target: "/cache", ReadOnly: false }
        ]
      })
      assert.strictEqual(
        yield* startError(built, { volumes: [{ source: "gone" }] }),
        `The volume "gone" cannot be used: its folder ${
          join(engine.folder, "gone")
        } does not exist. Create or mount it, or correct ` +
          "STINT_VOLUMES and restart the platform."
      )
    }).pipe(Effect.scoped))
})

describe("ContainerPool: models", () => {
  it.live("mounts the cache of models read-only, and tells the worker where it is", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      const model = { model: "acme/whisper", home: "/srv/models", snapshot: "hub/models--acme--whisper/snapshots/abc" }
      yield* start(yield* pool(), {}, { model })
      expect(engine.only.body["HostConfig"]).toMatchObject({
        Mounts: [
          { Type: "bind", Source: "/srv/models", Target: "/platform-volume/huggingface-cache", ReadOnly: true },
          { Type: "bind", Source: "/srv/models", Target: "/runpod-volume/huggingface-cache", ReadOnly: true }
        ]
      })
      assert.includeMembers(engine.only.body["Env"] as Array<string>, [
        "HF_HOME=/platform-volume/huggingface-cache",
        "HF_HUB_CACHE=/platform-volume/huggingface-cache/hub",
        "HF_HUB_OFFLINE=1",
        "RUNPOD_MODEL_PATH=/platform-volume/huggingface-cache/hub/models--acme--whisper/snapshots/abc"
      ])
    }).pipe(Effect.scoped))
})

describe("ContainerPool: models beside volumes", () => {
  const model = { model: "acme/whisper", home: "/srv/models", snapshot: "hub/models--acme--whisper/snapshots/abc" } as const

  it.live("mounts the cache of models at another folder when a volume is mounted at its place, so that the cache is not inside the volume", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      const team = join(engine.folder, "team")
      mkdirSync(team)
      yield* start(yield* pool({ namedVolumes: { team } }), { volumes: [{ source: "team", readOnly: true }] }, { model })
      expect(engine.only.body["HostConfig"]).toMatchObject({
        Mounts: [
          { Type: "bind", Source: team, Target: "/platform-volume", ReadOnly: true },
          { Type: "bind", Source: team, Target: "/runpod-volume", ReadOnly: true },
          { Type: "bind", Source: "/srv/models", Target: "/platform-models/huggingface-cache", ReadOnly: true }
        ]
      })
      expect(engine.only.body["Env"]).toEqual(expect.arrayContaining([
        "HF_HOME=/platform-models/huggingface-cache",
        "RUNPOD_MODEL_PATH=/platform-models/huggingface-cache/hub/models--acme--whisper/snapshots/abc"
      ]))
    }).pipe(Effect.scoped))

  it.live("mounts the cache of models at each documented folder where no volume is mounted", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      const volumes = [{ source: "a", target: "/platform-volume/huggingface-cache/own" }, { source: "b", target: "/runpod" }]
      yield* start(yield* pool(), { volumes }, { model })
      expect(engine.only.body["HostConfig"]).toMatchObject({
        Mounts: [
          { Target: "/platform-volume/huggingface-cache/own" },
          { Target: "/runpod" },
          { Source: "/srv/models", Target: "/runpod-volume/huggingface-cache" }
        ]
      })
      expect(engine.only.body["Env"]).toEqual(expect.arrayContaining(["HF_HOME=/runpod-volume/huggingface-cache"]))
    }).pipe(Effect.scoped))
})

describe("ContainerPool: images", () => {
  it.live("refuses an image for another architecture, and says what to build", () =>
    Effect.gen(function*() {
      const { engine, pool, startError } = yield* world
      engine.addImage(IMAGE, { architecture: "s390x" })
      assert.strictEqual(
        yield* startError(yield* pool()),
        `The image ${IMAGE} cannot be started: it is built for linux/s390x, and this machine runs ${machinePlatform()}. Build it for this ` +
          `machine: docker build --platform ${machinePlatform()} --tag ${IMAGE} . (and push it, if it comes from a registry).`
      )
    }).pipe(Effect.scoped))

  it.live("starts all workers from the image that a tag named first, until the endpoint's settings change", () =>
    Effect.gen(function*() {
      const { engine, logged, outputs, pool, start } = yield* world
      const built = yield* pool()
      const imageOf = (worker: string) => engine.containers.get(`stint-${worker}`)?.body["Image"]
      engine.addImage(IMAGE, { id: "sha256:first", digest: DIGEST })
      yield* start(built)
      engine.addImage(IMAGE, { id: "sha256:second", digest: DIGEST })
      yield* start(built)
      const endpoint = yield* endpointOf({ source: { type: "container", image: IMAGE } })
      yield* Effect.provide(built.prepare(endpoint), outputs)
      yield* start(built)
      assert.deepStrictEqual(["w-1", "w-2", "w-3"].map(imageOf), ["sha256:first", "sha256:first", "sha256:second"])
      const warnings = logged.filter((text) => text.includes("is a name that can later refer to another image"))
      assert.strictEqual(warnings.length, 2)
      assert.include(warnings[0], `To fix it, set the image to ${DIGEST}.`)
    }).pipe(Effect.scoped))

  it.live("pulls a missing image once for all waiting workers, with the registry's credentials, and logs the progress", () =>
    Effect.gen(function*() {
      const { engine, logged, pool, start } = yield* world
      writeFileSync(
        join(engine.folder, "config.json"),
        JSON.stringify({ auths: { "registry.example.com": { auth: Buffer.from("ada:pass:word").toString("base64") } } })
      )
      engine.images.clear()
      const pulls: Array<unknown> = []
      engine.pull = (image, request, response) => {
        pulls.push([image, JSON.parse(Buffer.from(String(request.headers["x-registry-auth"]), "base64url").toString())])
        response.write(`{"status":"Pulling from llm","id":"1"}\n{"status":"Downloading","id":"a","progressDet`)
        response.write(`ail":{"current":5000000,"total":10000000}}\n`)
        engine.addImage(IMAGE, { digest: DIGEST })
        response.end(`{"status":"Pull complete","id":"a"}`)
      }
      const built = yield* pool()
      yield* Effect.all([start(built), start(built)], { concurrency: "unbounded" })
      assert.deepStrictEqual(pulls, [
        [IMAGE, { username: "ada", password: "pass:word", serveraddress: "registry.example.com" }]
      ])
      assert.include(logged, `Pulling the image ${IMAGE}.`)
      assert.isTrue(logged.some((text) => /^Pulled the image \S+ in [\d.]+ s\.$/.test(text)))
    }).pipe(Effect.scoped))

  it.live("reports a pull with its progress to every worker that waits for it, and no pull of an image that is present", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      engine.images.clear()
      let pulling: ServerResponse | undefined
      engine.pull = (_, __, response) => {
        pulling = response
        response.write(`{"status":"Already exists","id":"a"}\n{"status":"Pulling fs layer","id":"b"}\n`)
        response.write(`{"status":"Downloading","id":"c","progressDetail":{"current":5000000,"total":12000000}}\n`)
        // A size that the engine does not know.
        response.write(`{"status":"Downloading","id":"d","progressDetail":{"current":0,"total":-1}}\n`)
      }
      const built = yield* pool()
      const seen: Array<string> = []
      let progress: (() => ImagePullProgress) | undefined
      const listenAs = (name: string): PullListener => ({
        began: (now) => {
          progress = now
          seen.push(`${name} began`)
        },
        ended: () => void seen.push(`${name} ended with ${engine.created.length} containers`)
      })
      const starting = yield* Effect.forkScoped(start(built, {}, { pull: listenAs("first") }))
      const second = yield* Effect.forkScoped(start(built, {}, { pull: listenAs("second") }))
      const cancelled = yield* Effect.forkScoped(start(built, {}, { pull: listenAs("cancelled") }))
      yield* until("the progress", () => seen.length === 3 && progress?.().layers === 4 ? true : undefined)
      assert.deepStrictEqual(progress?.(), { layers: 4, doneLayers: 1, bytes: 12_000_000, doneBytes: 5_000_000 })
      assert.deepStrictEqual(seen.toSorted(), ["cancelled began", "first began", "second began"])
      yield* Fiber.interrupt(cancelled)
      assert.strictEqual(seen.at(-1), "cancelled ended with 0 containers")
      engine.addImage(IMAGE, { digest: DIGEST })
      pulling?.end(`{"status":"Pull complete","id":"c"}`)
      yield* Fiber.joinAll([starting, second])
      assert.deepStrictEqual(seen.slice(4).map((text) => text.split(" ").slice(0, 2).join(" ")).toSorted(), [
        "first ended",
        "second ended"
      ])
      assert.include(seen, "first ended with 0 containers")
      yield* start(built, {}, { pull: listenAs("third") })
      assert.lengthOf(seen, 6)
    }).pipe(Effect.scoped))

  const pullErrors: ReadonlyArray<readonly [string, string, RegExp]> = [
    [
      "an unknown image",
      "manifest unknown",
      /it does not exist \(manifest unknown\)\. Correct the image's name and tag, or push the image\.$/
    ],
    [
      "an index without an image for this machine",
      "choosing an image from manifest list docker://registry.example.com/llm:1: no image found in manifest list for architecture amd64",
      /it is only built for other machines \(choosing .+\), and this machine runs linux\/.+\. Build it for this machine: docker build --platform linux/
    ],
    [
      "missing credentials",
      "unauthorized: authentication required",
      /registry\.example\.com requires credentials .+ Add credentials for registry\.example\.com to .+config\.json: docker login registry\.example\.com/
    ],
    ["a full disk", "write /var/lib: no space left on device", /the engine's disk is full .+ Free space in the engine's storage/]
  ]
  it.live.each(pullErrors)("says why a pull failed: %s", ([, words, expected]) =>
    Effect.gen(function*() {
      const { engine, pool, startError } = yield* world
      engine.images.clear()
      // Docker reports some errors by the status, others in a line of a successful response.
      engine.pull = (_, __, response) => void response.end(JSON.stringify({ error: words }))
      const built = yield* pool()
      assert.match(yield* startError(built), expected)
      engine.pull = (_, __, response) => void response.writeHead(500).end(JSON.stringify({ message: words }))
      assert.match(yield* startError(built), expected)
    }).pipe(Effect.scoped))

  it.live("names the file that contains a rejected password", () =>
    Effect.gen(function*() {
      const { engine, pool, startError } = yield* world
      const file = join(engine.folder, "config.json")
      writeFileSync(file, JSON.stringify({ auths: { "registry.example.com": { username: "ada", password: "wrong" } } }))
      engine.images.clear()
      engine.pull = (_, __, response) =>
        void response.writeHead(500).end(JSON.stringify({ message: "unauthorized: incorrect username or password" }))
      assert.strictEqual(
        yield* startError(yield* pool()),
        `The image ${IMAGE} cannot be started: registry.example.com rejects the credentials (unauthorized: incorrect username or ` +
          `password). Correct the entry for registry.example.com in ${file}: docker login registry.example.com.`
      )
      writeFileSync(file, "not json")
      assert.match(yield* startError(yield* pool()), /cannot be read \(it is not in the form of Docker's config\.json\)/)
    }).pipe(Effect.scoped))
})

describe("ContainerPool: output and exits", () => {
  it.live("separates the streams, wherever the engine cuts the frames, and redacts the key", () =>
    Effect.gen(function*() {
      const { engine, pool, start, texts } = yield* world
      const handle = yield* start(yield* pool())
      const container = engine.only
      const bytes = Buffer.concat([frame(1, "one\ntw"), frame(2, "problem stint_worker_0123456789\n"), frame(1, "o\n")])
      container.print(bytes.subarray(0, 3))
      container.print(bytes.subarray(3, 17))
      yield* until("the first line", () => texts().includes("stdout one") ? true : undefined)
      container.print(bytes.subarray(17))
      container.exit(3)
      const exit = yield* handle.exit
      assert.deepStrictEqual(exit, { _tag: "Exited", code: 3, log: ["one", "problem [the worker's key]", "two"] })
      assert.deepStrictEqual(texts(), ["stdout one", "stderr problem [the worker's key]", "stdout two"])
    }).pipe(Effect.scoped))

  it.live("forwards every line once when the connection breaks within a frame", () =>
    Effect.gen(function*() {
      const { engine, pool, start, texts } = yield* world
      const handle = yield* start(yield* pool())
      const container = engine.only
      const long = frame(1, "first\nsecond\n")
      container.print(long.subarray(0, 16))
      yield* until("the first line", () => texts().length === 1 ? true : undefined)
      yield* Effect.promise(() => engine.vanish())
      container.output = Buffer.concat([long, frame(2, "third\n")])
      yield* Effect.promise(() => engine.appear())
      yield* until("the other lines", () => texts().length === 3 ? true : undefined)
      container.exit(0)
      const { log } = yield* handle.exit
      assert.deepStrictEqual(log, ["first", "second", "third"])
      assert.deepStrictEqual(texts(), ["stdout first", "stdout second", "stderr third"])
    }).pipe(Effect.scoped))

  it.live("reports an exit code, a signal, and a lack of memory", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      const built = yield* pool()
      const ends = [{ code: 7 }, { code: 137 }, { code: 137, outOfMemory: true }, { code: 143 }]
      const exits = yield* Effect.forEach(ends, ({ code, outOfMemory }) =>
        Effect.gen(function*() {
          const handle = yield* start(built)
          engine.only.exit(code, outOfMemory)
          return yield* handle.exit
        }))
      assert.deepStrictEqual(exits, [
        { _tag: "Exited", code: 7, log: [] },
        { _tag: "Killed", signal: "SIGKILL", outOfMemory: false, log: [] },
        { _tag: "Killed", signal: "SIGKILL", outOfMemory: true, log: [] },
        { _tag: "Killed", signal: "SIGTERM", outOfMemory: false, log: [] }
      ])
      assert.strictEqual(engine.containers.size, 0)
    }).pipe(Effect.scoped))

  it.live("reports a container that another program removed as lost", () =>
    Effect.gen(function*() {
      const { engine, pool, start } = yield* world
      const handle = yield* start(yield* pool())
      const container = engine.only
      engine.containers.clear()
      container.exit(0)
      const exit = yield* handle.exit
      expect(exit).toMatchObject({ _tag: "Lost", reason: "another program removed its container stint-w-1." })
    }).pipe(Effect.scoped))

  it.live("requests the exit with SIGTERM, and removes the container when the scope closes", () =>
    Effect.gen(function*() {
      const { engine, pool, records, start } = yield* world
      const scope = yield* Scope.make()
      const handle = yield* Scope.provide(start(yield* pool()), scope)
      const container = engine.only
      yield* handle.drain
      assert.deepStrictEqual(container.signals, ["SIGTERM"])
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(container.signals, ["SIGTERM", "SIGKILL"])
      assert.strictEqual(engine.containers.size, 0)
      yield* handle.forget ?? Effect.void
      assert.deepStrictEqual(records(), [])
    }).pipe(Effect.scoped))
})

describe("ContainerPool: an engine that stops responding", () => {
  it.live("counts a worker as running until the engine answers, and then kills it if that was requested", () =>
    Effect.gen(function*() {
      const { engine, logged, pool, start } = yield* world
      const handle = yield* start(yield* pool())
      const container = engine.only
      let exit: unknown
      yield* Effect.forkChild(Effect.tap(handle.exit, (end) => Effect.sync(() => exit = end)))
      yield* Effect.promise(() => engine.vanish())
      yield* until("the warning", () => logged.find((text) => text.includes("counts as running until the engine answers")))
      yield* handle.kill
      assert.isUndefined(exit)
      assert.strictEqual(container.status, "running")
      yield* Effect.promise(() => engine.appear())
      assert.deepStrictEqual(yield* handle.exit, { _tag: "Killed", signal: "SIGKILL", outOfMemory: false, log: [] })
      assert.isTrue(logged.some((text) => text.startsWith("The container engine answers again")))
    }).pipe(Effect.scoped))
})
