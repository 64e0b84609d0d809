/**
 * The frame of all pages: login, navigation, and the state of the connection.
 */
import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query"
import { Link, Outlet, useMatches, useNavigate } from "@tanstack/react-router"
import { lazy, type SubmitEvent, Suspense, useCallback, useEffect, useId, useRef, useState } from "react"
import * as Api from "../api/Api.ts"
import { SessionContext, useSessionQuery } from "../api/useSession.ts"
import { keyName } from "../format/Format.ts"
import { setPaused, useConnection } from "../live/Connection.ts"
import { useLiveEvents } from "../live/LiveEvents.ts"
import { usePreferences } from "../live/Preferences.ts"
import { Loading, Problem } from "../ui/Loaded.tsx"
import { Code } from "../ui/Text.tsx"
import { pages } from "./Registry.ts"
import { usePaletteKey } from "./usePaletteKey.ts"
import { useShortcuts } from "./useShortcuts.ts"

const Preferences = lazy(() => import("./Preferences.tsx"))
const Palette = lazy(() => import("./Palette.tsx"))

/** The next user must not see data that the previous user's key permitted. */
const forgetData = (client: QueryClient) => client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" })

const Login = () => {
  const client = useQueryClient()
  const field = useId()
  const [key, setKey] = useState("")
  const { error, isPending, mutate } = useMutation({
    mutationFn: () => Api.login(key),
    onSuccess: (session) => {
      setKey("")
      forgetData(client)
      client.setQueryData(["session"], session)
    }
  })
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    mutate()
  }
  useEffect(() => {
    document.title = "Log in · Stint"
  }, [])
  return (
    <main className="login">
      <h1>Stint</h1>
      <form onSubmit={submit}>
        <label htmlFor={field}>Key</label>
        <input
          id={field}
          type="password"
          autoComplete="off"
          autoFocus
          required
          spellCheck={false}
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        <button type="submit" className="button primary" disabled={isPending}>Log in</button>
      </form>
      {error === null ? null : <Problem error={error} />}
      <p className="muted">On the platform's machine, this command prints the key:</p>
      <Code label="the command">stint keys print</Code>
      <p className="muted">
        A key with the scope <code>jobs:read</code> shows everything and changes nothing. The <a href="/docs">API reference</a>
        {" "}
        needs no key.
      </p>
    </main>
  )
}

const Live = () => {
  const { isPaused, isReachable } = useConnection()
  const [word, tone] = !isReachable ? ["Offline", "failed"] : isPaused ? ["Paused", "ended"] : ["Live", "done"]
  return (
    <button
      type="button"
      className={`live tone-${tone}`}
      aria-pressed={isPaused}
      title={isPaused ? "Updates are paused. Click to resume." : "The page updates itself. Click to pause."}
      onClick={() => setPaused(!isPaused)}
    >
      <span className="dot" aria-hidden="true" />
      {word}
    </button>
  )
}

const Navigation = ({ onPreferences, onSearch, session }: {
  readonly session: Api.Session
  readonly onSearch: () => void
  readonly onPreferences: () => void
}) => {
  const client = useQueryClient()
  const { mutate } = useMutation({
    mutationFn: Api.logout,
    onSettled: () => {
      forgetData(client)
      client.setQueryData(["session"], null)
    }
  })
  const nav = useRef<HTMLElement>(null)
  const path = useMatches().at(-1)?.fullPath
  // On a phone, the links are wider than the window.
  useEffect(() => {
    // The result, which is a promise in newer browsers, must not become the effect's clean-up function.
    nav.current?.querySelector(".active")?.scrollIntoView({ inline: "nearest", block: "nearest" })
  }, [path])
  const name = keyName(session.name).replace("the platform's API key", "platform")
  return (
    <header className="top">
      <a className="skip" href="#content">Skip to the content</a>
      <Link to="/" className="brand">stint</Link>
      <nav ref={nav} aria-label="Pages">
        {pages.filter(({ isListed }) => isListed?.(session) === true).map(({ path, title }) => (
          <Link key={path} to={path} activeOptions={{ exact: path === "/", includeSearch: false }}>{title}</Link>
        ))}
      </nav>
      <div className="who">
        <button
          type="button"
          className="button"
          title="Ctrl+K or Cmd+K"
          onClick={onSearch}
        >
          Go to…
        </button>
        <button
          type="button"
          className="button help"
          aria-label="Display and keys"
          title="Display and keys (?)"
          onClick={onPreferences}
        >
          ?
        </button>
        <Live />
        <span className="muted" title={`Scopes: ${session.scopes.join(", ")}`}>{name}</span>
        <button type="button" className="button" onClick={() => mutate()}>Log out</button>
      </div>
    </header>
  )
}

/** The page for an unknown address. */
export const NotFound = () => (
  <>
    <h1>There is no page at this address</h1>
    <p>
      The address may be misspelt. <Link to="/">Home</Link> shows every endpoint.
    </p>
  </>
)

/** Shown when a page fails: because of a defect in the console, or because a newer version of the platform has replaced its files. */
export const Broken = ({ error }: { readonly error: unknown }) => (
  <>
    <h1>This page failed</h1>
    <Problem error={error} onRetry={() => window.location.reload()} />
    <p>If the platform was updated, reload the page. Otherwise, report the message above.</p>
  </>
)

/** The frame. */
export const Shell = () => {
  const query = useSessionQuery()
  const path = useMatches().at(-1)?.fullPath
  const page = pages.find((one) => one.path === path || `${one.path}/` === path)
  const isLoggedIn = query.data != null
  const [isPaletteOpen, setPaletteOpen] = usePaletteKey()
  const [isHelpOpen, setHelpOpen] = useState(false)
  const openHelp = useCallback(() => setHelpOpen(true), [])
  const { zone } = usePreferences()
  useShortcuts(useNavigate(), isLoggedIn, openHelp)
  useLiveEvents(isLoggedIn)
  useEffect(() => {
    if (isLoggedIn) document.title = `${page?.title ?? "Not found"} · Stint`
  }, [isLoggedIn, page])
  if (query.data === undefined) {
    return (
      <main className="login">
        {query.error === null ? <Loading rows={2} /> : <Problem error={query.error} onRetry={() => void query.refetch()} />}
      </main>
    )
  }
  if (query.data === null) return <Login />
  return (
    <SessionContext value={query.data}>
      <Navigation session={query.data} onSearch={() => setPaletteOpen(true)} onPreferences={openHelp} />
      {/* Another time zone draws every time again. */}
      <main key={zone} id="content" className="content" tabIndex={-1}>
        <Outlet />
      </main>
      {isPaletteOpen
        ? (
          <Suspense fallback={null}>
            <Palette onClose={() => setPaletteOpen(false)} />
          </Suspense>
        )
        : null}
      {isHelpOpen
        ? (
          <Suspense fallback={null}>
            <Preferences onClose={() => setHelpOpen(false)} />
          </Suspense>
        )
        : null}
    </SessionContext>
  )
}
