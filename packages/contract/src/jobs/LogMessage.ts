/**
 * Limits the length of log messages. Our workers truncate their messages, and the platform truncates those of other workers.
 *
 * Every worker loads this module, so it imports nothing.
 */

/** The longest log message (docs/spec/logging.md#long-messages). Characters. */
export const MAX_LOG_MESSAGE = 4_096

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff
const isLowSurrogate = (code: number) => code >= 0xdc00 && code <= 0xdfff

/**
 * Removes the middle of a message of more than {@link MAX_LOG_MESSAGE} characters, and notes its length there: the beginning and the end are
 * the most useful parts. The result, with the note, has at most that length. Never splits a surrogate pair.
 */
export const truncateMessage = (message: string): string => {
  if (message.length <= MAX_LOG_MESSAGE) return message
  const note = ` ...[${message.length} characters, cut here]... `
  const room = MAX_LOG_MESSAGE - note.length
  let head = Math.ceil(room / 2)
  let tail = message.length - Math.floor(room / 2)
  if (isHighSurrogate(message.charCodeAt(head - 1))) head--
  if (isLowSurrogate(message.charCodeAt(tail))) tail++
  return message.slice(0, head) + note + message.slice(tail)
}
