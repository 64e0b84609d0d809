/**
 * Text that other people read in terminals and logs.
 *
 * Names, tags and ids come from callers and workers. A control character in one of them could move the cursor, change the title or the
 * clipboard of an operator's terminal, or start a line that looks like a line of the platform's log. So names and ids with such characters
 * are rejected, and every write to a terminal escapes them, because errors, outputs and log lines may contain them.
 */
import * as Schema from "effect/Schema"

/** Control characters, line and paragraph separators, and the characters that reverse text. */
const UNPRINTABLE = String.raw`\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069`

const PRINTABLE = new RegExp(`^[^${UNPRINTABLE}]*$`, "u")

/** A string without control characters, line breaks or characters that reverse text. */
export const PrintableText = Schema.String.check(
  Schema.isPattern(PRINTABLE, {
    message: "expected text without control characters, line breaks and characters that reverse text"
  })
)

const ESCAPED = new RegExp(`[${UNPRINTABLE}]`, "gu")

/** As a JSON escape, so that the value of JSON text does not change. */
const escapeCharacter = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`

/**
 * Replaces the characters that are not safe in a terminal with JSON escapes (`\\u001b`). Keeps line feeds and tabs. The value of JSON text does not
 * change.
 */
export const escapeUnprintable = (text: string): string =>
  PRINTABLE.test(text)
    ? text
    : text.replaceAll(ESCAPED, (character) => character === "\n" || character === "\t" ? character : escapeCharacter(character))

/** Like {@link escapeUnprintable}, for text that must stay on one line: escapes line feeds, too. */
export const escapeLine = (text: string): string => escapeUnprintable(text).replaceAll("\n", "\\n")
