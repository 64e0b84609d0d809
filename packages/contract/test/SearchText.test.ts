import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { parseSearch } from "../src/jobs/JobSearch.ts"
import { matchesSearch, mayMatch, type SearchedJob, searchedWords } from "../src/jobs/SearchMatch.ts"
import {
  hasPhrase,
  indexWords,
  indexWordsOf,
  type JobWords,
  type Phrase,
  phraseOf,
  TEXT_FIELDS,
  TEXT_KEYS,
  TEXT_LENGTH,
  type TextWords,
  wantedWords,
  wordsOf
} from "../src/jobs/SearchText.ts"

const jsonWords = (value: unknown) => wordsOf(JSON.stringify(value), { isJson: true }).words
const NONE: TextWords = { words: [], isCut: false }

const phrase = (value: string): Phrase => {
  const found = phraseOf(value)
  if (found === undefined) throw new Error(value)
  return found
}

const job = (words: Partial<JobWords>): JobWords => ({ input: NONE, output: NONE, error: NONE, tags: NONE, ...words })

const input = (value: unknown): JobWords => job({ input: wordsOf(JSON.stringify(value), { isJson: true }) })

/** Letters of several scripts, marks, digits, separators and characters that JSON escapes. */
const text = fc.string({
  unit: fc.constantFrom(
    "a",
    "B",
    "é",
    "e\u0301",
    "Σ",
    "ς",
    "İ",
    "ß",
    "1",
    "٣",
    "語",
    "𝒳",
    "😀",
    " ",
    "\n",
    "\"",
    "\\",
    "_",
    "-",
    "\u0001",
    "\u2028"
  ),
  maxLength: 30
})

describe("words", () => {
  it("are the runs of letters and digits in the values and keys of JSON, in lower case", () => {
    expect(jsonWords({ name: "Ada", note: "Red\nshoes", n: 12.5, ok: true, none: null })).toEqual(
      ["name", "ada", "note", "red", "shoes", "n", "12", "5", "ok", "true", "none", "null"]
    )
    expect(wordsOf(`{"a":"\\u00dcber\\ud835\\udcb3 \\\\n"}`, { isJson: true }).words).toEqual(["a", "über𝒳", "n"])
    expect(wordsOf("a\\nb", { isJson: false }).words).toEqual(["a", "nb"])
    expect(wordsOf(null, { isJson: true })).toEqual(NONE)
  })

  it("do not depend on the case and the form of letters, nor on escapes", () => {
    fc.assert(fc.property(text, (one) => {
      const words = wordsOf(one, { isJson: false }).words
      if (!one.startsWith("\u0001")) {
        expect(wordsOf(one.normalize("NFD"), { isJson: false }).words).toEqual(words)
        expect(wordsOf(words.join(" "), { isJson: false }).words).toEqual(words)
      }
      const escaped = `"${Array.from(one, (c) => c === "a" ? "\\u0061" : JSON.stringify(c).slice(1, -1)).join("")}"`
      expect(wordsOf(escaped, { isJson: true })).toEqual(wordsOf(JSON.stringify(one), { isJson: true }))
    }))
  })

  it("of the beginning of a text are the first words of the text, and their number is at most one less than it has", () => {
    fc.assert(
      fc.property(text, fc.nat(60), fc.boolean(), (one, length, isJson) => {
        const whole = `x ${isJson ? JSON.stringify(one) : one}`
        const all = wordsOf(whole, { isJson }).words
        const { isCut, words } = wordsOf(whole.slice(0, length), { isJson, isCut: true })
        expect(isCut).toBe(true)
        expect(words).toEqual(all.slice(0, words.length))
      }),
      { numRuns: 2_000 }
    )
  })

  it("beyond the maximum length are unknown", () => {
    const long = `${"a ".repeat(TEXT_LENGTH / 2)}shoes`
    const { isCut, words } = wordsOf(long, { isJson: false })
    expect([isCut, words.length]).toEqual([true, TEXT_LENGTH / 2])
    expect(wordsOf("a".repeat(TEXT_LENGTH), { isJson: false }).isCut).toBe(false)
    expect(wordsOf("\u0001a/b 12 x\u0001", { isJson: true })).toEqual({ words: [], isCut: true })
    const cut = job({ input: { words: ["red"], isCut: true } })
    expect(hasPhrase(phrase("red"), ["input"], cut)).toBe(true)
    expect(hasPhrase(phrase("shoes"), ["input"], cut)).toBeUndefined()
    expect(hasPhrase(phrase("shoes"), ["output"], cut)).toBe(false)
  })
})

