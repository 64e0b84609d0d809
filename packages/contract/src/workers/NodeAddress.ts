/**
 * The addresses of nodes. Plain TypeScript, because the console loads it into browsers.
 */

/** The address of a path's node in the graph: the path without indices and suffixes. */
export const nodeOf = (path: string): string => path.replace(/\[\d+\]|~\w+/g, "")

/** Whether a path belongs to a node or a step: to itself, its items, its compensation, or the nodes inside it. `wanted`: an address or a path. */
export const isWithin = (path: string, wanted: string): boolean => {
  if (path === wanted) return true
  const address = nodeOf(path)
  return address === wanted || address.startsWith(`${wanted}.`)
}
