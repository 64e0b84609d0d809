/**
 * The schedules of packages, when a platform starts.
 */
import { expect, it } from "@effect/vitest"
import { EndpointSpec } from "@stint/contract/Endpoint"
import { ScheduleName, ScheduleSpec } from "@stint/contract/Schedule"
import * as AccessKeys from "@stint/server/AccessKeys"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PlatformConfig from "../src/config/PlatformConfig.ts"
import { Environment } from "../src/config/SettingNames.ts"
import * as Platform from "../src/platform/Platform.ts"
import type { ScheduleContribution } from "../src/plugins/SchedulePlan.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-schedules-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const external = (id: string) => Schema.decodeUnknownSync(EndpointSpec)({ id, source: { type: "external" } })

/** Starts a platform and ends it. Returns the lines of its log. */
const lines = Effect.fnUntraced(
  function*(dataDir: string, endpoints: ReadonlyArray<EndpointSpec>, schedules: ReadonlyArray<ScheduleContribution>) {
    const env = { PORT: "0", STINT_DATA_DIR: dataDir }
    const settings = yield* PlatformConfig.load.pipe(
      Effect.provideService(Environment, env),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
    )
    const found: Array<string> = []
    yield* Layer.build(
      Platform.layer({
        settings,
        secrets: AccessKeys.secretsOf(Redacted.make("test-key-1234567890")),
        store: { durability: "D1" },
        dataDir,
        endpoints,
        schedules
      }).pipe(Layer.provide(Logger.layer([Logger.make(({ message }) => void found.push(String(message)))])))
    )
    return found
  },
  Effect.scoped
)

it.live(
  "are set after the endpoints of the configuration, because another node could fire them at once",
  () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const [a, b] = [external("a"), external("b")]
      const nightly: ScheduleContribution = {
        package: "p",
        endpoint: a.id,
        name: ScheduleName.make("nightly"),
        spec: Schema.decodeUnknownSync(ScheduleSpec)({ cron: "0 3 * * *", tags: ["plugin:p"] })
      }
      expect(yield* lines(dataDir, [a, b], [nightly])).toEqual([])
      // Both log what they leave unchanged.
      const found = yield* lines(dataDir, [a], [])
      expect(found.flatMap((line) => /^(The configuration does not name|No package contributes)/.exec(line)?.[1] ?? [])).toEqual([
        "The configuration does not name",
        "No package contributes"
      ])
    }).pipe(Effect.scoped),
  60_000
)
