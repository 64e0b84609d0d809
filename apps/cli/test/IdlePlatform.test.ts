/**
 * What an idle platform does: its cost is how often its process wakes and how many statements it runs (P6, docs/spec/figures.md#performance).
 */
import { expect, it } from "@effect/vitest"
import { EndpointSpec } from "@stint/contract/Endpoint"
import * as AccessKeys from "@stint/server/AccessKeys"
import * as Clock from "effect/Clock"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { StatementSync } from "node:sqlite"
import { vi } from "vitest"
import * as PlatformConfig from "../src/config/PlatformConfig.ts"
import { Environment } from "../src/config/SettingNames.ts"
import * as Platform from "../src/platform/Platform.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-idle-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const decode = Schema.decodeUnknownSync(EndpointSpec)

/** Half of them have workers that the platform would start. */
const endpoints = Array.from({ length: 100 }, (_, n) =>
  decode({
    id: `idle-${n}`,
    source: n % 2 === 0 ? { type: "external" } : { type: "command", command: ["true"], cwd: tmpdir() }
  }))

/** How late a timer may run, in milliseconds. */
const LATE = 12

/** A clock that records the times at which sleeps end, each a little late, as real timers do: loops that do not align drift apart. */
const recording = (clock: Clock.Clock) => {
  const times = new Array<number>()
  let sleeps = 0
  const recorder: Clock.Clock = {
    currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
    currentTimeMillis: clock.currentTimeMillis,
    currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
    currentTimeNanos: clock.currentTimeNanos,
    monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: clock.monotonicTimeNanos,
    sleep: (duration) =>
      Effect.tap(
        clock.sleep(Duration.sum(duration, Duration.millis(sleeps++ * 7 % (LATE + 1)))),
        () => Effect.sync(() => void times.push(clock.currentTimeMillisUnsafe()))
      )
  }
  return { recorder, times }
}

/** Counts the statements that the database runs. */
const countStatements = Effect.acquireRelease(
  Effect.sync(() => (["all", "get", "iterate", "run"] as const).map((method) => vi.spyOn(StatementSync.prototype, method))),
  (spies) =>
    Effect.sync(() => {
      for (const spy of spies) spy.mockRestore()
    })
)

it.effect("wakes four times a second, and reads the database ten times a second", () =>
  Effect.gen(function*() {
    const dataDir = yield* folder
    const env = { PORT: "0", STINT_DATA_DIR: dataDir }
    const settings = yield* PlatformConfig.load.pipe(
      Effect.provideService(Environment, env),
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
    )
    const { recorder, times } = recording(yield* Clock.Clock)
    yield* Layer.build(
      Platform.layer({
        settings,
        secrets: AccessKeys.secretsOf(Redacted.make("test-key-1234567890")),
        store: { durability: "D1" },
        dataDir,
        endpoints
      })
    ).pipe(Effect.provideService(Clock.Clock, recorder))
    yield* TestClock.adjust("10 seconds")
    const spies = yield* countStatements
    times.length = 0
    yield* TestClock.adjust("1 minute")
    const statements = spies.reduce((sum, spy) => sum + spy.mock.calls.length, 0)
    expect(new Set(times.map((time) => Math.floor(time / (2 * LATE + 1)))).size).toBeLessThanOrEqual(245)
    expect(times.length).toBeGreaterThan(240)
    // Ten a second, and what runs once a minute or less.
    expect(statements).toBeLessThanOrEqual(620)
    expect(statements).toBeGreaterThan(60)
  }), 60_000)
