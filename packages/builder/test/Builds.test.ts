import { assert, describe, it } from "@effect/vitest"
import { type Build, type BuildSettings, hasEnded } from "@stint/contract/Build"
import { EndpointSpec } from "@stint/contract/Endpoint"
import { EndpointId } from "@stint/contract/Ids"
import { SecretName } from "@stint/contract/Secret"
import * as CodeArtifacts from "@stint/pool/CodeArtifacts"
import * as Releases from "@stint/releases/Releases"
import * as Secrets from "@stint/secrets/Secrets"
import * as SecretsKey from "@stint/secrets/SecretsKey"
import * as BuildStore from "@stint/store/BuildStore"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as SecretStore from "@stint/store/SecretStore"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { EngineImage } from "../src/BuildEngine.ts"
import { failed } from "../src/BuildError.ts"
import * as BuildQueue from "../src/BuildQueue.ts"
import * as Builds from "../src/Builds.ts"
import { TestRepository } from "./TestRepository.ts"

const words = EndpointId.make("words")
const DIGEST = `sha256:${"1".repeat(64)}`
const start: Builds.StartRequest = { endpoint: words, createdBy: "the key \"ci\"", trigger: "manual" }

/** An endpoint whose next deployment is a rollout. */
const endpointWords = Effect.map(
  Schema.decodeUnknownEffect(EndpointSpec)({ id: words, source: { type: "container", image: "old" } }),
  (spec) => ({ ...spec, createdAt: 0 })
)

/** What the stand-in for the engine does. */
interface Engine {
  /** Lines of a shell script in place of `docker`. */
  readonly script?: ReadonlyArray<string>
  readonly image?: EngineImage
  readonly registry?: string | undefined
  /** Delays deployments. */
  readonly freeze?: Effect.Effect<void>
}

const repository = Effect.acquireRelease(
  Effect.sync(() => new TestRepository()),
  (one) => Effect.sync(() => one[Symbol.dispose]())
)

const layerSecrets = Secrets.layer.pipe(Layer.provide([
  SecretStore.layerMemory,
  Layer.sync(SecretsKey.SecretsKey, () => {
    let keys: ReadonlyArray<SecretsKey.EncryptionKey> = []
    const write = (next: typeof keys) => Effect.sync(() => void (keys = next))
    return { place: "this test", read: Effect.sync(() => keys), write }
  })
]))

const layerStores = () => Layer.mergeAll(BuildStore.layerMemory, EndpointStore.layerMemory, layerSecrets)

const layerOf = (
  one: TestRepository,
  { freeze = Effect.void, image = { id: DIGEST, digests: [], platform: "linux/amd64" }, registry, script = ["exit 0"] }: Engine
) => {
  let pushes = 0
  const artifacts = Layer.succeed(CodeArtifacts.CodeArtifacts, {
    freeze: () => Effect.as(freeze, undefined),
    retain: () => Effect.void
  })
  return BuildQueue.layer({
    engine: Effect.succeed({
      program: Effect.succeed({ command: one.script("docker", ...script), args: [], buildArgs: [], env: {} }),
      image: (reference) => Effect.succeed(reference.includes(":build-") ? image : undefined),
      push: () => Effect.sync(() => `sha256:${String(++pushes).repeat(64)}`),
      machine: "linux/amd64"
    }),
    folder: join(one.folder, "builds"),
    registry,
    options: ["--network=host"],
    localFolders: [one.folder]
  }).pipe(Layer.provideMerge(Releases.layer.pipe(Layer.provide(artifacts))))
}

/** Runs a test with a repository that has a Dockerfile, and a platform. */
const withBuilds = (
  engine: (one: TestRepository) => Engine,
  test: (
    one: TestRepository,
    builds: Builds.BuildsService,
    settings: BuildSettings
  ) => Effect.Effect<void, unknown, BuildStore.BuildStore | EndpointStore.EndpointStore | Releases.Releases>
) =>
  Effect.gen(function*() {
    const one = yield* repository
    one.commit({ Dockerfile: "FROM scratch\nCOPY handler.py /\n", "handler.py": "start()" })
    const settings = { repository: one.path }
    yield* Effect.gen(function*() {
      const builds = yield* Builds.Builds
      yield* builds.saveSettings(words, settings)
      yield* test(one, builds, settings)
    }).pipe(Effect.provide(layerOf(one, engine(one)).pipe(Layer.provideMerge(layerStores()))))
  }).pipe(Effect.scoped)

