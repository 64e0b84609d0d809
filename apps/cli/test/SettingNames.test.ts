/**
 * Unknown settings: the variables that Stint reads are one list, and names that are not in it stop every command.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { describe, expect, it } from "vitest"
import * as AgentConfig from "../src/config/AgentConfig.ts"
import * as PlatformConfig from "../src/config/PlatformConfig.ts"
import { Environment, rejectUnknown, SETTING_NAMES } from "../src/config/SettingNames.ts"
import * as Project from "../src/plugins/Project.ts"

const messageFor = (env: Readonly<Record<string, string>>) =>
  Effect.runPromise(
    Effect.match(rejectUnknown, { onSuccess: () => undefined, onFailure: ({ message }) => message }).pipe(
      Effect.provideService(Environment, env)
    )
  )

describe("settings", () => {
  it("reports every unknown variable and the setting that was probably meant", async () => {
    expect(await messageFor({ STINT_DURABILTY: "D1", STINT_PORT: "4700", STINT_XYZZY: "1", PORT: "0" })).toBe(
      "There is no setting STINT_DURABILTY. Did you mean \"STINT_DURABILITY\"?\n" +
        "There is no setting STINT_PORT. Did you mean \"PORT\"?\n" +
        "There is no setting STINT_XYZZY."
    )
  })

  it("accepts every setting, and variables of others: workers, RunPod, and Kubernetes for a service called stint", async () => {
    const settings = Object.fromEntries(SETTING_NAMES.map((name) => [name, "x"]))
    const kubernetes = {
      STINT_SERVICE_HOST: "10.0.0.1",
      STINT_SERVICE_PORT: "4600",
      STINT_SERVICE_PORT_HTTP: "4600",
      STINT_PORT: "tcp://10.0.0.1:4600",
      STINT_PORT_4600_TCP: "tcp://10.0.0.1:4600",
      STINT_PORT_4600_TCP_ADDR: "10.0.0.1"
    }
    expect(await messageFor({ ...settings, ...kubernetes, STINT_DEV_REVISION: "1", RUNPOD_API_KEY: "x", STINTED: "x" })).toBe(
      undefined
    )
  })

  it("lists exactly the variables that the command line reads", async () => {
    const read = new Set<string>()
    // Without a value for STINT_PAYLOADS, the settings of the bucket are not read.
    const env = { STINT_PAYLOADS: "s3://bucket", STINT_PAYLOADS_ACCESS_KEY_ID: "a", STINT_PAYLOADS_SECRET_ACCESS_KEY: "b" }
    const watched = new Proxy<Record<string, string>>(env, {
      get: (target, name) => (read.add(String(name)), Reflect.get(target, name))
    })
    const provider = ConfigProvider.make((path) =>
      Effect.sync(() => {
        const value = watched[path.join("_")]
        return value === undefined ? undefined : { _tag: "Value", value }
      })
    )
    const load = Effect.all([PlatformConfig.load, PlatformConfig.clientUrl, AgentConfig.load])
    await Effect.runPromise(
      load.pipe(Effect.provideService(ConfigProvider.ConfigProvider, provider), Effect.provideService(Environment, {}))
    )
    expect([...read].sort()).toEqual([...SETTING_NAMES].sort())
  })

  it("are all documented", async () => {
    const pages = await Promise.all(
      ["reference/README.md", "operations/payloads.md"].map((page) =>
        readFile(resolve(import.meta.dirname, "../../../docs", page), "utf8")
      )
    )
    expect(SETTING_NAMES.filter((name) => !pages.some((page) => page.includes(`\`${name}\``)))).toEqual([])
  })
})

describe("the configuration file", () => {
  it("names each unknown key and the key that was probably meant", async () => {
    const folder = await mkdtemp(join(tmpdir(), "stint-config-"))
    try {
      const file = join(folder, "stint.config.mjs")
      const a = { external: true, wokers: {}, workers: { idleTimout: 5 }, limits: { prioritty: 5 } }
      await writeFile(file, `export default ${JSON.stringify({ endpoints: { a }, endpoint: {}, x: 1 })}`)
      const error = await Effect.runPromise(Effect.flip(Project.load(file)).pipe(Effect.provide(NodeServices.layer)))
      expect(error.hint.split("\n").map((line) => line.trim())).toEqual(expect.arrayContaining([
        "endpoint: There is no such key. Did you mean \"endpoints\"?",
        "x: There is no such key.",
        "endpoints.a.wokers: There is no such key. Did you mean \"workers\"?",
        "endpoints.a.workers.idleTimout: There is no such key. Did you mean \"idleTimeout\"?",
        "endpoints.a.limits.prioritty: There is no such key. Did you mean \"priority\"?"
      ]))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
})
