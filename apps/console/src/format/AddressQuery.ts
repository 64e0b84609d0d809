/**
 * The query of a page's address, in which the page keeps its filter.
 */

/** A value from the address's parsed query, as text. */
export const textAt = (search: unknown, key: string): string => {
  const value: unknown = typeof search === "object" && search !== null ? Reflect.get(search, key) : undefined
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : ""
}

/** The query of a filter: its values that are not empty. */
export const queryOfFilter = (filter: object): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ""))
