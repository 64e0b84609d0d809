import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as DatabaseConfig from "../src/config/DatabaseConfig.ts"

const resolve = (address: string) =>
  DatabaseConfig.resolve(Option.some(address), {
    database: Option.none(),
    durability: "D2",
    payloads: { location: Option.none() }
  })

describe("the address of the database", () => {
  it.effect("refuses a password whose unescaped characters end the host, says how to write it, and does not print it", () =>
    Effect.gen(function*() {
      for (
        const address of [
          "postgres://stint:12/ab+cd@db/stint",
          "postgres://stint:12/abcd@db",
          "postgres://stint:12/ab/cd",
          "postgres://stint:12/ab#cd@db/stint",
          "postgres://stint:12/ab?cd@db/stint"
        ]
      ) {
        const failure = yield* Effect.flip(resolve(address))
        assert.include(failure.hint, "Percent-encode")
        assert.notInclude(`${failure.message} ${failure.hint}`, "12/")
      }
    }))

  it.effect("accepts addresses with parameters and an escaped password", () =>
    Effect.gen(function*() {
      for (
        const [address, name] of [
          ["postgres://stint:12%2Fab%2Bcd@db:5433/stint?sslmode=verify-full", "db:5433/stint"],
          ["postgresql://stint@localhost/stint?host=%2Frun%2Fpostgresql&user=a@b", "localhost/stint"]
        ] as const
      ) {
        const resolved = (yield* resolve(address)) ?? assert.fail()
        assert.strictEqual(Redacted.value(resolved), address)
        assert.strictEqual(DatabaseConfig.nameOf(resolved), name)
      }
    }))
})
