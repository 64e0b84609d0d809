/**
 * The tags of a job (docs/spec/jobs-api.md#request-body). A separate module, because a pipeline's worker also loads it.
 */
import * as Schema from "effect/Schema"
import { PrintableText } from "../PrintableText.ts"

/** The maximum number of tags of a job. */
export const MAX_TAGS = 16

/** The maximum length of a tag, in characters. */
export const MAX_TAG = 64

/** A tag for finding jobs: 1 to {@link MAX_TAG} characters. */
export const Tag = PrintableText.check(Schema.isBetweenLength(1, MAX_TAG))

/** The tags of a job, at most {@link MAX_TAGS}. Duplicates count once. */
export const Tags = Schema.Array(Tag).check(Schema.isMaxLength(MAX_TAGS))
