/**
 * Limits the length of log messages. Our workers truncate their own messages, and the platform truncates messages from other workers.
 *
 * Every worker loads this module, so it imports nothing.
 */

/** The maximum length of a log message, in characters (docs/spec/logging.md#long-messages). */
export const MAX_LOG_MESSAGE = 4_096

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff
const isLowSurrogate = (code: number) => code >= 0xdc00 && code <= 0xdfff

/**
 * Shortens a message of more than {@link MAX_LOG_MESSAGE} characters: replaces the middle with a note, because the beginning and the end
 * are the most useful parts. The result, including the note, has at most {@link MAX_LOG_MESSAGE} characters. Never splits a surrogate pair.
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
