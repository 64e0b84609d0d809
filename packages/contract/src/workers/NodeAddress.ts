/**
 * The addresses of nodes. Plain TypeScript, because the console loads it into browsers.
 */

/** The address of a path's node in the graph: the path without indices and suffixes. */
export const nodeOf = (path: string): string => path.replace(/\[\d+\]|~\w+/g, "")
