/**
 * The keys of the console, beside Ctrl+K for the command palette. {@link SHORTCUTS} describes them.
 */
import type { useNavigate } from "@tanstack/react-router"
import { useEffect } from "react"

/** The letters after `g`, and their pages. */
const PAGE_KEYS = {
  h: "/",
  j: "/console/jobs",
  e: "/console/errors",
  l: "/console/logs",
  p: "/console/playground",
  s: "/console/schedules",
  w: "/console/workers",
  u: "/console/usage"
} as const

/** The keys, for the reader. */
export const SHORTCUTS: ReadonlyArray<{ readonly keys: ReadonlyArray<string>; readonly text: string }> = [
  { keys: ["Ctrl", "K"], text: "Go to a page, an endpoint or a job (Cmd on a Mac)" },
  { keys: ["/"], text: "Go to the query, or to the first field" },
  { keys: ["j", "k"], text: "The next or the previous row; Enter opens it" },
  { keys: ["g", "h"], text: "Home" },
  { keys: ["g", "j"], text: "Jobs" },
  { keys: ["g", "e"], text: "Errors" },
  { keys: ["g", "l"], text: "Logs" },
  { keys: ["g", "p"], text: "Playground" },
  { keys: ["g", "s"], text: "Schedules" },
  { keys: ["g", "w"], text: "Workers" },
  { keys: ["g", "u"], text: "Usage" },
  { keys: ["?"], text: "These keys, the colours and the time zone" },
  { keys: ["Esc"], text: "Close a dialog" }
]

/** A letter counts as the second key for this long, in milliseconds. */
const CHORD_MILLIS = 1_500

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.matches("input, select, textarea") || target.isContentEditable)

/** The first link of each row, in the order of the page. */
const rowLinks = (): ReadonlyArray<HTMLElement> =>
  [...document.querySelectorAll<HTMLElement>("main .job-row, main tbody tr")].flatMap((row) => {
    const link = row.matches("a") ? row : row.querySelector<HTMLElement>("a")
    return link === null ? [] : [link]
  })

const moveTo = (step: 1 | -1) => {
  const links = rowLinks()
  const current = links.findIndex((link) =>
    link === document.activeElement || link.closest("tr")?.contains(document.activeElement) === true
  )
  const next = links[current === -1 ? (step === 1 ? 0 : links.length - 1) : current + step]
  next?.focus()
  next?.scrollIntoView({ block: "nearest" })
}

/** Listens for the keys. `onHelp`: the reader asks for them. Keys with Ctrl, Alt or Cmd, in fields, and in dialogs belong to the browser. */
export const useShortcuts = (navigate: ReturnType<typeof useNavigate>, isOn: boolean, onHelp: () => void): void => {
  useEffect(() => {
    if (!isOn) return
    let chordUntil = 0
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      if (document.querySelector("[role=dialog], [role=alertdialog]") !== null) return
      const isChord = event.timeStamp < chordUntil
      chordUntil = 0
      const page = isChord ? Object.entries(PAGE_KEYS).find(([key]) => key === event.key)?.[1] : undefined
      if (page !== undefined) {
        event.preventDefault()
        void navigate({ to: page })
      } else if (event.key === "g") chordUntil = event.timeStamp + CHORD_MILLIS
      else if (event.key === "j" || event.key === "k") moveTo(event.key === "j" ? 1 : -1)
      else if (event.key === "?") {
        event.preventDefault()
        onHelp()
      } else if (event.key === "/") {
        const field = document.querySelector<HTMLElement>("main [role=search] input, main input:not([type=range]), main select")
        if (field === null) return
        event.preventDefault()
        field.focus()
      }
    }
    window.addEventListener("keydown", onKey)
    return () => window.removeEventListener("keydown", onKey)
  }, [navigate, isOn, onHelp])
}
