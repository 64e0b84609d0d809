/**
 * A button that asks for confirmation before it does something that cannot be undone.
 */
import { AlertDialog } from "@base-ui/react/alert-dialog"
import { useMutation } from "@tanstack/react-query"
import { useState } from "react"
import { Problem } from "./Loaded.tsx"

/** The button, its question, and what it does. The dialog stays open while the call runs, and shows its failure. */
export const Confirm = ({ action, body, danger = false, label, name = label, onDone, title, verb }: {
  readonly label: string
  /** What screen readers say instead of the label, when several buttons have the same one. */
  readonly name?: string
  readonly title: string
  readonly body: string
  readonly verb: string
  readonly danger?: boolean
  readonly action: () => Promise<unknown>
  readonly onDone: () => void
}) => {
  const [isOpen, setOpen] = useState(false)
  const { error, isPending, mutate, reset } = useMutation({
    mutationFn: action,
    onSuccess: () => {
      setOpen(false)
      onDone()
    }
  })
  return (
    <AlertDialog.Root
      open={isOpen}
      onOpenChange={(open) => {
        reset()
        setOpen(open)
      }}
    >
      <AlertDialog.Trigger className={danger ? "button danger" : "button"} aria-label={name}>{label}</AlertDialog.Trigger>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className="backdrop" />
        <AlertDialog.Popup className="dialog">
          <AlertDialog.Title className="dialog-title">{title}</AlertDialog.Title>
          <AlertDialog.Description>{body}</AlertDialog.Description>
          {error === null ? null : <Problem error={error} />}
          <div className="actions">
            <AlertDialog.Close className="button">Back</AlertDialog.Close>
            <button
              type="button"
              className={danger ? "button danger solid" : "button primary"}
              disabled={isPending}
              onClick={() => mutate()}
            >
              {verb}
            </button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}
