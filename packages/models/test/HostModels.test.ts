/**
 * The cache of models against a test hub: the layout, one download for many callers, lost connections, wrong checksums, refusals, limits and
 * eviction.
 */
import { assert, describe, it } from "@effect/vitest"
import { SecretName } from "@stint/contract/Secret"
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import * as Resolver from "@stint/http-guard/Resolver"
import { modelVariables } from "@stint/pool/WorkerModel"
import { layer as layerSecrets, Secrets } from "@stint/secrets/Secrets"
import * as SecretsKey from "@stint/secrets/SecretsKey"
import * as SecretStore from "@stint/store/SecretStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { spawnSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { chmod, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, utimes, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeEach } from "vitest"
import * as HostModels from "../src/HostModels.ts"
import type { CacheContents, ModelsService, ModelState } from "../src/Models.ts"
import { gitSha1, makeTestHub, sha256, type TestHub, type TestModel } from "../src/testing.ts"

const http = GuardedHttp.layerWith({ allowPrivate: true }).pipe(Layer.provide(Resolver.layer))
const secrets = layerSecrets.pipe(Layer.provide([SecretStore.layerMemory, SecretsKey.layerMemory]))

const COMMIT = "a".repeat(40)

const whisper = (): TestModel => ({
  commit: COMMIT,
  files: {
    "config.json": { content: Buffer.from("{\"layers\":2}\n") },
    "model.safetensors": { content: randomBytes(200_000), lfs: true },
    "onnx/model.onnx": { content: randomBytes(50_000), lfs: true }
  }
})

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "stint-models-"))),
  (path) => Effect.promise(() => rm(path, { recursive: true, force: true }))
)

interface World {
  readonly hub: TestHub
  readonly home: string
  readonly models: ModelsService
  /** Another platform that uses the same cache. */
  readonly another: (
    options?: Partial<HostModels.Options>
  ) => Effect.Effect<ModelsService, never, Scope.Scope | GuardedHttp.GuardedHttp>
}

const test = (
  title: string,
  body: (world: World) => Effect.Effect<void, unknown, Scope.Scope | GuardedHttp.GuardedHttp>,
  options: Partial<HostModels.Options> = {}
) =>
  it.live(title, () =>
    Effect.gen(function*() {
      const hub = yield* makeTestHub
      hub.models.set("acme/whisper", whisper())
      const home = yield* folder
      const another = (more: Partial<HostModels.Options> = {}) =>
        HostModels.make({ home, hubUrl: hub.url, retryMs: 1, minFreeBytes: 0, ...options, ...more })
      yield* body({ hub, home, models: yield* another(), another })
    }).pipe(Effect.scoped, Effect.provide([http, secrets])))

const WHISPER = { model: "acme/whisper" }

/** Prepares the model and waits until its download has ended. */
const end = Effect.fnUntraced(function*(models: ModelsService, endpoint: Parameters<ModelsService["prepare"]>[0] = WHISPER) {
  yield* models.prepare(endpoint, "again")
  yield* models.settled(endpoint)
  return yield* models.prepare(endpoint)
})

/** Waits until the list fulfills a condition. */
const untilListed = (models: ModelsService, wanted: (list: CacheContents) => boolean) =>
  Effect.repeat(Effect.delay(models.list, 1), { until: wanted })

const reasonOf = (state: ModelState): string => state._tag === "Failed" ? state.reason : `it is ${state._tag}`

/** Kills another platform when it has half of the largest file. Returns the number of bytes that it has. */
const killedHalfway = Effect.fnUntraced(function*({ another, home, hub }: World) {
  hub.faults.stalls = true
  const scope = yield* Scope.make()
  const first = yield* Scope.provide(another(), scope)
  yield* first.prepare(WHISPER)
  const content = hub.models.get("acme/whisper")?.files["model.safetensors"]?.content ?? Buffer.alloc(0)
  const half = content.length / 2
  const part = join(home, "hub/models--acme--whisper/blobs", `${sha256(content)}.stint.incomplete`)
  const size = Effect.promise(() => stat(part).then(({ size }) => size, () => 0))
  yield* Effect.repeat(Effect.delay(size, 1), { until: (bytes) => bytes === half })
  yield* Scope.close(scope, Exit.void)
  hub.faults.stalls = false
  hub.requests.length = 0
  return half
})

