import { afterAll, assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as KubernetesConfig from "../src/config/KubernetesConfig.ts"
import { Environment } from "../src/config/SettingNames.ts"

const folder = mkdtempSync(join(tmpdir(), "stint-kubernetes-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const file = join(folder, "kubernetes.json")

const load = (STINT_KUBERNETES?: string) =>
  KubernetesConfig.load.pipe(
    Effect.provideService(
      ConfigProvider.ConfigProvider,
      ConfigProvider.fromUnknown(STINT_KUBERNETES === undefined ? {} : { STINT_KUBERNETES })
    )
  )

const problemOf = (text: string) =>
  Effect.suspend(() => {
    writeFileSync(file, text)
    return Effect.map(Effect.flip(load(file)), ({ message }) => message)
  })

describe("STINT_KUBERNETES", () => {
  it.effect("is not needed", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* load())
    }))

  it.effect("names a file with the settings for pods", () =>
    Effect.gen(function*() {
      const settings = {
        namespace: "jobs",
        platformUrl: "http://stint.jobs.svc:4600",
        pods: { imagePullSecrets: ["registry"] },
        endpoints: { llm: { nodeSelector: { accelerator: "h200" } } }
      }
      writeFileSync(file, JSON.stringify(settings))
      assert.deepStrictEqual<unknown>(yield* load(file), settings)
    }))

  it.effect("replaces $(NAME) with the platform's variable, and names variables that are not set", () =>
    Effect.gen(function*() {
      const text = JSON.stringify({
        namespace: "jobs",
        platformUrl: "http://$(POD_NAME).stint",
        pods: { labels: { who: "$(WHO)" } }
      })
      writeFileSync(file, text)
      const loaded = yield* load(file).pipe(Effect.provideService(Environment, { POD_NAME: "stint-1", WHO: "a \"b\" $(X)" }))
      assert.strictEqual(loaded?.platformUrl, "http://stint-1.stint")
      assert.deepStrictEqual(loaded?.pods?.labels, { who: "a \"b\" $(X)" })
      const missing = yield* Effect.flip(load(file).pipe(Effect.provideService(Environment, { WHO: "" })))
      assert.match(missing.message, /kubernetes\.json of STINT_KUBERNETES names variables that are not set: POD_NAME\./)
    }))

  it.effect("is refused, naming the file or the member, when the file is missing or a member is misspelled or wrong", () =>
    Effect.gen(function*() {
      const missing = yield* Effect.flip(load(join(folder, "none.json")))
      assert.match(missing.message, /none\.json of STINT_KUBERNETES cannot be read: ENOENT/)
      const device = yield* Effect.flip(load("/dev/zero"))
      assert.match(device.message, /cannot be read: it is not a file/)
      assert.match(yield* problemOf("{"), /kubernetes\.json of STINT_KUBERNETES is not valid/)
      const valid = { namespace: "jobs", platformUrl: "http://stint:4600" }
      assert.match(yield* problemOf(JSON.stringify({ ...valid, pods: { nodeSelectors: {} } })), /nodeSelectors/)
      assert.match(yield* problemOf(JSON.stringify({ ...valid, namespace: "Jobs" })), /Expected a valid Kubernetes object name/)
      assert.match(yield* problemOf(JSON.stringify({ ...valid, platformUrl: "http://stint/path" })), /address without a path/)
      assert.match(
        yield* problemOf(JSON.stringify({ ...valid, platformUrl: "http://me:secret@stint" })),
        /address without a path/
      )
    }))
})
