/**
 * The texts of jobs that a search compares (`@stint/store/TextIndex`).
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import { TEXT_LENGTH } from "@stint/contract/SearchText"
import type { JobTexts, StoredText } from "@stint/store/TextIndex"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { STATE_TABLES } from "./JobColumns.ts"
import { unescapeNul } from "./NulText.ts"

/** Enough characters even if each of them is stored with an escape (NulText.ts). */
const STORED_LENGTH = TEXT_LENGTH * 2

const beginning = (column: string) => `left(${column}, ${STORED_LENGTH}), char_length(${column}) > ${STORED_LENGTH}`

/** The columns of the texts of a job `j` with the outcome `s`. */
export const TEXTS = `${beginning("j.input")}, ${beginning("s.output")}, ${beginning("s.error")}, j.spec`

const Text = Schema.NullOr(Schema.String)
const IsCut = Schema.NullOr(Schema.Boolean)
const Texts = Schema.Tuple([
  Text,
  IsCut,
  Text,
  IsCut,
  Text,
  IsCut,
  Schema.fromJsonString(Schema.Struct({ tags: Schema.Array(Schema.String) }))
])

const decodeId = Schema.decodeUnknownSync(JobId)
const decodeRow = Schema.decodeUnknownSync(Texts)
const decodeAny = Schema.decodeUnknownOption(Texts)

const stored = (text: string | null, isCut: boolean | null): StoredText => ({ text: unescapeNul(text), isCut: isCut === true })

const toTexts = ([input, inputIsCut, output, outputIsCut, error, errorIsCut, { tags }]: typeof Texts.Type): JobTexts => ({
  input: stored(input, inputIsCut),
  output: stored(output, outputIsCut),
  error: stored(error, errorIsCut),
  tags
})

/** Decodes {@link TEXTS}; undefined if they have been edited into something else. */
export const decodeTexts = (row: ReadonlyArray<unknown>): JobTexts | undefined =>
  Option.getOrUndefined(Option.map(decodeAny(row), toTexts))

/** The texts of some jobs of an endpoint. */
export const textsOf = async (
  query: Query,
  endpoint: EndpointId,
  ids: ReadonlyArray<JobId>
): Promise<ReadonlyMap<JobId, JobTexts>> => {
  const states = STATE_TABLES.map((place) => `SELECT id, output, error FROM stint.${place} WHERE id = ANY($2::text[])`)
  const rows = await query(
    `SELECT j.id, ${TEXTS} FROM (${states.join(" UNION ALL ")}) s JOIN stint.jobs j ON j.id = s.id WHERE j.endpoint = $1`,
    [endpoint, ids]
  )
  return new Map(rows.map(([id, ...texts]) => [decodeId(id), toTexts(decodeRow(texts))]))
}
