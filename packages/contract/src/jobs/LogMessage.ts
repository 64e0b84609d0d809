/**
 * How long a message of a log is at the most. Workers cut theirs before they send them, and the platform cuts those of others.
 *
 * This module is part of every worker's import graph: it imports nothing.
 */

/** The most characters of a message that are kept (docs/spec/logging.md#long-messages). */
export const MAX_LOG_MESSAGE = 4_096

const isHighSurrogate = (code: number) => code >= 0xd800 && code <= 0xdbff
const isLowSurrogate = (code: number) => code >= 0xdc00 && code <= 0xdfff

/**
 * Cuts a message of more than {@link MAX_LOG_MESSAGE} characters in its middle, because the beginning says what it is and the end how it
 * went. What is left, with the note of how much is gone, is that long at the most; a character outside the basic plane is never cut in
 * two.
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
