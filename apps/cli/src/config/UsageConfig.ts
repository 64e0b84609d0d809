/**
 * Settings for usage: prices, budgets and how long it is stored. If a value is invalid, the platform does not start, and the error names the
 * variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_PRICES` | no prices, no budgets | a JSON file with prices and budgets (docs/operations/usage.md#prices) |
 * | `STINT_USAGE_KEEP` | 400 days | how long usage is stored |
 *
 * Prices and budgets belong to the operator. They are in a file on the platform's machine, not in the endpoints' settings, which every deployer can
 * change.
 */
import { type Prices, PricesPerSecond } from "@stint/queue/Billing"
import type { Budget } from "@stint/queue/Budgets"
import { defaults, type UsageSettings } from "@stint/queue/UsageMeter"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { open } from "node:fs/promises"
import { CliFailure } from "../CliFailure.ts"
import { setting } from "./Setting.ts"

/** The settings for usage, prices and budgets. */
export interface UsageConfig extends UsageSettings {
  readonly prices: Prices | undefined
  readonly budgets: ReadonlyArray<Budget>
}

/** The maximum size of the file with the prices. Bytes. */
const MAX_FILE_BYTES = 1024 * 1024

const Limit = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

const BudgetEntry = Schema.Struct({
  endpoint: Schema.optionalKey(Schema.NonEmptyString),
  key: Schema.optionalKey(Schema.NonEmptyString),
  daily: Schema.optionalKey(Limit),
  monthly: Schema.optionalKey(Limit)
}).check(
  Schema.makeFilter(({ daily, endpoint, key, monthly }) =>
    (endpoint === undefined) !== (key === undefined) && (daily !== undefined || monthly !== undefined) ||
    "Expected an endpoint or the id of a key, and daily or monthly"
  )
)

const PricesFile = Schema.fromJsonString(Schema.Struct({
  currency: Schema.NonEmptyString.check(Schema.isMaxLength(20)),
  perSecond: PricesPerSecond,
  endpoints: Schema.optionalKey(Schema.Record(Schema.String, PricesPerSecond)),
  budgets: Schema.optionalKey(Schema.Array(BudgetEntry).check(Schema.isMaxLength(1_000)))
}))

const decodeFile = Schema.decodeUnknownEffect(PricesFile, { onExcessProperty: "error" })

const budgetsOf = (entries: ReadonlyArray<typeof BudgetEntry.Type>): ReadonlyArray<Budget> =>
  entries.flatMap(({ daily, endpoint, key = "", monthly }) => {
    const owner = endpoint === undefined ? { scope: "key", id: key } as const : { scope: "endpoint", id: endpoint } as const
    return [
      ...(daily === undefined ? [] : [{ ...owner, period: "daily", limit: daily } as const]),
      ...(monthly === undefined ? [] : [{ ...owner, period: "monthly", limit: monthly } as const])
    ]
  })

const invalid = (file: string, problem: string) =>
  new CliFailure({
    message: `The price file ${file} cannot be used: ${problem}`,
    hint:
      "STINT_PRICES names a JSON file, for example {\"currency\":\"EUR\",\"perSecond\":{\"worker\":0.0001}}. See docs/operations/usage.md."
  })

const readFile = Effect.fnUntraced(function*(file: string) {
  const text = yield* Effect.tryPromise({
    try: async () => {
      const handle = await open(file)
      try {
        const buffer = Buffer.alloc(MAX_FILE_BYTES + 1)
        const { bytesRead } = await handle.read(buffer)
        if (bytesRead > MAX_FILE_BYTES) throw new Error("it is larger than 1 MiB.")
        return buffer.toString("utf8", 0, bytesRead)
      } finally {
        await handle.close()
      }
    },
    catch: (cause) => invalid(file, cause instanceof Error ? cause.message : String(cause))
  })
  const { budgets = [], currency, endpoints = {}, perSecond } = yield* Effect.mapError(
    decodeFile(text),
    ({ message }) => invalid(file, message)
  )
  return { prices: { currency, perSecond, endpoints }, budgets: budgetsOf(budgets) }
})

/** A monthly budget needs the usage of a whole month. */
const Keep = Schema.DurationFromString.check(
  Schema.makeFilter((duration) => Duration.isGreaterThanOrEqualTo(duration, Duration.days(32)) || "32 days or longer")
)

/** Reads the settings and the file. Fails on the first invalid setting. */
export const load: Effect.Effect<UsageConfig, CliFailure> = Effect.gen(function*() {
  const keep = yield* setting(
    "STINT_USAGE_KEEP",
    "a duration of 32 days or longer, for example \"400 days\"",
    Config.schema(Keep, "STINT_USAGE_KEEP").pipe(Config.withDefault(defaults.keep))
  )
  const file = yield* setting("STINT_PRICES", "the path of a JSON file", Config.option(Config.NonEmptyString("STINT_PRICES")))
  const billing = Option.isNone(file) ? { prices: undefined, budgets: [] } : yield* readFile(file.value)
  return { ...defaults, keep, ...billing }
})
