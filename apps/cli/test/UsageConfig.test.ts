import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import * as UsageConfig from "../src/config/UsageConfig.ts"

const folder = mkdtempSync(join(tmpdir(), "stint-prices-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const load = (env: Readonly<Record<string, string>>) =>
  Effect.provideService(UsageConfig.load, ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))

const file = join(folder, "prices.json")

const loadFile = (content: unknown) => {
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content))
  return load({ STINT_PRICES: file })
}

const prices = { currency: "EUR", perSecond: { worker: 0.0001 } }

describe("the settings for usage", () => {
  it.effect("default to no prices, no budgets, and 400 days", () =>
    Effect.gen(function*() {
      const { budgets, keep, prices } = yield* load({})
      assert.deepStrictEqual([prices, budgets, Duration.toDays(keep)], [undefined, [], 400])
      assert.strictEqual(Duration.toDays((yield* load({ STINT_USAGE_KEEP: "32 days" })).keep), 32)
    }))

  it.effect("read prices, also for single endpoints, and daily and monthly budgets", () =>
    Effect.gen(function*() {
      const endpoints = { llm: { gpu: 0.002 } }
      const budgets = [{ endpoint: "llm", daily: 5, monthly: 50 }, { key: "0123456789abcdef", monthly: 0 }]
      assert.deepInclude(yield* loadFile({ ...prices, endpoints, budgets }), {
        prices: { ...prices, endpoints },
        budgets: [
          { scope: "endpoint", id: "llm", period: "daily", limit: 5 },
          { scope: "endpoint", id: "llm", period: "monthly", limit: 50 },
          { scope: "key", id: "0123456789abcdef", period: "monthly", limit: 0 }
        ]
      })
    }))

  it.effect("reject what cannot be billed, and name the file and the place", () =>
    Effect.gen(function*() {
      const budget = (entry: object) => ({ ...prices, budgets: [entry] })
      for (
        const [content, problem] of [
          ["{", /JSON/],
          [{ perSecond: {} }, /currency/],
          [{ ...prices, perSecond: { worker: -1 } }, /perSecond.*worker/s],
          [{ ...prices, perSecond: { wroker: 1 } }, /wroker/],
          [budget({ endpoint: "llm" }), /an endpoint or the id of a key, and daily or monthly/],
          [budget({ daily: 1 }), /an endpoint or the id of a key/],
          [budget({ endpoint: "llm", key: "ci", daily: 1 }), /an endpoint or the id of a key/],
          [budget({ endpoint: "llm", daily: "1" }), /budgets/],
          [JSON.stringify(prices) + " ".repeat(1024 * 1024), /larger than 1 MiB/]
        ] as const
      ) {
        const { hint, message } = yield* Effect.flip(loadFile(content))
        assert.include(message, `The price file ${file} cannot be used: `)
        assert.match(message, problem)
        assert.include(hint ?? "", "STINT_PRICES")
      }
      assert.include((yield* Effect.flip(load({ STINT_PRICES: join(folder, "none") }))).message, "ENOENT")
      assert.include((yield* Effect.flip(load({ STINT_PRICES: folder }))).message, "EISDIR")
      assert.include((yield* Effect.flip(load({ STINT_USAGE_KEEP: "31 days" }))).message, "STINT_USAGE_KEEP")
    }))
})
