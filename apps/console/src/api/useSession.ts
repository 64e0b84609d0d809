/**
 * The session, for pages that require a login.
 */
import { useQuery } from "@tanstack/react-query"
import { createContext, useContext } from "react"
import * as Api from "./Api.ts"

/** Reads the session. Null: not logged in. */
export const useSessionQuery = () =>
  useQuery<Api.Session | null>({
    queryKey: ["session"],
    queryFn: async ({ signal }) => {
      try {
        return await Api.session(signal)
      } catch (error) {
        if (error instanceof Api.ApiError && error.status === 401) return null
        throw error
      }
    },
    staleTime: 60_000
  })

/** The session of the pages. */
export const SessionContext = createContext<Api.Session | undefined>(undefined)

/** The session. Only pages inside the shell use it. */
export const useSession = (): Api.Session => {
  const session = useContext(SessionContext)
  if (session === undefined) throw new Error("useSession() was called outside of the shell")
  return session
}
