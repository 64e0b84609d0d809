/**
 * Owners of idempotency keys and batches: the id of the access key that made them (docs/spec/authentication.md#what-belongs-to-a-key).
 */

/** The owner of rows without an owner, written by earlier versions or by programs without access keys. Every owner finds them. */
export const NO_OWNER = ""

/** Whether a row of `owner` is visible to a caller. `caller` undefined: the caller sees the rows of all owners. */
export const isVisibleTo = (caller: string | undefined, owner: string): boolean =>
  caller === undefined || owner === NO_OWNER || owner === caller
