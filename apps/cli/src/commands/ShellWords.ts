/**
 * A command line as its words: split at spaces, with single and double quotes to keep a word together. No shell is involved, so nothing
 * else has a meaning.
 */
export const splitWords = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) => word.replaceAll(/"([^"]*)"|'([^']*)'/g, "$1$2"))