/** The number of requests for the content of files. */
const bodies = (hub: TestHub): number =>
  hub.requests.filter(({ at, path, method }) => method === "GET" && (at === "storage" || path.includes("/resolve/"))).length

const hasPython = spawnSync("python3", ["--version"]).status === 0

/** Runs the program with these variables, and none of the test's other variables. */
const resolveInPython = (variables: Record<string, string | undefined>, revision: string, files: ReadonlyArray<string>) =>
  spawnSync("python3", [join(import.meta.dirname, "fixtures/resolve.py"), "acme/whisper", revision, ...files], {
    encoding: "utf8",
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...variables }
  })

const read = (path: string) => Effect.promise(() => readFile(path))

describe("HostModels", () => {
  test("stores a model in the layout of the hub's client: blobs by checksum, links, a listing and a ref", ({ home, hub, models }) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* end(models), { _tag: "Ready" })
      const repo = join(home, "hub/models--acme--whisper")
      const { files } = whisper()
      const served = hub.models.get("acme/whisper")?.files ?? files
      for (const [path, { content, lfs }] of Object.entries(served)) {
        const name = lfs === true ? sha256(content) : gitSha1(content)
        assert.deepStrictEqual(yield* read(join(repo, "snapshots", COMMIT, path)), content)
        assert.deepStrictEqual(yield* read(join(repo, "blobs", name)), content)
        const up = path.includes("/") ? "../../../blobs" : "../../blobs"
        assert.strictEqual(yield* Effect.promise(() => readlink(join(repo, "snapshots", COMMIT, path))), `${up}/${name}`)
      }
      assert.strictEqual((yield* read(join(repo, "refs/main"))).toString(), COMMIT)
      const blobs = yield* Effect.promise(() => readdir(join(repo, "blobs")))
      assert.strictEqual(blobs.length, 3)
      const modes = yield* Effect.promise(() => Promise.all(blobs.map((name) => stat(join(repo, "blobs", name)))))
      assert.deepStrictEqual(modes.map(({ mode }) => mode & 0o777), [0o444, 0o444, 0o444])
    }))

  test("sends the hub no request when the model is in the cache, even after a restart and while the hub is unavailable", ({ another, hub, models }) =>
    Effect.gen(function*() {
      yield* end(models)
      const before = hub.requests.length
      hub.faults.status = { code: 503 }
      assert.deepStrictEqual(yield* models.prepare(WHISPER), { _tag: "Ready" })
      assert.deepStrictEqual(yield* (yield* another()).prepare(WHISPER), { _tag: "Ready" })
      assert.deepStrictEqual(yield* models.prepare({ model: `acme/whisper@${COMMIT}` }), { _tag: "Ready" })
      assert.strictEqual(hub.requests.length, before)
    }))

  test("downloads each file once for twenty callers and two platforms", ({ another, hub, models }) =>
    Effect.gen(function*() {
      const other = yield* another()
      const states = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, index) => index % 2 === 0 ? models : other),
        (service) => end(service),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(new Set(states.map(({ _tag }) => _tag)), new Set(["Ready"]))
      // Two of the three files are redirected to the storage service.
      assert.strictEqual(bodies(hub), 5)
    }))

  test("downloads a model over connections that are cut, and sends no token to the storage service", ({ hub, models }) =>
    Effect.gen(function*() {
      const { set } = yield* Secrets
      const token = SecretName.make("hf-token")
      yield* set(token, Redacted.make("hf_0123456789"))
      const model = hub.models.get("acme/whisper")
      if (model !== undefined) model.token = "hf_0123456789"
      hub.faults.cuts = 5
      assert.deepStrictEqual(yield* end(models, { ...WHISPER, modelToken: { secret: token } }), { _tag: "Ready" })
      assert.strictEqual(hub.faults.cuts, 0)
      const toStorage = hub.requests.filter(({ at }) => at === "storage")
      assert.deepStrictEqual(new Set(toStorage.map(({ authorization }) => authorization)), new Set([undefined]))
      const toHub = hub.requests.filter(({ at }) => at === "hub")
      assert.deepStrictEqual(new Set(toHub.map(({ authorization }) => authorization)), new Set(["Bearer hf_0123456789"]))
    }))

  test("continues the unfinished download of a killed platform", ({ hub, models, ...world }) =>
    Effect.gen(function*() {
      const half = yield* killedHalfway({ hub, models, ...world })
      assert.deepStrictEqual(yield* end(models), { _tag: "Ready" })
      const ranges = hub.requests.flatMap(({ at, range }) => at === "storage" && range !== undefined ? [range] : [])
      assert.include(ranges, `bytes=${half}-`)
    }))

  test("starts an unfinished file again when the hub ignores the offset", ({ hub, models, ...world }) =>
    Effect.gen(function*() {
      yield* killedHalfway({ hub, models, ...world })
      hub.faults.ignoresRanges = true
      assert.deepStrictEqual(yield* end(models), { _tag: "Ready" })
      const ofFile = hub.requests.filter(({ at, path }) => at === "storage" && path.includes("model.safetensors"))
      assert.deepStrictEqual(ofFile.map(({ range }) => range), ["bytes=100000-"])
    }))

  test("downloads a file with a wrong checksum once more, and fails when it is wrong again", ({ home, hub, models }) =>
    Effect.gen(function*() {
      hub.faults.wrong = 1
      assert.deepStrictEqual(yield* end(models), { _tag: "Ready" })
      const moved = { ...whisper(), commit: "b".repeat(40) }
      hub.models.set("acme/whisper", moved)
      hub.faults.wrong = 1_000
      const bad = { model: `acme/whisper@${moved.commit}` }
      assert.match(
        reasonOf(yield* end(models, bad)),
        /has a different checksum than the hub's \([0-9a-f]{64}\), twice in a row/
      )
      const names = yield* Effect.promise(() => readdir(join(home, "hub/models--acme--whisper/snapshots")))
      assert.deepStrictEqual(names, [COMMIT])
    }))

  test("uses the headers of each file when the hub's list has no checksums", ({ home, hub, models }) =>
    Effect.gen(function*() {
      hub.faults.hidesDetails = true
      assert.deepStrictEqual(yield* end(models), { _tag: "Ready" })
      assert.strictEqual(hub.requests.filter(({ method }) => method === "HEAD").length, 3)
      const blobs = yield* Effect.promise(() => readdir(join(home, "hub/models--acme--whisper/blobs")))
      const files = Object.values(hub.models.get("acme/whisper")?.files ?? {})
      assert.deepStrictEqual(
        blobs.toSorted(),
        files.map(({ content, lfs }) => lfs === true ? sha256(content) : gitSha1(content)).toSorted()
      )
    }))

  for (const file of ["config.json", "model.safetensors"]) {
    test(`downloads nothing when the hub reports the size of ${file} neither in its list nor in headers`, ({ hub, models }) =>
      Effect.gen(function*() {
        hub.faults.hidesDetails = true
        hub.faults.hidesSizes = true
        const { [file]: content = { content: Buffer.alloc(0) } } = whisper().files
        hub.models.set("acme/whisper", { commit: COMMIT, files: { [file]: content } })
        assert.include(reasonOf(yield* end(models)), `the hub describes its file ${file} without a usable ETag, size and commit`)
        assert.strictEqual(bodies(hub), 0)
      }))
  }

  test(
    "refuses a list with a negative size, which would hide the size of other files from the limits",
    ({ hub, models }) =>
      Effect.gen(function*() {
        for (const lfs of [false, true]) {
          hub.models.set("acme/large", {
            commit: COMMIT,
            files: {
              "a.bin": { content: randomBytes(400_001), lfs: true },
              "b.bin": { content: randomBytes(10), lfs, listedSize: -400_001 }
            }
          })
          assert.include(reasonOf(yield* end(models, { model: "acme/large" })), "the hub's list of its files cannot be read")
          assert.strictEqual(bodies(hub), 0)
        }
      }),
    { maxBytes: 400_000 }
  )

  test("says why the hub refuses a model, and what to do", ({ hub, models }) =>
    Effect.gen(function*() {
      assert.match(
        reasonOf(yield* end(models, { model: "acme/unknown" })),
        /^The model acme\/unknown cannot be downloaded: the hub responded with status 401 \(RepoNotFound\): it does not exist, or it is private\. Correct its id, or store a token/
      )
      assert.match(reasonOf(yield* end(models, { model: "acme/whisper@v9" })), /it has no branch, tag or commit "v9"/)
      const token = SecretName.make("hf-token")
      assert.match(
        reasonOf(yield* end(models, { ...WHISPER, modelToken: { secret: token } })),
        /its token is in the secret "hf-token", which does not exist\. Set it: stint secrets set hf-token/
      )
      const { set } = yield* Secrets
      yield* set(token, Redacted.make("hf_wrong"))
      const model = hub.models.get("acme/whisper")
      if (model !== undefined) model.token = "hf_0123456789"
      const wrong = reasonOf(yield* end(models, { ...WHISPER, modelToken: { secret: token } }))
      assert.match(wrong, /the token in the secret "hf-token" is not valid, or has no access to it\. Replace the token/)
      assert.notInclude(wrong, "hf_wrong")
      // A new value of the secret is tried without waiting for the time of the next attempt.
      yield* set(token, Redacted.make("hf_0123456789"))
      yield* models.prepare({ ...WHISPER, modelToken: { secret: token } })
      yield* models.settled({ ...WHISPER, modelToken: { secret: token } })
      assert.deepStrictEqual(yield* models.prepare({ ...WHISPER, modelToken: { secret: token } }), { _tag: "Ready" })
      hub.faults.status = { code: 403, error: "GatedRepo" }
      assert.match(
        reasonOf(yield* end(models, { model: "acme/gated" })),
        /its authors require that each user accepts their conditions/
      )
    }))

  test("repeats requests while the hub is unavailable, then fails with its response and a time for the next attempt", ({ hub, models }) =>
    Effect.gen(function*() {
      hub.faults.status = { code: 503 }
      const state = yield* end(models)
      assert.match(reasonOf(state), /the hub responded with status 503/)
      assert.strictEqual(hub.requests.length, 5)
      // The failure is remembered: the next caller does not start another download.
      assert.deepStrictEqual(yield* models.prepare(WHISPER), state)
      assert.strictEqual(hub.requests.length, 5)
    }))

  test("rejects file names that lead out of the cache", ({ home, hub, models }) =>
    Effect.gen(function*() {
      hub.models.set("acme/evil", { commit: COMMIT, files: { "../../../evil": { content: Buffer.from("x") } } })
      assert.match(reasonOf(yield* end(models, { model: "acme/evil" })), /leads out of the cache/)
      assert.isFalse(yield* Effect.promise(() => stat(join(home, "evil")).then(() => true, () => false)))
    }))

  test("shows the progress of a download", ({ hub, models }) =>
    Effect.gen(function*() {
      let open = () => {}
      hub.faults.gate = new Promise((resolve) => {
        open = resolve
      })
      yield* models.prepare(WHISPER)
      const progress = Effect.sync(() => models.stateOf(WHISPER))
      const state = yield* Effect.repeat(Effect.delay(progress, 1), {
        until: (one) => one?._tag === "Downloading" && one.total !== undefined
      })
      assert.strictEqual(state?._tag === "Downloading" ? state.total : undefined, 250_013)
      const { downloads } = yield* models.list
      assert.deepStrictEqual(downloads, [{ model: "acme/whisper", state: "downloading", receivedBytes: 0, totalBytes: 250_013 }])
      open()
      yield* models.settled(WHISPER)
      const listed = yield* models.list
      assert.deepStrictEqual([listed.downloads, listed.bytes], [[], 250_013])
      assert.deepStrictEqual(listed.models.map(({ lastUsedAt: _, ...rest }) => rest), [
        { model: "acme/whisper", commit: COMMIT, revisions: ["main"], files: 3, bytes: 250_013, workers: 0 }
      ])
    }))

  test("refuses a model that is larger than the cache, and removes nothing for it", ({ hub, models }) =>
    Effect.gen(function*() {
      yield* end(models)
      hub.models.set("acme/large", { commit: COMMIT, files: { "a.bin": { content: randomBytes(400_001), lfs: true } } })
      assert.match(
        reasonOf(yield* end(models, { model: "acme/large" })),
        /it has 400 kB, and the cache may have 400 kB\. Raise STINT_MODELS_SIZE/
      )
      assert.strictEqual((yield* models.list).models.length, 1)
    }), { maxBytes: 400_000 })

  test(
    "removes the models that were used least recently to make room, but none that a worker uses",
    ({ another, home, hub, models }) =>
      Effect.gen(function*() {
        for (const name of ["one", "two", "three"]) {
          hub.models.set(`acme/${name}`, { commit: COMMIT, files: { "a.bin": { content: randomBytes(120_000), lfs: true } } })
          assert.deepStrictEqual(yield* end(models, { model: `acme/${name}` }), { _tag: "Ready" })
        }
        const used = (name: string, at: number) =>
          Effect.promise(() => utimes(join(home, `hub/.locks/stint/models--acme--${name}.${COMMIT}.use`), at, at))
        const scope = yield* Scope.make()
        // A worker of another platform holds the model that was used first.
        const other = yield* another()
        yield* Scope.provide(other.hold({ model: "acme/one" }), scope)
        yield* used("one", 1_000)
        yield* used("two", 3_000)
        yield* used("three", 2_000)
        hub.models.set("acme/four", { commit: COMMIT, files: { "a.bin": { content: randomBytes(120_000), lfs: true } } })
        assert.deepStrictEqual(yield* end(models, { model: "acme/four" }), { _tag: "Ready" })
        const ids = Effect.map(models.list, (list) => list.models.map(({ model }) => model))
        assert.deepStrictEqual(yield* ids, ["acme/four", "acme/one", "acme/two"])
        assert.strictEqual((yield* models.prepare({ model: "acme/three" }))._tag, "Downloading")
        yield* models.settled({ model: "acme/three" })
        assert.deepStrictEqual(yield* ids, ["acme/four", "acme/one", "acme/three"])
        yield* Scope.close(scope, Exit.void)
      }),
    { maxBytes: 400_000 }
  )

  test(
    "removes no model for a download that would not fit even after the removal of all unused models",
    ({ another, hub, models }) =>
      Effect.gen(function*() {
        yield* end(models)
        yield* models.hold(WHISPER)
        hub.models.set("acme/unused", { commit: COMMIT, files: { "a.bin": { content: randomBytes(100_000), lfs: true } } })
        assert.deepStrictEqual(yield* end(models, { model: "acme/unused" }), { _tag: "Ready" })
        hub.models.set("acme/large", { commit: COMMIT, files: { "a.bin": { content: randomBytes(200_000), lfs: true } } })
        const listed = Effect.map(models.list, (list) => list.models.map(({ model }) => model))
        assert.include(
          reasonOf(yield* end(models, { model: "acme/large" })),
          "200 kB must be downloaded, and 50 kB would be missing after the removal of all unused models"
        )
        assert.deepStrictEqual(yield* listed, ["acme/unused", "acme/whisper"])
        const full = yield* another({ maxBytes: undefined, minFreeBytes: 1e15 })
        assert.include(
          reasonOf(yield* end(full, { model: "acme/large" })),
          "would be missing after the removal of all unused models"
        )
        assert.deepStrictEqual(yield* listed, ["acme/unused", "acme/whisper"])
      }),
    { maxBytes: 400_000 }
  )

  test("keeps the models that workers use, and says that there is no room", ({ hub, models }) =>
    Effect.gen(function*() {
      yield* end(models)
      const held = yield* models.hold(WHISPER)
      assert.deepStrictEqual(held?.snapshot, `hub/models--acme--whisper/snapshots/${COMMIT}`)
      hub.models.set("acme/second", { commit: COMMIT, files: { "a.bin": { content: randomBytes(200_000), lfs: true } } })
      assert.match(
        reasonOf(yield* end(models, { model: "acme/second" })),
        /50 kB would be missing after the removal of all unused models/
      )
      assert.strictEqual((yield* models.list).models[0]?.workers, 1)
    }), { maxBytes: 400_000 })

  test("pulls a branch again: the new commit is used, and shares the unchanged files", ({ hub, models }) =>
    Effect.gen(function*() {
      yield* end(models)
      const before = bodies(hub)
      const model = hub.models.get("acme/whisper")
      const next = "c".repeat(40)
      if (model !== undefined) {
        model.commit = next
        model.files = { ...model.files, "config.json": { content: Buffer.from("{\"layers\":3}\n") } }
      }
      yield* models.pull("acme/whisper", undefined)
      yield* untilListed(models, ({ downloads }) => downloads.length === 0)
      assert.strictEqual(bodies(hub), before + 1)
      assert.include((yield* models.hold(WHISPER))?.snapshot ?? "", next)
      const { models: listed } = yield* models.list
      assert.deepStrictEqual(listed.map(({ commit, revisions }) => [commit, revisions]), [[COMMIT, []], [next, ["main"]]])
    }))

  test("starts workers with the existing commit while a pull runs, and after it has failed", ({ hub, models }) =>
    Effect.gen(function*() {
      yield* end(models)
      hub.faults.status = { code: 401, error: "GatedRepo" }
      yield* models.pull("acme/whisper", undefined)
      assert.deepStrictEqual(yield* models.prepare(WHISPER), { _tag: "Ready" })
      yield* untilListed(models, ({ downloads }) => downloads.some(({ state }) => state === "failed"))
      assert.deepStrictEqual(yield* models.prepare(WHISPER), { _tag: "Ready" })
      assert.include((yield* models.hold(WHISPER))?.snapshot ?? "", COMMIT)
      hub.faults.status = undefined
      yield* models.pull("acme/whisper", undefined)
      yield* untilListed(models, ({ downloads }) => downloads.length === 0)
    }))

  test("shares the download of a pull with the workers that need the model", ({ hub, models }) =>
    Effect.gen(function*() {
      let open = () => {}
      hub.faults.gate = new Promise((resolve) => {
        open = resolve
      })
      yield* models.pull("acme/whisper", undefined)
      assert.strictEqual((yield* models.prepare(WHISPER))._tag, "Downloading")
      assert.strictEqual((yield* models.pull("acme/whisper", undefined)).state, "downloading")
      assert.strictEqual((yield* models.list).downloads.length, 1)
      open()
      assert.deepStrictEqual(yield* end(models), { _tag: "Ready" })
      assert.strictEqual(bodies(hub), 5)
    }))

  test("removes a model unless a worker uses it, and downloads it again when an endpoint needs it", ({ models }) =>
    Effect.gen(function*() {
      yield* end(models)
      const scope = yield* Scope.make()
      yield* Scope.provide(models.hold(WHISPER), scope)
      const refused = yield* Effect.flip(models.remove("acme/whisper"))
      assert.deepStrictEqual([refused.kind, refused.message], [
        "busy",
        "The model acme/whisper cannot be removed: 1 worker uses it."
      ])
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(yield* models.remove("acme/whisper"), 250_013)
      assert.strictEqual((yield* Effect.flip(models.remove("acme/whisper"))).kind, "missing")
      assert.deepStrictEqual(yield* end(models), { _tag: "Ready" })
    }))

  test("says that the cache's folder cannot be written", ({ another, home }) =>
    Effect.gen(function*() {
      const file = join(home, "file")
      yield* Effect.promise(() => writeFile(file, ""))
      const models = yield* another({ home: join(file, "cache") })
      assert.match(reasonOf(yield* end(models)), /cannot be used \(.*ENOTDIR.*\)\. Make the folder writable .* STINT_MODELS_DIR/)
    }))

  describe("a Python program that reads the documented layout", () => {
    beforeEach(({ skip }) => skip(!hasPython, "there is no python3 on this machine"))

    test("finds each file by its revision and by its commit, with only the worker's variables", ({ hub, models }) =>
      Effect.gen(function*() {
        yield* end(models)
        const held = yield* models.hold(WHISPER)
        assert.isDefined(held)
        const { HF_HOME } = modelVariables(held, held.home)
        const files = Object.entries(hub.models.get("acme/whisper")?.files ?? {})
        const expected = Object.fromEntries(files.map(([name, { content }]) => [name, {
          path: join(held.home, held.snapshot, name),
          sha256: sha256(content)
        }]))
        for (const revision of ["main", COMMIT]) {
          const { status, stderr, stdout } = resolveInPython({ HF_HOME }, revision, Object.keys(expected))
          assert.deepStrictEqual([status, stderr], [0, ""])
          assert.deepStrictEqual(JSON.parse(stdout), expected)
        }
      }))

    test("detects a ref to a missing commit, a link that leaves the cache, and wrong content", ({ home, models }) =>
      Effect.gen(function*() {
        yield* end(models)
        const folder = join(home, "hub/models--acme--whisper")
        const link = join(folder, "snapshots", COMMIT, "config.json")
        const reason = (revision = "main") => resolveInPython({ HF_HOME: home }, revision, ["config.json"]).stderr
        assert.strictEqual(reason(), "")
        assert.match(reason("v2"), /the revision v2 leads to 'v2', which is not in/)
        yield* Effect.promise(async () => {
          const target = await readlink(link)
          await rm(link)
          await symlink("/etc/hostname", link)
          assert.match(reason(), /is not a relative link/)
          await rm(link)
          await symlink(target, link)
          await chmod(link, 0o644)
          await writeFile(link, "{}")
        })
        assert.match(reason(), /has another content/)
      }))
  })
})
