/**
 * The cursor of a list that is paged newest first: by creation time, then by id when creation times are equal.
 *
 * Neither value ever changes. A reader that follows the cursor therefore sees every item that exists the whole time exactly once, even
 * while other items are created, changed or removed. The item at the cursor may have been removed in the meantime.
 */

/** The last item of a page. */
export interface ListCursor {
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly id: string
}

/** The text form of a cursor: `v1.CREATED_AT.ID`. Opaque to callers. */
export const encodeListCursor = ({ createdAt, id }: ListCursor): string => `v1.${createdAt}.${id}`

/** Undefined for text that is not a cursor. */
export const decodeListCursor = (cursor: string): ListCursor | undefined => {
  const [, createdAt, id] = /^v1\.(\d{1,15})\.(\S{1,128})$/.exec(cursor) ?? []
  return createdAt === undefined || id === undefined ? undefined : { createdAt: Number(createdAt), id }
}

/** The order of a list, for `sort`. */
export const compareNewestFirst = (a: ListCursor, b: ListCursor): number =>
  b.createdAt - a.createdAt || (a.id < b.id ? 1 : a.id > b.id ? -1 : 0)
