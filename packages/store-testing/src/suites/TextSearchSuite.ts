/**
 * The conformance suite for searches of the words in jobs. A store with an index of words finds the same jobs as one without, at any time: before the
 * index exists, while it is built, while jobs change, and after they were removed.
 */
import { assert, describe, it } from "@effect/vitest"
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { type JobSearch, parseSearch } from "@stint/contract/JobSearch"
import { JsonText, toJsonText } from "@stint/contract/Json"
import { TEXT_LENGTH } from "@stint/contract/SearchText"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobStore } from "@stint/store/JobStore"
import { TextIndex, type TextIndexState } from "@stint/store/TextIndex"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import { runSeed, seededRandom } from "../SeededRandom.ts"

type Stores = JobStore | TextIndex

const queryOf = (text: string): JobSearch => {
  const { problem, search } = parseSearch(text)
  if (search === undefined) throw new Error(`${text}: ${problem.message}`)
  return search
}

/** Takes steps until nothing is left. */
export const indexAll: Effect.Effect<void, unknown, TextIndex> = Effect.gen(function*() {
  const { step } = yield* TextIndex
  // The first step of a store only opens its index.
  for (let quiet = 0; quiet < 2;) quiet = (yield* step) ? 0 : quiet + 1
})

/** The ids of all pages of a search, newest first. */
const findAll = Effect.fnUntraced(function*(text: string, endpoints: ReadonlyArray<EndpointId>, limit = 50) {
  const queue = yield* JobQueue.JobQueue
  const found: Array<JobId> = []
  let undecided = 0
  let after: JobQueue.SearchOptions["after"]
  do {
    const page = yield* queue.search({ endpoints, search: queryOf(text), now: 1e9, limit, after })
    found.push(...page.jobs.map(({ id }) => id))
    undecided += page.text?.undecided ?? 0
    after = page.next
  } while (after !== null)
  return { found, undecided }
})

/** What a test knows about a job. */
interface Known {
  readonly endpoint: EndpointId
  readonly id: JobId
  readonly tags: ReadonlyArray<string>
  readonly input: ReadonlyArray<string>
  output: ReadonlyArray<string>
  error: ReadonlyArray<string>
}

/** A term of a generated query. */
interface GeneratedTerm {
  readonly key: "input" | "output" | "text"
  readonly words: ReadonlyArray<string>
  readonly isPrefix: boolean
  readonly isNegated: boolean
}

/** Settings that let jobs run longer than a test. */
const LONG = { ttlMs: 604_800_000, leaseMs: 600_000, executionTimeoutMs: 604_800_000 }

const VOCABULARY = ["red", "redder", "shoes", "blue", "été", "語", "42"]

const textOf = ({ isNegated, isPrefix, key, words }: GeneratedTerm): string =>
  `${isNegated ? "-" : ""}${key}:"${words.join(" ").toUpperCase()}${isPrefix ? "*" : ""}"`

/** Whether a term's words follow one another in one of the job's texts, without the rules of the product. */
const has = ({ error, input, output, tags }: Known, { isPrefix, key, words }: GeneratedTerm): boolean => {
  const texts = key === "input" ? [input] : key === "output" ? [output] : [input, output, error, ...tags.map((tag) => [tag])]
  const wanted = ` ${words.join(" ")}${isPrefix ? "" : " "}`
  return texts.some((text) => ` ${text.join(" ")} `.includes(wanted))
}

