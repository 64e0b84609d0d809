/** The rows of batches and their requests. */
import { JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import { BatchRecord } from "@stint/store/BatchMachine"
import { type BatchRequest, RequestOptions } from "@stint/store/BatchStore"
import * as Schema from "effect/Schema"
import type { Row } from "./Connection.ts"

/** A batch as JSON text: it is always read and written as a whole. */
export const BatchBody = Schema.fromJsonString(BatchRecord)

const decodeBody = Schema.decodeUnknownSync(BatchBody)

/** Decodes the column `body`. */
export const toBatch = ([body]: Row): BatchRecord => decodeBody(body)

/** The columns of `batch_requests` for `INSERT`. */
export const REQUEST = { batch: "text", id: "text", input: "text", s3_config: "text", options: "text" } as const

const OptionsText = Schema.fromJsonString(RequestOptions)
const encodeOptions = Schema.encodeSync(OptionsText)
const decodeRequest = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, JobId, JsonText, Schema.NullOr(JsonText), OptionsText]))

/** The values of a request, in the order of {@link REQUEST}. */
export const requestValues = (batch: string, { id, input, options, s3Config }: BatchRequest): ReadonlyArray<unknown> => [
  batch,
  id,
  input,
  s3Config,
  encodeOptions(options)
]

/** A request that is not a job yet, and its row number. */
export interface PendingRequest {
  readonly seq: number
  readonly request: BatchRequest
}

/** Decodes the columns `seq, id, input, s3_config, options`. */
export const toPending = (row: Row): PendingRequest => {
  const [seq, id, input, s3Config, options] = decodeRequest(row)
  return { seq, request: { id, input, s3Config, options } }
}
