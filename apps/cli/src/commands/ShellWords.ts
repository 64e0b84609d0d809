/**
 * Splits a command line into words at spaces; single and double quotes keep a word together. No shell is involved, so no other character is
 * special.
 */
export const splitWords = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) => word.replaceAll(/"([^"]*)"|'([^']*)'/g, "$1$2"))
