/**
 * PostgreSQL stores no NUL character in text, but a handler's error or a webhook's address may contain one. Such a text is stored with an escape
 * character from Unicode's private use area, which rarely has to be escaped itself.
 */
const ESCAPE = "\uF8FE"

/** The text as it is stored. */
export const escapeNul = (text: string | null): string | null =>
  text !== null && (text.includes("\0") || text.includes(ESCAPE))
    ? text.replaceAll(ESCAPE, `${ESCAPE}1`).replaceAll("\0", `${ESCAPE}0`)
    : text

/** The text as it was before {@link escapeNul}. */
export const unescapeNul = (text: string | null): string | null =>
  text !== null && text.includes(ESCAPE)
    ? text.replaceAll(`${ESCAPE}0`, "\0").replaceAll(`${ESCAPE}1`, ESCAPE)
    : text