const until = <A, E, R>(what: string, read: Effect.Effect<A | undefined, E, R>) =>
  read.pipe(
    Effect.flatMap((found) => found === undefined ? Effect.fail(`not seen: ${what}`) : Effect.succeed(found)),
    Effect.retry({ schedule: Schedule.spaced(10), times: 6_000 })
  )

const ended = (builds: Builds.BuildsService, { number }: Pick<Build, "number">) =>
  until("the end", Effect.map(builds.get(words, number), (build) => hasEnded(build) ? build : undefined))

const logOf = (builds: Builds.BuildsService, number: number) =>
  Effect.map(builds.log(words, number, 0, 1_000), (lines) => lines.map(({ text }) => text).join("\n"))

describe("builds", () => {
  it.live("create the endpoint with the image by digest, and replace only the image of a container endpoint", () =>
    withBuilds(
      (one) => ({ registry: "127.0.0.1:5000/team", script: [`printf '%s\\n' "$@" > ${join(one.folder, "args")}`] }),
      (one, builds) =>
        Effect.gen(function*() {
          const endpoints = yield* EndpointStore.EndpointStore
          const first = yield* ended(builds, yield* builds.start(start))
          assert.deepInclude(
            first,
            { state: "succeeded", release: 1, image: `127.0.0.1:5000/team/words@${DIGEST}` },
            first.reason
          )
          assert.strictEqual(first.commit, one.git("rev-parse", "HEAD"))
          const created = yield* endpoints.get(words)
          assert.deepInclude(created, { release: 1, source: { type: "container", image: `127.0.0.1:5000/team/words@${DIGEST}` } })
          const args = readFileSync(join(one.folder, "args"), "utf8").trim().split("\n")
          assert.strictEqual(args[0], "build")
          assert.include(args, "--network=host")
          assert.strictEqual(args[args.indexOf("--tag") + 1], `127.0.0.1:5000/team/words:build-1-${first.commit?.slice(0, 10)}`)
          // The files of the build, with its keys, are removed.
          assert.deepStrictEqual(readdirSync(join(one.folder, "builds")), [])
          if (created === undefined) return assert.fail()
          yield* endpoints.put({
            ...created,
            workers: { ...created.workers, max: 7 },
            source: { type: "container", image: "old", cpus: 2 }
          })
          one.commit({ "handler.py": "start() # 2" })
          const second = yield* ended(builds, yield* builds.start({ ...start, message: "why" }))
          const after = yield* endpoints.get(words)
          assert.deepInclude(after?.workers, { max: 7 })
          assert.deepStrictEqual(after?.source, { type: "container", image: second.image ?? "", cpus: 2 })
          assert.deepInclude(second, { number: 2, message: "why" })
          const release = yield* builds.deploy(words, 1, "the key \"ops\"")
          assert.deepInclude(release, { createdBy: "the key \"ops\"", message: "Image of build 1" })
          assert.deepInclude(release.settings.source, { image: `127.0.0.1:5000/team/words@${DIGEST}` })
        })
    ))

  it.live("end a canary of the endpoint, as every deployment does", () =>
    withBuilds(
      () => ({ registry: "127.0.0.1:5000/team" }),
      (one, builds) =>
        Effect.gen(function*() {
          const endpoints = yield* EndpointStore.EndpointStore
          const releases = yield* Releases.Releases
          yield* ended(builds, yield* builds.start(start))
          const { settings } = yield* releases.get(words, 1)
          yield* releases.deploy({
            spec: { ...settings, env: { MODE: "new" } },
            createdBy: "ada",
            canary: { percent: 10, minJobs: 50, maxPoints: 5 }
          })
          assert.deepInclude(yield* endpoints.get(words), { release: 1, canary: { release: 2, percent: 10 } })
          one.commit({ "handler.py": "start() # 2" })
          assert.deepInclude(yield* ended(builds, yield* builds.start(start)), { state: "succeeded", release: 3 })
          const after = yield* endpoints.get(words)
          assert.deepInclude(after, { release: 3, previousRelease: 1 })
          assert.notProperty(after, "canary")
          assert.strictEqual((yield* releases.get(words, 2)).state, "superseded")
        })
    ))

  it.live("deploy canaries if the settings say so", () =>
    withBuilds(
      () => ({ registry: "127.0.0.1:5000/team" }),
      (_, builds, settings) =>
        Effect.gen(function*() {
          const releases = yield* Releases.Releases
          const canary = { percent: 20, minJobs: 7, maxPoints: 1 }
          yield* builds.saveSettings(words, { ...settings, canary })
          // A first release replaces no worker.
          assert.deepInclude(yield* ended(builds, yield* builds.start(start)), { state: "succeeded", release: 1 })
          assert.notInclude(yield* logOf(builds, 1), "stint releases promote")
          const { settings: spec } = yield* releases.get(words, 1)
          yield* releases.deploy({ spec: { ...spec, source: { type: "container", image: "old" } }, createdBy: "ada" })
          assert.deepInclude(yield* ended(builds, yield* builds.start(start)), { state: "succeeded", release: 3 })
          assert.deepInclude(yield* releases.get(words, 3), { state: "canary", canary })
          assert.include(
            yield* logOf(builds, 2),
            "Deployed as release 3 of words. It gets 20 % of the jobs. Give it all: stint releases promote words"
          )
        })
    ))

  it.live("use the settings that applied when they were started", () =>
    withBuilds(
      (one) => ({ script: [`while [ ! -e ${join(one.folder, "go")} ]; do sleep 0.02; done`] }),
      (one, builds, settings) =>
        Effect.gen(function*() {
          const first = yield* builds.start(start)
          const second = yield* builds.start(start)
          assert.strictEqual(second.state, "queued")
          // The second build waits for the first, and must not use these settings.
          yield* builds.saveSettings(words, { ...settings, context: "no-such-folder" })
          writeFileSync(join(one.folder, "go"), "")
          assert.strictEqual((yield* ended(builds, first)).state, "succeeded")
          assert.strictEqual((yield* ended(builds, second)).state, "succeeded")
          const third = yield* ended(builds, yield* builds.start(start))
          assert.strictEqual(third.state, "failed")
          assert.include(third.reason ?? "", "The repository has no folder no-such-folder")
        })
    ))

  it.live("mask the value of a secret that was set while they waited", () =>
    withBuilds(
      (one) => ({
        script: [
          `touch ${join(one.folder, "started")}`,
          `while [ ! -e ${join(one.folder, "go")} ]; do sleep 0.02; done`,
          `for arg in "$@"; do case "$arg" in id=npm,src=*) echo "npm: $(cat "\${arg#id=npm,src=}")";; esac; done`,
          "exit 3"
        ]
      }),
      (one, builds, settings) =>
        Effect.gen(function*() {
          const secrets = yield* Secrets.Secrets
          const npm = SecretName.make("npm-token")
          yield* builds.saveSettings(words, { ...settings, secrets: { npm } })
          yield* secrets.set(npm, Redacted.make("the-first-value"))
          yield* builds.start(start)
          const second = yield* builds.start(start)
          yield* until("the program", Effect.sync(() => existsSync(join(one.folder, "started")) ? true : undefined))
          yield* secrets.set(npm, Redacted.make("another-value"))
          writeFileSync(join(one.folder, "go"), "")
          const { reason } = yield* ended(builds, second)
          assert.include(yield* logOf(builds, second.number), "npm: [secret npm-token]")
          assert.notInclude(yield* logOf(builds, second.number), "another-value")
          assert.include(reason ?? "", "exit code 3 (npm: [secret npm-token])")
        })
    ))

  it.live("fail with the context that would work when the engine does not find a copied file", () =>
    withBuilds(
      () => ({
        script: [
          "echo 'STEP 2/2: COPY app.py /'",
          "echo 'Error: copier: stat: \"/app.py\": no such file or directory' >&2",
          "exit 125"
        ]
      }),
      (one, builds, settings) =>
        Effect.gen(function*() {
          one.commit({ "lab1/Dockerfile": "FROM scratch\nCOPY app.py /\n", "lab1/app.py": "start()" })
          yield* builds.saveSettings(words, { ...settings, dockerfile: "lab1/Dockerfile" })
          const build = yield* ended(builds, yield* builds.start(start))
          assert.strictEqual(
            build.reason,
            "COPY app.py fails, because the build context is the repository's root, which has no app.py. The repository has lab1/app.py. " +
              "Set the context to lab1: stint builds settings words --context lab1"
          )
          assert.include(yield* logOf(builds, build.number), "STEP 2/2: COPY app.py /")
          assert.include(yield* logOf(builds, build.number), "Failed: COPY app.py fails")
        })
    ))

  it.live("explain an image for another machine, a full disk, a killed program and an unknown failure", () =>
    Effect.gen(function*() {
      const reasonWith = (engine: Engine) =>
        Effect.gen(function*() {
          let reason = ""
          yield* withBuilds(() => engine, (_, builds) =>
            Effect.gen(function*() {
              reason = (yield* ended(builds, yield* builds.start(start))).reason ?? ""
            }))
          return reason
        })
      assert.include(
        yield* reasonWith({ image: { id: DIGEST, digests: [], platform: "linux/arm64" } }),
        "The image is built for linux/arm64, and the workers' machine runs linux/amd64. Build it for linux/amd64"
      )
      assert.include(
        yield* reasonWith({ script: ["echo 'exec container process: Exec format error' >&2", "exit 1"] }),
        "A program of the base image is built for another architecture: this machine runs linux/amd64"
      )
      assert.include(
        yield* reasonWith({ script: ["echo 'Error: write /var/lib/x: no space left on device' >&2", "exit 125"] }),
        "The disk is full (Error: write /var/lib/x: no space left on device). Free space"
      )
      assert.match(
        yield* reasonWith({ script: ["echo 'STEP 2/3'", "kill -KILL $$"] }),
        /^The engine's build was killed \(STEP 2\/3.*\)\. Another program ended it, or memory ran out/
      )
      assert.include(
        yield* reasonWith({ script: ["exit 137"] }),
        "The engine's build was killed. Another program ended it, or memory ran out"
      )
      assert.include(yield* reasonWith({ script: ["echo boom", "exit 3"] }), "The engine's build failed with exit code 3 (boom).")
    }))

  it.live("end their programs when they are cancelled or take too long", () =>
    withBuilds(
      // The program starts another program, which must end as well.
      (one) => ({ script: [`sleep 300 & echo $! > ${join(one.folder, "pid")}`, "echo started", "wait"] }),
      (one, builds, settings) =>
        Effect.gen(function*() {
          const isAlive = () => {
            const text = readFileSync(join(one.folder, "pid"), "utf8").trim()
            // A process that has ended but was not reaped is a zombie.
            return existsSync(`/proc/${text}/status`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${text}/status`, "utf8"))
          }
          const build = yield* builds.start(start)
          const waiting = yield* builds.start(start)
          yield* until("the program", Effect.map(logOf(builds, 1), (log) => log.includes("started") ? true : undefined))
          assert.isTrue(isAlive())
          const cancelled = yield* builds.cancel(words, build.number, "the key \"ops\"")
          assert.deepInclude(cancelled, { state: "cancelled", reason: "Cancelled by the key \"ops\"." })
          yield* until("the end of the program", Effect.sync(() => isAlive() ? undefined : true))
          assert.deepInclude(yield* builds.cancel(words, waiting.number, "the key \"ops\""), { state: "cancelled" })
          assert.deepInclude(yield* builds.cancel(words, build.number, "another"), { reason: "Cancelled by the key \"ops\"." })
          yield* builds.saveSettings(words, { ...settings, timeoutMs: 400 })
          const late = yield* ended(builds, yield* builds.start(start))
          assert.include(late.reason ?? "", "The build took longer than its limit of 0 s. Raise the limit")
          yield* until("the end of the last program", Effect.sync(() => isAlive() ? undefined : true))
          assert.deepStrictEqual(readdirSync(join(one.folder, "builds")), [])
        })
    ))

  it.live("are cancelled and removed even when the caller disconnects before their programs have ended", () =>
    Effect.gen(function*() {
      for (const operation of ["cancel", "forget"] as const) {
        yield* withBuilds(
          (one) => ({
            script: [
              `trap 'touch ${one.folder}/told; while [ ! -e ${one.folder}/go ]; do sleep 0.02; done; exit 1' TERM`,
              `touch ${one.folder}/started`,
              "while :; do sleep 0.02; done"
            ]
          }),
          (one, builds) =>
            Effect.gen(function*() {
              const seen = (name: string) => until(name, Effect.sync(() => existsSync(join(one.folder, name)) ? true : undefined))
              const endpoints = yield* EndpointStore.EndpointStore
              const { number } = yield* builds.start(start)
              yield* seen("started")
              const caller = yield* Effect.forkChild(
                operation === "cancel"
                  ? Effect.asVoid(builds.cancel(words, number, "ada"))
                  : Effect.asVoid(builds.forget(words, endpoints.remove(words)))
              )
              yield* seen("told")
              const disconnected = yield* Effect.forkChild(Fiber.interrupt(caller), { startImmediately: true })
              writeFileSync(join(one.folder, "go"), "")
              yield* Fiber.join(disconnected)
              const left = yield* builds.list(words, { limit: 9 })
              assert.deepStrictEqual(left.map(({ state }) => state), operation === "cancel" ? ["cancelled"] : [])
            })
        )
      }
    }))

  it.live("are refused with the reason without an engine, without settings and without a secret", () =>
    Effect.gen(function*() {
      const one = yield* repository
      const store = layerStores()
      const noEngine = BuildQueue.layer({
        engine: Effect.fail(
          failed("This platform cannot build: this machine has no container engine.", "Start Docker or Podman.")
        ),
        folder: join(one.folder, "builds"),
        registry: undefined,
        options: [],
        localFolders: []
      }).pipe(Layer.provide(Releases.layer.pipe(Layer.provide(CodeArtifacts.layerNone))), Layer.provideMerge(store))
      yield* Effect.gen(function*() {
        const builds = yield* Builds.Builds
        yield* builds.saveSettings(words, { repository: one.path })
        const error = yield* Effect.flip(builds.start(start))
        assert.include(
          error.message,
          "This platform cannot build: this machine has no container engine. Start Docker or Podman."
        )
        assert.deepStrictEqual(yield* builds.list(words, { limit: 9 }), [])
      }).pipe(Effect.provide(noEngine))
      yield* withBuilds(() => ({}), (_, builds, settings) =>
        Effect.gen(function*() {
          const missing = yield* Effect.flip(builds.start({ ...start, endpoint: EndpointId.make("other") }))
          assert.deepInclude(missing, { _tag: "BuildMissing", endpoint: "other" })
          yield* builds.saveSettings(words, { ...settings, secrets: { npm: SecretName.make("npm-token") } })
          const build = yield* ended(builds, yield* builds.start(start))
          assert.include(
            build.reason ?? "",
            "The secret \"npm-token\" of the build settings does not exist. Set it: stint secrets set npm-token"
          )
        }))
    }).pipe(Effect.scoped))

  it.live("that a stopped platform left behind are marked as failed at the next start, with the reason", () =>
    Effect.gen(function*() {
      const one = yield* repository
      yield* Effect.gen(function*() {
        const store = yield* BuildStore.BuildStore
        yield* store.saveSettings(words, { repository: one.path })
        const build = yield* store.create({ ...start, createdAt: 1 })
        if (build === undefined) return assert.fail()
        yield* store.update({ ...build, state: "running", startedAt: 2 })
        yield* store.create({ ...start, createdAt: 3 })
        const both = yield* Effect.gen(function*() {
          const builds = yield* Builds.Builds
          assert.include(yield* logOf(builds, 1), "The platform stopped while the build was running.")
          return yield* builds.list(words, { limit: 9 })
        }).pipe(Effect.provide(layerOf(one, {}), { local: true }))
        assert.deepStrictEqual(both.map(({ state }) => state), ["failed", "failed"])
        assert.strictEqual(both[1]?.reason, "The platform stopped while the build was running. Start it again: stint build words")
      }).pipe(Effect.provide(layerStores()))
    }).pipe(Effect.scoped))

  it.live("of a removed endpoint are cancelled, and do not create it again", () =>
    withBuilds(
      (one) => ({ script: [`touch ${join(one.folder, "started")}`, "sleep 300"] }),
      (one, builds) =>
        Effect.gen(function*() {
          yield* builds.start(start)
          yield* until("the program", Effect.sync(() => existsSync(join(one.folder, "started")) ? true : undefined))
          const endpoints = yield* EndpointStore.EndpointStore
          yield* builds.forget(words, endpoints.remove(words))
          assert.deepStrictEqual(yield* builds.list(words, { limit: 9 }), [])
          assert.isUndefined(yield* endpoints.get(words))
        })
    ))

  it.live("do not recreate an endpoint that is removed while they deploy, or just before", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const freeze = Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gate))
      let endpoint: unknown = "not read"
      yield* withBuilds(() => ({ freeze }), (_, builds) =>
        Effect.gen(function*() {
          const endpoints = yield* EndpointStore.EndpointStore
          yield* endpoints.put(yield* endpointWords)
          yield* builds.start(start)
          yield* Deferred.await(reached)
          const removal = yield* Effect.forkChild(builds.forget(words, endpoints.remove(words)), { startImmediately: true })
          yield* Deferred.succeed(gate, undefined)
          assert.strictEqual(yield* Fiber.join(removal), "removed")
          endpoint = yield* endpoints.get(words)
          assert.deepStrictEqual(yield* builds.list(words, { limit: 9 }), [])
        }))
      assert.isUndefined(endpoint)
      yield* withBuilds(() => ({}), (_, builds) =>
        Effect.gen(function*() {
          const endpoints = yield* EndpointStore.EndpointStore
          yield* endpoints.put(yield* endpointWords)
          const { number } = yield* builds.start(start)
          // The build wants to deploy while the endpoint is removed.
          const built = Effect.orDie(
            until("the image", Effect.map(logOf(builds, number), (log) => log.includes("Built ") ? true : undefined))
          )
          assert.strictEqual(yield* builds.forget(words, Effect.andThen(built, endpoints.remove(words))), "removed")
          endpoint = yield* endpoints.get(words)
        }))
      assert.isUndefined(endpoint)
    }))

  it.live("explain a Dockerfile that is a dangling link, a submodule or too large, and do not read large files", () =>
    withBuilds(() => ({}), (one, builds) =>
      Effect.gen(function*() {
        const build = Effect.flatMap(builds.start(start), (started) => ended(builds, started))
        one.commit({ "handler.py": `# ${"x".repeat(8 * 1024 * 1024)}` })
        assert.deepStrictEqual((yield* build).warnings, [])
        one.commit({ Dockerfile: `FROM scratch\n# ${"x".repeat(8 * 1024 * 1024)}` })
        assert.include((yield* build).reason ?? "", "The Dockerfile Dockerfile is not a file of at most 8 MiB.")
        one.git("rm", "--quiet", "Dockerfile")
        symlinkSync("no-such", join(one.path, "Dockerfile"))
        const commit = one.commit({})
        assert.include((yield* build).reason ?? "", "The Dockerfile Dockerfile is a link to a file that does not exist.")
        one.git("rm", "--quiet", "Dockerfile")
        one.git("update-index", "--add", "--cacheinfo", `160000,${commit},Dockerfile`)
        one.git("commit", "--quiet", "--message", "submodule")
        assert.include((yield* build).reason ?? "", "The Dockerfile Dockerfile is not a file of at most 8 MiB.")
      })))

  it.live("do not follow a Dockerfile that is a link out of the repository", () =>
    withBuilds(() => ({}), (one, builds) =>
      Effect.gen(function*() {
        one.git("rm", "--quiet", "Dockerfile")
        one.commit({})
        symlinkSync("/etc/passwd", join(one.path, "Dockerfile"))
        one.commit({})
        const build = yield* ended(builds, yield* builds.start(start))
        assert.include(build.reason ?? "", "The Dockerfile Dockerfile is a link to /etc/passwd, outside of the repository.")
      })))
})
