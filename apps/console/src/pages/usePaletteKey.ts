/**
 * Opens the command palette with its keyboard shortcut.
 */
import { useEffect, useState } from "react"

/** Whether the palette is open. Ctrl+K or Cmd+K opens and closes it. */
export const usePaletteKey = (): readonly [isOpen: boolean, setOpen: (isOpen: boolean) => void] => {
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
      event.preventDefault()
      setOpen((open) => !open)
    }
    window.addEventListener("keydown", onKey)
    return () => window.removeEventListener("keydown", onKey)
  }, [])
  return [isOpen, setOpen]
}
