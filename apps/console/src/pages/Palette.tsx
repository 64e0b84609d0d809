/**
 * The command palette: finds a page, endpoint or job by a few letters.
 */
import { Dialog } from "@base-ui/react/dialog"
import { useQuery } from "@tanstack/react-query"
import { useNavigate } from "@tanstack/react-router"
import { type KeyboardEvent, useId, useState } from "react"
import * as Api from "../api/Api.ts"
import { useSession } from "../api/useSession.ts"
import { paletteItems } from "./PaletteItems.ts"

/** The palette. The arrow keys choose, and Enter opens. */
const Palette = ({ onClose }: { readonly onClose: () => void }) => {
  const session = useSession()
  const navigate = useNavigate()
  const list = useId()
  const [text, setText] = useState("")
  const [chosen, setChosen] = useState(0)
  const { data } = useQuery({ queryKey: ["overview"], queryFn: ({ signal }) => Api.overview(signal) })
  const items = paletteItems(session, (data?.endpoints ?? []).map(({ id }) => id), text)
  const index = Math.min(chosen, items.length - 1)
  const open = (href: string) => {
    onClose()
    void navigate({ href })
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const item = items[index]
    if (event.key === "Enter" && item !== undefined) open(item.href)
    else if (event.key === "ArrowDown") setChosen(Math.min(index + 1, items.length - 1))
    else if (event.key === "ArrowUp") setChosen(Math.max(index - 1, 0))
    else return
    event.preventDefault()
  }
  return (
    <Dialog.Root open onOpenChange={(isOpen) => isOpen ? undefined : onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Go to">
          <input
            type="text"
            role="combobox"
            aria-label="Page, endpoint or job id"
            aria-expanded
            aria-controls={list}
            aria-activedescendant={items.length === 0 ? undefined : `${list}-${index}`}
            autoComplete="off"
            autoFocus
            spellCheck={false}
            placeholder="Page, endpoint or job id"
            value={text}
            onChange={(event) => {
              setText(event.target.value)
              setChosen(0)
            }}
            onKeyDown={onKeyDown}
          />
          <div id={list} role="listbox" aria-label="Matches">
            {items.map(({ href, label }, n) => (
              <div
                key={href}
                id={`${list}-${n}`}
                role="option"
                aria-selected={n === index}
                onClick={() => open(href)}
              >
                {label}
              </div>
            ))}
          </div>
          {items.length === 0 ? <p className="muted" role="status">Nothing matches "{text}".</p> : null}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

export default Palette
