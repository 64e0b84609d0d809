import { expect, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { LOG_SEARCH_MILLIS } from "@stint/contract/LogsApi"
import { JobLogStore } from "@stint/store/JobLogStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as LogSearch from "../src/logs/LogSearch.ts"

it.effect("ends a search that takes too long, even one that finds no line of the endpoint, and continues there", () =>
  Effect.gen(function*() {
    const store = yield* JobLogStore
    const clock = yield* Clock.Clock
    const scanned: Array<number | undefined> = []
    /** A slow store with a thousand pieces, all of other endpoints. */
    const scan: JobLogStore["Service"]["scan"] = (_, before) => {
      scanned.push(before)
      const next = (before ?? 1_000) - 100
      return Effect.as(TestClock.adjust(LOG_SEARCH_MILLIS / 4), { pieces: [], next: next > 0 ? next : null })
    }
    const search = LogSearch.make({ ...store, scan }, clock)
    const first = yield* search(EndpointId.make("letters"), { contains: "timeout" })
    expect(first).toEqual({ lines: [], next: { piece: 600, line: 0 }, stopped: "time", searched: 0 })
    expect(scanned).toEqual([undefined, 900, 800, 700])
    scanned.length = 0
    const second = yield* search(EndpointId.make("letters"), { contains: "timeout", cursor: { piece: 600, line: 0 } })
    expect(scanned).toEqual([600, 500, 400, 300])
    expect(second.stopped).toBe("time")
    const third = yield* search(EndpointId.make("letters"), { contains: "timeout", cursor: { piece: 200, line: 0 } })
    expect(third).toEqual({ lines: [], next: null, searched: 0 })
  }).pipe(Effect.provide(MemoryJobStore.layerWithEndpoints)))
