/**
 * The parameters in the address of the playground.
 */

const textAt = (search: unknown, key: string): string => {
  const value: unknown = typeof search === "object" && search !== null ? Reflect.get(search, key) : undefined
  return typeof value === "string" || typeof value === "number" ? String(value) : ""
}

/** The endpoint, and the job whose input is edited. Empty when the address does not name them. */
export const playgroundOf = (search: unknown): { readonly endpoint: string; readonly from: string } => ({
  endpoint: textAt(search, "endpoint"),
  from: textAt(search, "from")
})