/** Registers the rules. The layer is built for every test. `isIndexed`: the store has an index of words. */
export const textSearchSuite = <E>(
  name: string,
  store: Layer.Layer<Stores, E>,
  { isIndexed, sequences = 8 }: { readonly isIndexed: boolean; readonly sequences?: number }
): void => {
  const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(store, WorkerRegistry.layer)))
  const rule = (title: string, body: () => Effect.Effect<void, unknown, Stores | JobQueue.JobQueue>) =>
    it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(world)))

  describe(`search of words: ${name}`, () => {
    for (const indexed of [false, true]) {
      rule(
        `finds jobs by the words of their texts, ${indexed ? "with" : "before there is"} an index`,
        () =>
          Effect.gen(function*() {
            const { endpoint, fail, finish, submit, takeOne } = yield* Scenario.make({ maxAttempts: 1 })
            const ids: Array<JobId> = []
            const add = (...args: Parameters<typeof submit>) => Effect.map(submit(...args), ({ id }) => void ids.push(id))
            yield* add({ input: toJsonText({ name: "Ada Lovelace", note: "Red\nshoes" }) })
            yield* TestClock.adjust(1)
            yield* add({ input: toJsonText({ name: "Adam" }), tags: ["nightly-run"] })
            yield* TestClock.adjust(1)
            yield* add({ input: toJsonText("Schöne Grüße") })
            yield* fail(
              yield* takeOne("ann"),
              `{"error_type":"ValueError","error_message":"no shoes","error_traceback":"at secret.py"}`
            )
            yield* finish(yield* takeOne("ann"), { result: "Red paint" })
            if (indexed) yield* indexAll
            const find = (text: string) =>
              Effect.map(findAll(text, [endpoint.id]), ({ found }) => found.map((id) => ids.indexOf(id)))
            assert.deepStrictEqual(yield* find("input:ada"), [0])
            assert.deepStrictEqual(yield* find("input:ada*"), [1, 0])
            assert.deepStrictEqual(yield* find("input:\"red shoes\""), [0])
            assert.deepStrictEqual(yield* find("input:\"shoes red\""), [])
            assert.deepStrictEqual(yield* find("text:shoes"), [0])
            assert.deepStrictEqual(yield* find("output:red"), [1])
            assert.deepStrictEqual(yield* find("text:red"), [1, 0])
            assert.deepStrictEqual(yield* find("text:valueerror"), [0])
            assert.deepStrictEqual(yield* find("text:secret"), [], "a traceback may be hidden from callers")
            assert.deepStrictEqual(yield* find("text:nightly"), [1])
            assert.deepStrictEqual(yield* find("text:\"GRÜSSE\" OR text:GRÜßE"), [2])
            assert.deepStrictEqual(yield* find("-text:red"), [2])
            assert.deepStrictEqual(yield* find("status:failed text:red"), [0])
            assert.deepStrictEqual(yield* find("tag:nightly-run input:adam status:completed"), [1])
            assert.deepStrictEqual(yield* find("input:adam OR status:waiting"), [2, 1])
            assert.deepStrictEqual(yield* find("input:nothing"), [])
          })
      )
    }

    rule("finds a retried job by its new error and no longer by the old one, and no removed job", () =>
      Effect.gen(function*() {
        const { endpoint, fail, queue, submit, takeOne } = yield* Scenario.make({ maxAttempts: 1, retentionMs: 1_000 })
        const { id } = yield* submit({ input: toJsonText("poem") })
        yield* fail(yield* takeOne("ann"), "first")
        yield* indexAll
        const find = (text: string) => Effect.map(findAll(text, [endpoint.id]), ({ found }) => found.length)
        assert.strictEqual(yield* find("text:first"), 1)
        yield* queue.retry(endpoint.id, id)
        assert.strictEqual(yield* find("text:first"), 0)
        yield* fail(yield* takeOne("ann"), "second")
        assert.deepStrictEqual([yield* find("text:first"), yield* find("text:second")], [0, 1])
        yield* indexAll
        assert.deepStrictEqual([yield* find("text:first"), yield* find("text:second"), yield* find("text:poem")], [0, 1, 1])
        yield* TestClock.adjust(2_000)
        while (yield* queue.tick) { /* Removes the job. */ }
        assert.strictEqual(yield* find("text:poem"), 0)
        yield* indexAll
        assert.strictEqual(yield* find("text:poem"), 0)
      }))

    rule(
      "matches neither a term nor its negation if a text is too long or outside the database, and counts these jobs",
      () =>
        Effect.gen(function*() {
          const { endpoint, submit } = yield* Scenario.make()
          const long = yield* submit({ input: toJsonText(`start ${"a ".repeat(TEXT_LENGTH / 2)}end`) })
          yield* TestClock.adjust(1)
          const elsewhere = yield* submit({ input: JsonText.make("\u0001p/letters/x/input.1 20 abc\u0001") })
          yield* TestClock.adjust(1)
          const short = yield* submit({ input: toJsonText("begin") })
          for (const step of [Effect.void, indexAll]) {
            yield* step
            const find = (text: string) => findAll(text, [endpoint.id])
            assert.deepStrictEqual((yield* find("input:start")).found, [long.id])
            assert.deepStrictEqual((yield* find("input:end")).found, [])
            assert.deepStrictEqual(yield* find("-input:end"), { found: [short.id], undecided: 2 })
            assert.deepStrictEqual((yield* find("input:letters")).found, [])
            assert.deepStrictEqual(yield* find("-output:end"), { found: [short.id, elsewhere.id, long.id], undecided: 0 })
          }
        })
    )

    rule(
      "searches only the given endpoints, also if their names differ only in characters that the index does not contain",
      () =>
        Effect.gen(function*() {
          const one = yield* Scenario.make({ id: "a-b" })
          const other = yield* Scenario.make({ id: "a_b" })
          const first = yield* one.submit({ input: toJsonText("red") })
          yield* TestClock.adjust(1)
          const second = yield* other.submit({ input: toJsonText("red") })
          // Ended, because an index may contain only ended jobs.
          yield* one.queue.cancel(one.endpoint.id, first.id)
          yield* other.queue.cancel(other.endpoint.id, second.id)
          yield* indexAll
          assert.deepStrictEqual((yield* findAll("text:red", [one.endpoint.id])).found, [first.id])
          assert.deepStrictEqual((yield* findAll("text:red", [other.endpoint.id, one.endpoint.id])).found, [second.id, first.id])
        })
    )

    rule("reports how much of the jobs the index covers", () =>
      Effect.gen(function*() {
        const { endpoint, queue, submit } = yield* Scenario.make()
        const index = yield* TextIndex
        const stateOf = (text: string) =>
          Effect.map(queue.search({ endpoints: [endpoint.id], search: queryOf(text), now: 0 }), (page) => page.text)
        assert.isUndefined(yield* stateOf("status:failed"))
        assert.deepInclude(yield* stateOf("text:red"), { state: "none", from: null, behind: 0, undecided: 0 })
        yield* submit()
        yield* indexAll
        const ready: TextIndexState = { state: isIndexed ? "ready" : "none", from: null, behind: 0 }
        assert.deepInclude(yield* stateOf("text:red"), ready)
        // Ended, because an index may contain only ended jobs.
        for (let n = 0; n < 2; n++) yield* queue.cancel(endpoint.id, (yield* submit()).id)
        assert.deepInclude(yield* index.state, { ...ready, behind: isIndexed ? 2 : 0 })
        yield* indexAll
        assert.deepInclude(yield* stateOf("text:red"), ready)
      }))

    rule(
      "pages through jobs of one millisecond, and through more changed jobs than a search compares",
      () =>
        Effect.gen(function*() {
          const { endpoint, submit } = yield* Scenario.make()
          const submitMany = (count: number, text: string) =>
            Effect.replicateEffect(submit({ input: toJsonText(text) }), count, { concurrency: "unbounded", discard: true })
          yield* submitMany(30, "red")
          yield* submitMany(30, "blue")
          yield* indexAll
          for (const limit of [1, 7, 30, 31, 200]) {
            const { found } = yield* findAll("text:red", [endpoint.id], limit)
            assert.lengthOf(new Set(found), 30, `pages of ${limit}`)
            assert.lengthOf(found, 30, `pages of ${limit}`)
          }
          yield* submitMany(600, "red")
          assert.lengthOf((yield* findAll("text:red", [endpoint.id], 200)).found, 630)
        })
    )

    rule("finds a job by the words of its output when it ended while it was indexed", () =>
      Effect.gen(function*() {
        const { endpoint, finish, submit, takeOne } = yield* Scenario.make()
        const { step } = yield* TextIndex
        yield* indexAll
        for (let n = 0; n < 20; n++) {
          yield* submit({ input: toJsonText("red") })
          const job = yield* takeOne("ann")
          const both = [step, finish(job, "blue")]
          yield* Effect.all(n % 2 === 0 ? both : both.toReversed(), { concurrency: "unbounded", discard: true })
        }
        yield* indexAll
        assert.lengthOf((yield* findAll("output:blue", [endpoint.id])).found, 20)
      }))

    rule(
      "finds what a comparison of all jobs finds, while jobs are submitted, end, are retried, are removed and are indexed",
      () =>
        Effect.gen(function*() {
          const seed = runSeed()
          const random = seededRandom(seed)
          const pick = <A>(values: ReadonlyArray<A>): A => {
            const value = values[Math.floor(random() * values.length)]
            if (value === undefined) throw new Error("there is nothing to pick")
            return value
          }
          const words = (most: number) => Array.from({ length: Math.floor(random() * (most + 1)) }, () => pick(VOCABULARY))
          const { step } = yield* TextIndex
          const scenarios = [
            yield* Scenario.make({ maxAttempts: 1, retentionMs: 20_000, ...LONG }),
            yield* Scenario.make({ id: "numbers", maxAttempts: 1, retentionMs: 60_000, ...LONG })
          ]
          const endpoints = scenarios.map(({ endpoint }) => endpoint.id)
          const known = new Map<string, Known>()
          const seen = { some: 0, removed: 0, retried: 0 }
          const happened = () => Math.min(seen.some, seen.removed, seen.retried) > 0
          // Random commands may leave out one of the three, so they go on until each has happened.
          for (let n = 0; n < sequences * 20 || (n < 5_000 && !happened()); n++) {
            const { endpoint, fail, finish, queue, submit, takeOne } = pick(scenarios)
            const fate = random()
            if (fate < 0.3) {
              const input = words(4)
              const tags = [...new Set(words(2))]
              const { id } = yield* submit({ input: toJsonText(random() < 0.5 ? input : input.join(" ").toUpperCase()), tags })
              known.set(id, { endpoint: endpoint.id, id, tags, input, output: [], error: [] })
            } else if (fate < 0.55 && (yield* queue.depth(endpoint.id)).waiting > 0) {
              const job = yield* takeOne("ann")
              const entry = known.get(job.id)
              if (entry === undefined) throw new Error("an unknown job was taken")
              const text = words(3)
              if (random() < 0.5) {
                yield* finish(job, { list: text })
                entry.output = ["list", ...text]
              } else {
                entry.error = ["failed", ...text]
                yield* fail(job, entry.error.join("\n"))
              }
            } else if (fate < 0.65) {
              const failed = [...known.values()].filter((one) => one.endpoint === endpoint.id && one.error.length > 0)
              if (failed.length > 0) {
                const entry = pick(failed)
                yield* queue.retry(endpoint.id, entry.id)
                entry.error = []
                seen.retried += 1
              }
            } else if (fate < 0.75) {
              yield* TestClock.adjust(pick([1, 500, 5_000]))
              while (yield* queue.tick) { /* Removes jobs whose retention has ended. */ }
              for (const entry of known.values()) {
                const job = yield* Effect.option(queue.get(entry.endpoint, entry.id))
                if (job._tag === "Some") continue
                known.delete(entry.id)
                seen.removed += 1
              }
            } else for (let steps = Math.floor(random() * 6); steps > 0; steps--) yield* step
            if (random() < 0.6) continue
            const any = Array.from({ length: pick([1, 1, 2]) }, (): ReadonlyArray<GeneratedTerm> =>
              Array.from({ length: pick([1, 1, 2]) }, () => ({
                key: pick(["input", "output", "text"] as const),
                words: [pick(VOCABULARY), ...words(1)],
                isPrefix: random() < 0.3,
                isNegated: random() < 0.3
              })).filter(({ isPrefix, words }) =>
                !isPrefix || (words.at(-1) ?? "").length > 1
              ))
            if (
              any.some((terms) => terms.length === 0)
            ) continue
            const text = any.map((terms) => terms.map(textOf).join(" ")).join(" OR ")
            const expected = [...known.values()].filter((job) =>
              any.some((terms) => terms.every((term) => has(job, term) !== term.isNegated))
            ).map(({ id }) => String(id))
            const { found } = yield* findAll(text, endpoints, pick([1, 3, 50]))
            assert.sameMembers(found.map(String), expected, `${text}, seed ${seed}`)
            assert.lengthOf(found, expected.length, `${text}, seed ${seed}`)
            if (expected.length > 0 && expected.length < known.size) seen.some += 1
          }
          assert.isTrue(happened(), `seed ${seed}`)
        })
    )
  })
}
