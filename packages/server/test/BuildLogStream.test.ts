import { describe, expect, it } from "@effect/vitest"
import { BuildMissing } from "@stint/builder/BuildError"
import { Build, BuildLogEvent, type BuildLogLine } from "@stint/contract/Build"
import { BUILD_LOG_LIMIT } from "@stint/contract/BuildsApi"
import { EndpointId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { follow, LONGEST_MILLIS } from "../src/control/BuildLogStream.ts"

const endpoint = EndpointId.make("words")

const decodeBuild = Schema.decodeUnknownSync(Build)

const buildIn = (state: "running" | "succeeded") =>
  decodeBuild({
    endpoint,
    number: 3,
    state,
    createdAt: 0,
    createdBy: "ann",
    trigger: "manual",
    settings: { repository: "https://git.example.com/words.git" },
    warnings: []
  })

/** A build whose lines the test appends. */
const running = () => {
  const lines: Array<BuildLogLine> = []
  let build = buildIn("running")
  const reads: Array<number> = []
  return {
    reads,
    write: (...texts: ReadonlyArray<string>) => {
      for (const text of texts) lines.push({ number: lines.length + 1, time: 0, text })
    },
    end: () => {
      build = buildIn("succeeded")
    },
    builds: {
      get: (_: EndpointId, number: number) =>
        number === 3 ? Effect.sync(() => build) : Effect.fail(new BuildMissing({ endpoint, number })),
      log: (_: EndpointId, _number: number, after: number, limit: number) =>
        Effect.sync(() => {
          reads.push(after)
          return lines.filter(({ number }) => number > after).slice(0, limit)
        })
    }
  }
}

const decodeEvent = Schema.decodeUnknownSync(BuildLogEvent)

/** The events in a text. */
const eventsIn = (text: string) => {
  const events: Array<typeof BuildLogEvent.Type> = []
  const parser = Sse.makeParser((event) => {
    if (event._tag === "Event") events.push(decodeEvent(event))
  })
  parser.feed(text)
  return events.map((event) => event.event === "line" ? `${event.id} ${event.data.text}` : `end ${event.data.state}`)
}

/** Follows the log. `sent` returns the events sent so far. */
const followed = Effect.fnUntraced(function*(build: ReturnType<typeof running>, after = 0) {
  let text = ""
  const fiber = yield* Effect.forkScoped(
    Stream.runForEach(follow(build.builds, { endpoint, number: 3 }, after), (part) => Effect.sync(() => void (text += part)))
  )
  yield* TestClock.adjust(0)
  return { fiber, sent: () => eventsIn(text) }
})

describe("the log of a build as events", () => {
  it.effect("has the stored lines, then each new one, and then the build", () =>
    Effect.gen(function*() {
      const build = running()
      build.write("STEP 1", "a line\u2028with a separator")
      const { fiber, sent } = yield* followed(build)
      expect(sent()).toEqual(["1 STEP 1", "2 a line\u2028with a separator"])
      build.write("STEP 2")
      yield* TestClock.adjust("250 millis")
      expect(sent().slice(2)).toEqual(["3 STEP 2"])
      build.write("done")
      build.end()
      yield* TestClock.adjust("250 millis")
      expect(sent().slice(3)).toEqual(["4 done", "end succeeded"])
      yield* Fiber.join(fiber)
      // Each line is read once.
      expect(build.reads).toEqual([0, 2, 3])
    }))

  it.effect("continues after a line, and ends at once for a build that has ended", () =>
    Effect.gen(function*() {
      const build = running()
      build.write("1", "2", "3")
      build.end()
      const { fiber, sent } = yield* followed(build, 2)
      expect(sent()).toEqual(["3 3", "end succeeded"])
      yield* Fiber.join(fiber)
    }))

  it.effect("reads a long log in pages without a pause, and sends the end after its last line", () =>
    Effect.gen(function*() {
      const build = running()
      build.write(...Array.from({ length: BUILD_LOG_LIMIT * 2 }, (_, index) => `line ${index + 1}`))
      build.end()
      const { fiber, sent } = yield* followed(build)
      yield* Fiber.join(fiber)
      expect(sent()).toHaveLength(BUILD_LOG_LIMIT * 2 + 1)
      expect(sent().slice(-2)).toEqual([`${BUILD_LOG_LIMIT * 2} line ${BUILD_LOG_LIMIT * 2}`, "end succeeded"])
    }))

  it.effect("ends after a few minutes even if the build is still running, so that the reader presents its key again", () =>
    Effect.gen(function*() {
      const build = running()
      build.write("slow")
      const { fiber, sent } = yield* followed(build)
      yield* TestClock.adjust(LONGEST_MILLIS - 1_000)
      expect(fiber.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(fiber)
      expect(sent()).toEqual(["1 slow"])
    }))
})
