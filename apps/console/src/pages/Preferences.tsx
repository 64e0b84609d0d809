/**
 * The reader's choices, and the keys of the console.
 */
import { Dialog } from "@base-ui/react/dialog"
import { useId } from "react"
import { allZones, inZone, localZone } from "../format/Zones.ts"
import { useNow } from "../live/Clock.ts"
import { setPreferences, THEMES, usePreferences } from "../live/Preferences.ts"
import { Chips } from "../ui/Choices.tsx"
import { SHORTCUTS } from "./useShortcuts.ts"

const Zone = () => {
  const { zone } = usePreferences()
  const now = useNow()
  const field = useId()
  const own = localZone()
  return (
    <>
      <label htmlFor={field}>Times in</label>
      <select
        id={field}
        value={zone ?? ""}
        aria-describedby={`${field}-now`}
        onChange={({ target }) => setPreferences({ zone: target.value === "" ? undefined : target.value })}
      >
        <option value="">this browser's zone ({own})</option>
        {allZones().map((name) => <option key={name} value={name}>{name}</option>)}
      </select>
      <p id={`${field}-now`} className="muted">
        Now: {inZone(now, zone ?? own)}. Schedules have their own choice on their pages.
      </p>
    </>
  )
}

const Preferences = ({ onClose }: { readonly onClose: () => void }) => {
  const { theme } = usePreferences()
  return (
    <Dialog.Root open onOpenChange={(isOpen) => isOpen ? undefined : onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog preferences">
          <Dialog.Title className="dialog-title">Display and keys</Dialog.Title>
          <p className="field-label">Colours</p>
          <Chips label="Colours" choices={THEMES} value={theme} onChoose={(chosen) => setPreferences({ theme: chosen })} />
          <Zone />
          <h2>Keys</h2>
          <dl className="keys">
            {SHORTCUTS.map(({ keys, text }) => (
              <div key={text}>
                <dt>{keys.map((key) => <kbd key={key}>{key}</kbd>)}</dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
          <div className="actions">
            <Dialog.Close className="button">Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

export default Preferences
