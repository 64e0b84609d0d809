/**
 * Starts the console.
 */
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query"
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, RouterProvider } from "@tanstack/react-router"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { ApiError } from "./api/Api.ts"
import { applyPreferences } from "./live/Preferences.ts"
import { pages } from "./pages/Registry.ts"
import { Broken, NotFound, Shell } from "./pages/Shell.tsx"
import "./style.css"

applyPreferences()

const SESSION = ["session"]

const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // A rejected request is not retried. Any other failed request is retried once at once, and then at the next poll.
      retry: (failures, error) => failures < 1 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      retryDelay: 500,
      staleTime: 1_000
    }
  },
  queryCache: new QueryCache({
    onError: (error, query) => {
      // The session has ended, so the shell reads it again and shows the login.
      if (error instanceof ApiError && error.status === 401 && query.queryKey[0] !== "session") {
        queryClient.setQueryData(SESSION, null)
      }
    }
  })
})

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound })

const routes = pages.map(({ load, path }) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) })
)

const router = createRouter({ routeTree: root.addChildren(routes), defaultPreload: "intent", defaultErrorComponent: Broken })

const element = document.getElementById("root")
if (element !== null) {
  createRoot(element).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>
  )
}
