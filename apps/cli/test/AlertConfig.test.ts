import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as AlertConfig from "../src/config/AlertConfig.ts"

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`

const load = (env: Readonly<Record<string, string>>) =>
  Effect.provideService(
    Effect.flatMap(AlertConfig.load, AlertConfig.complete),
    ConfigProvider.ConfigProvider,
    ConfigProvider.fromEnv({ env })
  )

const both = { STINT_ALERT_URL: "https://a.example/hook, http://10.0.0.7/x", STINT_ALERT_SECRET: SECRET }

describe("the settings for alerts", () => {
  it.effect("are absent without receivers", () =>
    Effect.gen(function*() {
      assert.isTrue(Option.isNone(yield* load({ STINT_ALERT_REPEAT: "1 hour" })))
    }))

  it.effect("have defaults, and accept several receivers", () =>
    Effect.gen(function*() {
      const { repeat, secret, thresholds, urls } = Option.getOrThrow(yield* load(both))
      assert.deepStrictEqual(urls, ["https://a.example/hook", "http://10.0.0.7/x"])
      assert.strictEqual(Redacted.value(secret), SECRET)
      assert.strictEqual(Duration.toHours(repeat), 4)
      assert.deepStrictEqual(thresholds, { failedPercent: 50, failedJobs: 10, windowMs: 600_000, queueAgeMs: 900_000 })
    }))

  it.effect("change the thresholds", () =>
    Effect.gen(function*() {
      const { thresholds } = Option.getOrThrow(
        yield* load({
          ...both,
          STINT_ALERT_FAILED_PERCENT: "5",
          STINT_ALERT_FAILED_JOBS: "1",
          STINT_ALERT_WINDOW: "1 hour",
          STINT_ALERT_QUEUE_AGE: "90 seconds"
        })
      )
      assert.deepStrictEqual(thresholds, { failedPercent: 5, failedJobs: 1, windowMs: 3_600_000, queueAgeMs: 90_000 })
    }))

  it.effect("need both the addresses and the secret, and name the variable that is missing", () =>
    Effect.gen(function*() {
      const { STINT_ALERT_SECRET, STINT_ALERT_URL } = both
      assert.include((yield* Effect.flip(load({ STINT_ALERT_URL }))).message, "STINT_ALERT_SECRET is not")
      assert.include((yield* Effect.flip(load({ STINT_ALERT_SECRET }))).message, "STINT_ALERT_URL is not")
    }))

  it.effect("reject invalid values without showing an address or a secret, which may contain a token", () =>
    Effect.gen(function*() {
      for (
        const [name, value] of [
          ["STINT_ALERT_URL", "ftp://token@a.example"],
          ["STINT_ALERT_URL", ", ,"],
          ["STINT_ALERT_SECRET", "whsec_short"],
          ["STINT_ALERT_SECRET", "token-without-a-prefix-0123456789012345678901234567"]
        ] as const
      ) {
        const error = yield* Effect.flip(load({ ...both, [name]: value }))
        assert.include(error.message, name)
        assert.notInclude(`${error.message}${error.hint}`, value)
      }
      for (
        const [name, value] of [
          ["STINT_ALERT_FAILED_PERCENT", "0"],
          ["STINT_ALERT_FAILED_JOBS", "many"],
          ["STINT_ALERT_WINDOW", "1 second"],
          ["STINT_ALERT_QUEUE_AGE", "soon"],
          ["STINT_ALERT_REPEAT", "1 second"]
        ] as const
      ) assert.include((yield* Effect.flip(load({ ...both, [name]: value }))).message, name)
    }))
})
