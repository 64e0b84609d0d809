/**
 * A button that saves a text as a file.
 */

import { useMutation } from "@tanstack/react-query"

const save = (name: string, type: string, text: string) => {
  const address = URL.createObjectURL(new Blob([text], { type }))
  const link = document.createElement("a")
  link.href = address
  link.download = name
  link.click()
  URL.revokeObjectURL(address)
}

/** The button. `text` is called when the button is clicked. The button says when it failed. */
export const Download = ({ children, name, text, type }: {
  readonly children: string
  readonly name: string
  readonly type: string
  readonly text: () => string | Promise<string>
}) => {
  const { error, mutate } = useMutation({
    mutationFn: async () => text(),
    onSuccess: (found) => save(name, type, found)
  })
  return (
    <button
      type="button"
      className={error === null ? "button" : "button danger"}
      title={error === null ? undefined : `${error.message} Click to try again.`}
      onClick={() => mutate()}
    >
      {error === null ? children : `${children} failed`}
    </button>
  )
}
