/**
 * How the reader wants to see the console: the colours and the time zone. Stored in this browser.
 */
import { useSyncExternalStore } from "react"
import { isZone } from "../format/Zones.ts"

/** The colours. `system`: as the operating system is set. */
export const THEMES = [["system", "As the system"], ["light", "Light"], ["dark", "Dark"]] as const

/** One of {@link THEMES}. */
export type Theme = (typeof THEMES)[number][0]

/** The choices. */
export interface Preferences {
  readonly theme: Theme
  /** The time zone of all times; undefined: that of the browser. */
  readonly zone: string | undefined
}

const KEY = "stint.preferences"

const DEFAULTS: Preferences = { theme: "system", zone: undefined }

/** The choices in a stored text. Anything invalid has its default. */
export const preferencesOf = (stored: string | null): Preferences => {
  let value: unknown
  try {
    value = JSON.parse(stored ?? "{}")
  } catch {
    return DEFAULTS
  }
  const at = (key: string): unknown => typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined
  const zone = at("zone")
  return {
    theme: THEMES.find(([theme]) => theme === at("theme"))?.[0] ?? DEFAULTS.theme,
    zone: typeof zone === "string" && isZone(zone) ? zone : undefined
  }
}

const load = (): Preferences => {
  try {
    return preferencesOf(window.localStorage.getItem(KEY))
  } catch {
    return DEFAULTS
  }
}

const listeners = new Set<() => void>()
const store: { current: Preferences } = { current: typeof window === "undefined" ? DEFAULTS : load() }

/** The choices now. */
export const preferences = (): Preferences => store.current

const show = ({ theme }: Preferences) => {
  if (theme === "system") delete document.documentElement.dataset["theme"]
  else document.documentElement.dataset["theme"] = theme
}

/** Applies the stored choices, before the first page is drawn. */
export const applyPreferences = () => show(store.current)

/** Changes choices, and stores them. */
export const setPreferences = (change: Partial<Preferences>) => {
  store.current = { ...store.current, ...change }
  show(store.current)
  try {
    window.localStorage.setItem(KEY, JSON.stringify(store.current))
  } catch {
    // A browser without storage keeps the choices until the user leaves the page.
  }
  for (const listener of listeners) listener()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => {
    listeners.delete(listener)
  }
}

/** The choices, for components. */
export const usePreferences = (): Preferences => useSyncExternalStore(subscribe, preferences)
