/**
 * The jobs API client, which authenticates with the session's cookie.
 */
import { createClient } from "@stint/client"

/** The jobs API: submits, follows, cancels and retries. The browser adds the cookie. */
export const jobsClient = createClient({
  baseUrl: "/",
  // The client sends no cookies by default, because pages of other sites use it too.
  fetch: (url, init) => fetch(url, { ...init, credentials: "same-origin" })
})