describe("phrases", () => {
  it("match words that follow one another, the last of them perhaps by its beginning", () => {
    const found = (value: string, of: unknown) => hasPhrase(phrase(value), ["input"], input(of))
    expect(found("red shoes", "Red shoes")).toBe(true)
    expect(found("red shoes", ["red", "shoes"])).toBe(true)
    expect(found("red shoes", "red old shoes")).toBe(false)
    expect(found("red sho", "red shoes")).toBe(false)
    expect(found("red sho*", "red shoes")).toBe(true)
    expect(found("re* shoes", "red shoes")).toBe(false)
    expect(found("ada", "Adam")).toBe(false)
    expect(found("name ada", { name: "Ada" })).toBe(true)
    expect(phraseOf("... - *")).toBeUndefined()
  })

  it("of any words of a text match it, and the index has these words", () => {
    fc.assert(
      fc.property(text, text, fc.nat(9), fc.integer({ min: 1, max: 3 }), fc.boolean(), (one, other, at, count, isPrefix) => {
        const words = job({ input: wordsOf(JSON.stringify(one), { isJson: true }), error: wordsOf(other, { isJson: false }) })
        const some = words.input.words.slice(at, at + count)
        if (some.length === 0) return
        const last = some.at(-1) ?? ""
        const wanted = {
          words: isPrefix ? [...some.slice(0, -1), Array.from(last).slice(0, -1).join("") || last] : some,
          isPrefix
        }
        const indexed = indexWords("a-b", words)
        for (const fields of [TEXT_KEYS.input, TEXT_KEYS.text]) {
          expect(hasPhrase(wanted, fields, words)).toBe(true)
          for (const one of wantedWords(wanted, fields)) {
            const alternatives = indexWordsOf(one)
            expect(
              indexed.some((word) =>
                alternatives.some((other) => other.isPrefix ? word.startsWith(other.word) : word === other.word)
              )
            ).toBe(true)
          }
        }
      })
    )
  })

  it("find long words in the index by their beginning", () => {
    const long = `${"a".repeat(63)}${"𝒳".repeat(40)}`
    const indexed = indexWords("a", input(long))
    for (const value of [long, `${long.slice(0, 30)}*`, `${long.slice(0, 71)}*`]) {
      const [wanted] = wantedWords(phrase(value), ["input"])
      const [{ isPrefix, word } = { isPrefix: false, word: "" }] = wanted === undefined ? [] : indexWordsOf(wanted)
      expect(indexed.some((one) => isPrefix ? one.startsWith(word) : one === word), value).toBe(true)
    }
    expect(Math.max(...indexed.map(({ length }) => length))).toBeLessThan(70)
    expect(indexWords("My_endpoint", job({ tags: { words: ["", "a", "", "a"], isCut: false } }))).toEqual(["emy0endpoint", "ta"])
  })
})

describe("terms for words", () => {
  const row: SearchedJob = {
    endpoint: "a",
    status: "FAILED",
    createdAt: 0,
    release: null,
    worker: null,
    batchId: null,
    tags: [],
    error: null,
    errorGroup: null
  }
  const search = (text: string) => {
    const { search } = parseSearch(text)
    if (search === undefined) throw new Error(text)
    return search
  }
  const matches = (text: string, words?: JobWords) => matchesSearch(search(text), row, 1, words)

  it("match if a text has the words, and negated if it is known that none has them", () => {
    const words = input("red shoes")
    for (
      const text of [
        "input:red",
        "text:red text:shoes",
        "text:\"red shoes\"",
        "-input:blue",
        "NOT output:red",
        "text:blue OR text:red"
      ]
    ) {
      expect(matches(text, words), text).toBe(true)
      expect(matches(text), `${text}, without words`).toBe(false)
      expect(mayMatch(search(text), row, 1), text).toBe(true)
    }
    for (const text of ["output:red", "text:\"shoes red\"", "-text:red", "input:red input:blue", "text:red -text:shoes"]) {
      expect(matches(text, words), text).toBe(false)
    }
    const cut = job({ input: { words: ["red"], isCut: true } })
    expect(["text:blue", "-text:blue", "text:red", "-text:red", "-output:blue"].map((text) => matches(text, cut))).toEqual([
      false,
      false,
      true,
      false,
      true
    ])
  })

  it("are compared only if the rest of the row matches", () => {
    expect(mayMatch(search("status:completed text:red"), row, 1)).toBe(false)
    expect(mayMatch(search("status:completed text:red OR status:failed text:blue"), row, 1)).toBe(true)
    expect(matches("status:failed OR text:red")).toBe(true)
  })

  it("name the words that the index must find, but no negated ones", () => {
    const [terms] = search("input:\"red sho*\" -output:blue text:ada").any
    expect(terms === undefined ? [] : searchedWords(terms)).toEqual([
      { word: "red", isPrefix: false, fields: ["input"] },
      { word: "sho", isPrefix: true, fields: ["input"] },
      { word: "ada", isPrefix: false, fields: TEXT_FIELDS }
    ])
  })
})
