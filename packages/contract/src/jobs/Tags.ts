/**
 * The tags of a job (docs/spec/jobs-api.md#request-body). A separate module, because a pipeline's worker also loads it.
 */
import * as Schema from "effect/Schema"
import { PrintableText } from "../PrintableText.ts"

/** The maximum number of tags of a job. */
const MAX_TAGS = 16

/** A tag for finding jobs: 1 to 64 characters. */
export const Tag = PrintableText.check(Schema.isBetweenLength(1, 64))

/** The tags of a job, at most {@link MAX_TAGS}. Duplicates count once. */
export const Tags = Schema.Array(Tag).check(Schema.isMaxLength(MAX_TAGS))
