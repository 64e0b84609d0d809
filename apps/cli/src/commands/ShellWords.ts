/**
 * Splits a command line into words at spaces. Single and double quotes group characters into one word. No shell is involved, so no other
 * characters are special.
 */
export const splitWords = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) => word.replaceAll(/"([^"]*)"|'([^']*)'/g, "$1$2"))
